# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, as torch knows it.

In: torch, when the script has loaded it and started a process group. Out: rank and world size. Imports no torch itself.
"""

from __future__ import annotations

import sys
from typing import Any


def process_group() -> tuple[int, int] | None:
    """(rank, world size) of the default process group; None while there is none."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return int(distributed.get_rank()), int(distributed.get_world_size())
    except (AttributeError, RuntimeError, ValueError):
        return None
