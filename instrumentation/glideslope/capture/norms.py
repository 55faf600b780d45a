# SPDX-License-Identifier: Apache-2.0
"""The total gradient norm, as the training computes it anyway.

In: calls of torch's norm and clip functions. Out: norm and limit for the step tracker. Imports torch.

`clip_grad_norm_` looks up its two halves in its own module, so patching the halves covers it even where a script has
imported it by name before us; torch versions that have no halves get the whole function patched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import utils
from torch.nn.utils import clip_grad

from glideslope.capture import device
from glideslope.capture.patch import Around
from glideslope.capture.step import Scalar

if TYPE_CHECKING:
    from glideslope.capture.hooks import Hooks


class Norms:
    """Callbacks of the clip functions."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def halves_called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """One of the halves begins; only its arguments matter afterwards."""
        return (args, kwargs) if self._hooks.recorder.on_training_thread() else None

    def norm_returned(self, token: tuple[tuple[Any, ...], dict[str, Any]], result: Any) -> None:
        """`get_total_norm(tensors)` returned; norms of parameters themselves are not ours."""
        args, kwargs = token
        tensors = args[0] if args else kwargs.get("tensors")
        if not isinstance(tensors, (list, tuple)) or not tensors:
            return
        if isinstance(tensors[0], torch.nn.Parameter) or tensors[0].requires_grad:
            return
        # Mostly it is clipped to next, which reads it: the tensor is read when the step closes without a clip.
        norm = self._unscaled(device.read(result)) if self._hooks.backward.gradients_are_scaled() else result
        if norm is not None:
            self._hooks.tracker.norm_computed(self._hooks.now(), norm)

    def clip_called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`clip_grads_with_norm_(parameters, max_norm, total_norm)` begins."""
        if self._hooks.recorder.on_training_thread():
            parameters, limit, norm = (
                args[i] if len(args) > i else kwargs.get(name)
                for i, name in enumerate(("parameters", "max_norm", "total_norm"))
            )
            self._clipped(parameters, limit, norm)

    def whole_returned(self, token: tuple[tuple[Any, ...], dict[str, Any]], result: Any) -> None:
        """`clip_grad_norm_(parameters, max_norm)` of older torch versions returned the norm before clipping."""
        args, kwargs = token
        parameters, limit = (
            args[i] if len(args) > i else kwargs.get(name) for i, name in enumerate(("parameters", "max_norm"))
        )
        self._clipped(parameters, limit, result)

    def _clipped(self, parameters: Any, limit: Any, total: Any) -> None:
        norm = self._unscaled(device.read(total))
        if norm is not None and isinstance(limit, (int, float)):
            self._hooks.tracker.clipped(self._hooks.now(), _identity(parameters), norm, float(limit))

    def _unscaled(self, norm: Scalar | None) -> Scalar | None:
        if norm is None or not self._hooks.backward.gradients_are_scaled():
            return norm
        scale = self._hooks.backward.scale()
        return norm if scale is None else norm / scale


def _identity(parameters: Iterable[torch.Tensor] | torch.Tensor) -> tuple[int, ...] | None:
    """Tells parameter sets apart by their ends and length; an iterator is not touched."""
    if isinstance(parameters, torch.Tensor):
        return (id(parameters),)
    if isinstance(parameters, (list, tuple)) and parameters:
        return (len(parameters), id(parameters[0]), id(parameters[-1]))
    return None


def attach(hooks: Hooks) -> None:
    """Patch the clip functions at every place where torch exports them."""
    norms = Norms(hooks)
    split = hooks.patch(
        "grad.norm",
        [(clip_grad, "_get_total_norm"), (utils, "get_total_norm")],
        Around(norms.halves_called, norms.norm_returned),
    ) and hooks.patch(
        "grad.clip",
        [(clip_grad, "_clip_grads_with_norm_"), (utils, "clip_grads_with_norm_")],
        Around(norms.clip_called),
    )
    if not split:
        hooks.patch(
            "grad.clip",
            [(clip_grad, "clip_grad_norm_"), (utils, "clip_grad_norm_")],
            Around(norms.halves_called, norms.whole_returned),
        )
