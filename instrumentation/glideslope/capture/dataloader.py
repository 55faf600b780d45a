# SPDX-License-Identifier: Apache-2.0
"""Waiting for data, and how much came: tokens and samples by the shapes of the batch.

In: calls of the dataloader iterator's `__next__`. Out: marks for the step tracker. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from glideslope.capture.patch import Around

if TYPE_CHECKING:
    from glideslope.capture.hooks import Hooks

_TOKEN_NAMES = ("input_ids", "tokens", "idx", "input", "inputs", "x")


def _tensors(batch: Any, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a batch with the names under which they stand, at most three levels deep."""
    if isinstance(batch, torch.Tensor):
        yield "", batch
    elif depth < 3 and isinstance(batch, Mapping):
        for name, value in batch.items():
            for inner, tensor in _tensors(value, depth + 1):
                yield inner or str(name), tensor
    elif depth < 3 and isinstance(batch, (list, tuple)):
        for value in batch[:64]:
            yield from _tensors(value, depth + 1)
    elif depth < 3 and is_dataclass(batch) and not isinstance(batch, type):
        for part in fields(batch):
            for inner, tensor in _tensors(getattr(batch, part.name, None), depth + 1):
                yield inner or part.name, tensor


def shape_counts(batch: Any) -> tuple[int, int]:
    """(tokens, samples) of a batch, by shapes alone.

    Tokens: size of the first integer tensor of two dimensions, tensors named like token ids first; 0 where there is
    none. Samples: dimension 0 of that tensor, else of the first tensor that has one.
    """
    ids: torch.Tensor | None = None
    rank = len(_TOKEN_NAMES) + 1
    samples = 0
    for name, tensor in _tensors(batch):
        if not samples and tensor.dim():
            samples = int(tensor.shape[0])
        if tensor.dim() == 2 and not tensor.is_floating_point() and tensor.dtype not in (torch.bool, torch.complex64):
            place = _TOKEN_NAMES.index(name) if name in _TOKEN_NAMES else len(_TOKEN_NAMES)
            if place < rank:
                ids, rank = tensor, place
    return (ids.numel(), int(ids.shape[0])) if ids is not None else (0, samples)


class Batches:
    """Callbacks around the dataloader."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def requested(self, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[int, int] | None:
        """The next batch is asked for; the token holds the time and the identity of the dataset."""
        if not self._hooks.recorder.on_training_thread():
            return None
        self._hooks.tracker.batch_requested()
        return (self._hooks.now(), id(getattr(_args[0], "_dataset", None)))

    def delivered(self, token: tuple[int, int], batch: Any) -> None:
        """A batch came."""
        end = self._hooks.now()
        self._hooks.tracker.batch_delivered(token[0], end, token[1], *shape_counts(batch))


def attach(hooks: Hooks) -> None:
    """Patch the base class of torch's dataloader iterators."""
    batches = Batches(hooks)
    hooks.patch("dataloader", [(_BaseDataLoaderIter, "__next__")], Around(batches.requested, batches.delivered))
