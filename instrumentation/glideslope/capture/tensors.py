# SPDX-License-Identifier: Apache-2.0
"""Tensors that people log: read now when they are on the host, kept for a copy when they are on a CUDA device.

In: tensors of any kind. Out: floats, float64 arrays, detached device tensors, refusals. Imports torch; loaded only by a
process that has loaded torch. Nothing here waits for a device and nothing talks to other ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glideslope.capture import device
from glideslope.capture.values import Refused, several

_SHARDED = Refused(
    "sharded",
    "it is a DTensor whose value is spread over ranks: log x.full_tensor() (a collective that all ranks call) or "
    "x.to_local() under a name of its own",
)
_COLLECTIVE = Refused("collective", "it is the result of a collective that may still run: log x.wait() instead")
_EMPTY = Refused("fake", "it is a meta or fake tensor and holds no data: log outside of tracing and torch.compile")
_WRAPPED = Refused("transformed", "it is inside a torch.func transform: return it and log it outside")
_CAPTURED = Refused("capturing", "a CUDA graph is being captured: log after the capture")
_COMPLEX = Refused("complex", "it is complex: log x.abs(), or x.real and x.imag under two names")
_SPARSE = Refused("sparse", "it is sparse or quantized: log x.to_dense() or x.dequantize()")

_wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda tensor: False)


def _plain(tensor: torch.Tensor) -> torch.Tensor | Refused:
    """The local, detached tensor behind `tensor`, on the host or on CUDA."""
    if _wrapped(tensor):
        return _WRAPPED
    local = device.local(tensor)
    if local is None:
        return _EMPTY if type(tensor).__name__ == "FakeTensor" else _SHARDED
    if hasattr(local, "trigger_wait"):
        return _COLLECTIVE
    if local.is_meta or type(local).__name__ in ("FakeTensor", "FunctionalTensor"):
        return _EMPTY
    if local.is_complex():
        return _COMPLEX
    if local.layout is not torch.strided or local.is_quantized:
        return _SPARSE
    kind = local.device.type
    if kind == "cuda":
        return _CAPTURED if torch.cuda.is_current_stream_capturing() else local.detach()
    if kind != "cpu":
        return Refused("device", f"it lives on {kind}, where reading waits: pass x.item() if that is what you want")
    return local.detach()


def scalar(tensor: torch.Tensor) -> float | torch.Tensor | Refused:
    """A tensor of one element as a float, or detached, shape (), when it is on CUDA."""
    if tensor.numel() != 1:
        return several(tuple(tensor.shape))
    found = _plain(tensor)
    if isinstance(found, Refused):
        return found
    return float(found) if found.device.type == "cpu" else found.reshape(())


def many(tensor: torch.Tensor) -> Any:
    """A tensor as a float64 array of the same shape, or detached when it is on CUDA."""
    found = _plain(tensor)
    if isinstance(found, Refused) or found.device.type != "cpu":
        return found
    return found.to(torch.float64).resolve_neg().numpy()


def histogram(tensor: torch.Tensor, edges: NDArray[np.float64]) -> Any:
    """A tensor on the host as a flat float64 array; one on CUDA counted there, as `distributions.unpack` reads it."""
    found = _plain(tensor)
    if isinstance(found, Refused):
        return found
    flat = found.reshape(-1).to(torch.float64)
    return flat.resolve_neg().numpy() if found.device.type == "cpu" else counted(flat, edges)


_bounds: dict[torch.device, torch.Tensor] = {}


def counted(flat: torch.Tensor, edges: NDArray[np.float64]) -> torch.Tensor:
    """Counts per bin of `edges`, sum and number of non-finite values of a flat float64 tensor, on its device.

    Nothing here depends on a value that the host would have to know, so nothing waits; `edges` are always the same.
    """
    with torch.no_grad():
        finite = torch.isfinite(flat)
        bounds = _bounds.get(flat.device)
        if bounds is None:
            bounds = _bounds[flat.device] = torch.tensor(edges.tolist(), dtype=torch.float64).to(flat.device)
        bins = (torch.bucketize(flat, bounds, right=False) - 1).clamp_(0, edges.size - 2)
        out = torch.zeros(edges.size + 1, dtype=torch.float64, device=flat.device)
        out.scatter_add_(0, bins, finite.to(torch.float64))
        out[-2] = torch.where(finite, flat, 0.0).sum()
        out[-1] = (~finite).sum()
        return out


def flat_by_device(tensors: tuple[torch.Tensor, ...]) -> list[tuple[list[int], torch.Tensor]]:
    """Join tensors to one flat float64 tensor for each device; says which of `tensors` are in it, in order."""
    groups: dict[torch.device, list[int]] = {}
    for position, tensor in enumerate(tensors):
        groups.setdefault(tensor.device, []).append(position)
    joined = []
    with torch.no_grad():
        for members in groups.values():
            parts = [tensors[position].reshape(-1) for position in members]
            if len({part.dtype for part in parts}) > 1:
                parts = [part.to(torch.float64) for part in parts]
            # A copy in every case: the training may write into the tensor while ours is on its way.
            flat = torch.cat(parts) if len(parts) > 1 else parts[0]
            joined.append((members, flat.to(torch.float64, copy=len(parts) == 1)))
    return joined
