# SPDX-License-Identifier: Apache-2.0
"""Reading scalars without making the training wait for its device.

In: tensors. Out: floats at once for CPU tensors; for CUDA tensors, floats a few steps later, through pinned memory and
an event that is only ever queried. Nothing here calls `.item()` on a device tensor or synchronizes. Imports torch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from glideslope.capture.step import Draft, Scalar

SLOTS = 16
"""Steps whose values may be on their way at once."""
BACKLOG = 64
"""Steps that may wait for publication at once; steps that come on top are dropped, counted."""
POLL_S = 0.05


def local(tensor: Any) -> torch.Tensor | None:
    """The part of a tensor that this process can read without talking to others; None where that is not the value.

    A DTensor holds its value only where every placement is a replica: shards and partial sums would need a collective.
    """
    if not isinstance(tensor, torch.Tensor):
        return None
    placements = getattr(tensor, "placements", None)
    if placements is not None and hasattr(tensor, "_local_tensor"):
        if not all(placement.is_replicate() for placement in placements):
            return None
        return tensor._local_tensor  # type: ignore[no-any-return]
    return None if type(tensor).__name__ == "FakeTensor" else tensor


def read(value: Any) -> Scalar | None:
    """A number, or a tensor of one element, as a float; as a float64 copy on the device when it lives on CUDA.

    None for what cannot be read without waiting (other devices, a stream under capture) or is no scalar.
    """
    if isinstance(value, (int, float)):
        return float(value)
    tensor = local(value)
    if tensor is None or tensor.numel() != 1:
        return None
    if tensor.device.type == "cpu":
        return float(tensor.detach())
    if tensor.device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return None
    with torch.no_grad():
        return tensor.detach().reshape(()).to(torch.float64, copy=True)


def _device_values(draft: Draft) -> list[tuple[Any, Any, torch.Tensor]]:
    """(holder, key, tensor) of every value of the draft that is still on a device."""
    found: list[tuple[Any, Any, torch.Tensor]] = []
    for part in fields(Draft):
        value = getattr(draft, part.name)
        if isinstance(value, torch.Tensor):
            found.append((draft, part.name, value))
    for i, rate in enumerate(draft.lrs):
        if isinstance(rate, torch.Tensor):
            found.append((draft, i, rate))
    for key, (norm, _) in draft.clips.items():
        if isinstance(norm, torch.Tensor):
            found.append((draft.clips, key, norm))
    for layers in draft.layers:
        if isinstance(layers.values, torch.Tensor):
            found.append((layers, "values", layers.values))
    return found


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = (value, holder[key][1])
    elif isinstance(key, int):
        holder.lrs = (*holder.lrs[:key], value, *holder.lrs[key + 1 :])
    else:
        setattr(holder, key, value)


def copy_to_pinned(values: torch.Tensor, room: torch.Tensor | None) -> tuple[torch.Tensor, Any]:
    """Start copying a flat float64 device tensor to pinned memory; returns that memory and the event to query."""
    if room is None or room.numel() < values.numel():
        room = torch.empty(max(64, values.numel()), dtype=torch.float64, device="cpu", pin_memory=True)
    room[: values.numel()].copy_(values, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(values.device))
    return room, event


@dataclass(slots=True)
class _Waiting:
    draft: Draft
    targets: list[tuple[Any, Any, torch.Tensor]]
    room: torch.Tensor | None
    event: Any


class Drain:
    """Publishes drafts in order, each when its device values have arrived.

    Args:
        publish: gets each draft once all its values are plain numbers.
        failed: counts what goes wrong on the drain thread.
        dropped: told the reason when values or a whole step are given up because too much is on its way.
        copy: starts the copy of a flat float64 tensor to the host (replaced in tests: no GPU there).
        device_used: whether values may be on a device at all.
    """

    def __init__(
        self,
        publish: Callable[[Draft], None],
        failed: Callable[[str, Exception], None],
        dropped: Callable[[str], None],
        copy: Callable[[torch.Tensor, torch.Tensor | None], tuple[torch.Tensor, Any]] = copy_to_pinned,
        device_used: Callable[[], bool] = torch.cuda.is_initialized,
    ) -> None:
        self._publish = publish
        self._failed = failed
        self._dropped = dropped
        self._copy = copy
        self._device_used = device_used
        self._queue: deque[_Waiting] = deque()
        self._rooms: list[torch.Tensor | None] = [None] * SLOTS
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, draft: Draft) -> None:
        """Publish a draft now as long as no value was ever on a device, else in order when its values have arrived."""
        targets = _device_values(draft) if self._device_used() else []
        if not targets and self._thread is None:
            self._publish(draft)
            return
        if len(self._queue) >= BACKLOG:
            self._dropped("backlog")
            return
        room, event = None, None
        if targets and not self._rooms:
            self._dropped("ring_full")
            for holder, key, value in targets:
                _put(holder, key, np.full(value.numel(), np.nan) if value.dim() else None)
            draft.lrs = tuple(rate for rate in draft.lrs if rate is not None)
            draft.clips = {key: pair for key, pair in draft.clips.items() if pair[0] is not None}
            targets = []
        if targets:
            with torch.no_grad():
                first = targets[0][2].device
                flat = torch.cat([value.reshape(-1).to(first, non_blocking=True) for _, _, value in targets])
                room, event = self._copy(flat, self._rooms.pop())
        self._queue.append(_Waiting(draft, targets, room, event))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="glideslope-drain", daemon=True)
            self._thread.start()

    def drain(self) -> int:
        """Publish every draft whose values have arrived; returns how many still wait. Any thread may call it."""
        with self._lock:
            while self._queue:
                head = self._queue[0]
                if head.event is not None and not head.event.query():
                    break
                if head.room is not None:
                    host, at = head.room.numpy(), 0
                    for holder, key, value in head.targets:
                        part = host[at : at + value.numel()]
                        at += value.numel()
                        _put(holder, key, part.copy() if value.dim() else float(part[0]))
                    self._rooms.append(head.room)
                self._queue.popleft()
                self._publish(head.draft)
            return len(self._queue)

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop the thread after the last values arrived or `timeout_s` passed; what is left is dropped, counted."""
        self._stop.set()
        if self._thread is None:
            return
        waiter = threading.Event()
        for _ in range(int(timeout_s / POLL_S)):
            if not self.drain():
                break
            waiter.wait(POLL_S)
        for _ in range(len(self._queue)):
            self._dropped("exit")
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            try:
                self.drain()
            except Exception as error:
                self._failed("drain", error)
