# SPDX-License-Identifier: Apache-2.0
"""Which GPU this process trains on.

In: torch, when the script has loaded it. Out: the GPU's UUID as the driver and DCGM spell it. Imports no torch itself.
"""

from __future__ import annotations

import sys
from typing import Any


def gpu_uuid() -> str:
    """UUID of the current CUDA device (`GPU-…`), or "" without CUDA, before its first use, or on an old torch.

    Asks only the properties that CUDA cached at its start: no synchronisation, no context is made.
    """
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return ""
        uuid = str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", ""))
    except (AttributeError, RuntimeError, AssertionError):
        return ""
    if not uuid:
        return ""
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
