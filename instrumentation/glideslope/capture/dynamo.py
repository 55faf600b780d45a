# SPDX-License-Identifier: Apache-2.0
"""Keeping torch.compile away from our frames, and us away from its graphs.

In: our functions. Out: the same functions, marked. Imports torch.

Three kinds of code, three rules (measured in tests/unit/capture/test_compile.py):
* wrappers around functions that a compiled frame may inline: first line is the `compiling()` guard, and the frame
  itself is skipped, so that it still runs as plain Python when the compiler broke the graph before it;
* callbacks that such wrappers call: skipped with everything they call;
* optimizer hooks: skipped likewise and marked `_torchdynamo_disable`, which makes a compiled `step` call them eagerly.
  That is `torch._dynamo.disable` without its per-call wrapper and without importing the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _never() -> bool:
    return False


compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
"""True while torch.compile or torch.export traces."""

try:
    from torch._C._dynamo import eval_frame as _frames

    _SKIP = _frames._FrameAction.SKIP
    _ONLY_THIS = _frames._FrameExecStrategy(_SKIP, _frames._FrameAction.DEFAULT)
    _AND_CALLEES = _frames._FrameExecStrategy(_SKIP, _SKIP)
    _set_strategy: Any = _frames.set_code_exec_strategy
except (ImportError, AttributeError):  # before torch 2.8
    _set_strategy = None


def keep_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the compiler skip the frame of `function`, but not what it calls; inlining stays possible."""
    if _set_strategy is not None:
        _set_strategy(function.__code__, _ONLY_THIS)
    return function


def keep_out_deep(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the compiler skip the frame of `function` and everything below it."""
    if _set_strategy is None:
        disable: Callable[..., Any] | None = getattr(torch, "_disable_dynamo", None)
        return function if disable is None else disable(function)
    _set_strategy(function.__code__, _AND_CALLEES)
    return function


def optimizer_hook(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `function` a hook that fires inside a compiled `optimizer.step` as well, at the price of no extra graph."""
    hook = keep_out_deep(function)
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    hook._torchdynamo_disable_msg = None  # type: ignore[attr-defined]
    return hook
