# SPDX-License-Identifier: Apache-2.0
"""Functions that scripts may call inside a compiled function: the compiler breaks the graph there and runs them as is.

In: functions. Out: the same functions, marked once torch is loaded. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import wrapt


def run_eagerly(*functions: Callable[..., Any]) -> None:
    """Keep torch.compile out of `functions` and of what they call, now or as soon as the script imports torch."""

    def mark(_torch: Any) -> None:
        dynamo = import_module("glideslope.capture.dynamo")
        for function in functions:
            dynamo.optimizer_hook(function)

    wrapt.register_post_import_hook(mark, "torch")
