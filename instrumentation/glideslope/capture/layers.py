# SPDX-License-Identifier: Apache-2.0
"""Gradient norm of every parameter, in one fused pass over the local shards.

In: an optimizer whose gradients are there. Out: a `LayerDraft` with the norms, still on the device when that is CUDA.
The norms are those the optimizer sees: after clipping, without the loss scale. No collective: of a sharded parameter it
is the norm of the local shard. Imports torch.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch.optim.optimizer import Optimizer

from glideslope.capture import device
from glideslope.capture.model import ModuleTree, parameter_names
from glideslope.capture.step import LayerDraft


@dataclass(slots=True)
class _Layout:
    keys: tuple[int, ...]
    names: tuple[str, ...]


class GradientNorms:
    """Measures all parameters of an optimizer; names are looked up once per set of parameters."""

    def __init__(self, tree: ModuleTree) -> None:
        self._tree = tree
        self._layouts: weakref.WeakKeyDictionary[Optimizer, _Layout] = weakref.WeakKeyDictionary()

    def measure(self, optimizer: Optimizer) -> LayerDraft | None:
        """Return the norms of the gradients, or None when there is none that can be read here."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        present: list[int] = []
        gradients: list[torch.Tensor] = []
        for i, parameter in enumerate(parameters):
            gradient = _shard(parameter.grad)
            if gradient is not None:
                present.append(i)
                gradients.append(gradient)
        if not gradients:
            return None
        kind = gradients[0].device
        if kind.type not in ("cpu", "cuda") or any(gradient.device != kind for gradient in gradients):
            return None
        if kind.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return None
        with torch.no_grad():
            norms = _foreach_norms(gradients)
            scale = device.read(getattr(optimizer, "grad_scale", None))
            if scale is not None:
                norms = norms / scale
        names = self._names(optimizer, parameters)
        return LayerDraft(names, present, norms.numpy() if kind.type == "cpu" else norms)

    def _names(self, optimizer: Optimizer, parameters: list[torch.Tensor]) -> tuple[str, ...]:
        keys = tuple(map(id, parameters))
        layout = self._layouts.get(optimizer)
        if layout is None or layout.keys != keys:
            layout = self._layouts[optimizer] = _Layout(keys, parameter_names(self._tree, optimizer))
        return layout.names


def _shard(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """The local part of a gradient; None for sparse ones and for partial sums, whose norm means nothing."""
    if gradient is None or gradient.layout != torch.strided:
        return None
    placements = getattr(gradient, "placements", None)
    if placements is None or not hasattr(gradient, "_local_tensor"):
        return gradient.detach()
    if any(placement.is_partial() for placement in placements):
        return None
    return gradient._local_tensor.detach()  # type: ignore[no-any-return]


def _foreach_norms(gradients: list[torch.Tensor]) -> torch.Tensor:
    """2-norms as one float64 tensor; half-precision gradients are summed in float32, where squares do not overflow."""
    if any(gradient.dtype in (torch.float16, torch.bfloat16) for gradient in gradients):
        norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
    else:
        norms = torch._foreach_norm(gradients, 2)
    if all(norm.dtype == norms[0].dtype for norm in norms):
        return torch.stack(norms).to(torch.float64)
    return torch.stack([norm.to(torch.float64) for norm in norms])
