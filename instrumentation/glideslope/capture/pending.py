# SPDX-License-Identifier: Apache-2.0
"""Logged values that are on their way from a device to the host.

In: device tensors and what to do with their values. Out: that call, once the copy has arrived, in the order of logging.
Imports numpy only; torch comes in through `copy`, so that the machinery is tested without a GPU.

Bounded and never waited for: `CALLS` calls or `VALUES` values at most; when either is full the oldest is dropped and
counted. Whoever comes by looks (later calls, step events, the heartbeat); only `wait` waits, at flush and close.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

CALLS = 4096
VALUES = 4_000_000
_POLL_S = 0.002

Deliver = Callable[[NDArray[np.float64]], object]


class Arrival(Protocol):
    """Tells whether a copy has arrived, as `torch.cuda.Event` does."""

    def query(self) -> bool:
        """True once it has."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that is on its way."""

    members: Sequence[int]
    """Which of the tensors are in it, in order."""
    host: Any
    """float64 buffer that is valid once `arrival` says so; an array or a pinned tensor."""
    sizes: Sequence[int]
    """Number of values of each member."""
    arrival: Arrival


Copy = Callable[[tuple[Any, ...]], list[Copied]]


@dataclass(slots=True)
class _Call:
    copies: list[Copied]
    tensors: int
    values: int
    deliver: Deliver


def copy_tensors(tensors: tuple[Any, ...]) -> list[Copied]:
    """Start one copy to pinned memory for each device; waits for nothing."""
    device: Any = import_module("glideslope.capture.device")
    joined = import_module("glideslope.capture.tensors").flat_by_device(tensors)
    copies = []
    for members, flat in joined:
        room, arrival = device.copy_to_pinned(flat, None)
        copies.append(Copied(members, room, [tensors[member].numel() for member in members], arrival))
    return copies


class Pending:
    """The ring of calls whose values have not arrived.

    Args:
        dropped: told the reason (`ring_full`, `exit`) and the number of values that are given up.
        copy: starts the copies of a call's tensors.
    """

    def __init__(self, dropped: Callable[[str, int], object], copy: Copy = copy_tensors) -> None:
        self._dropped = dropped
        self._copy = copy
        self.calls: deque[_Call] = deque()
        """Calls that wait, oldest first; read it to see whether there are any."""
        self._values = 0
        # Re-entrant, because a finalizer of the training may log while this thread is in here.
        self._lock = threading.RLock()
        self._draining = threading.Lock()

    def __len__(self) -> int:
        return len(self.calls)

    def add(self, tensors: tuple[Any, ...], deliver: Deliver) -> None:
        """Start copying `tensors`; `deliver` gets their values, flat and in order, once all have arrived."""
        copies = self._copy(tensors)
        call = _Call(copies, len(tensors), sum(sum(copied.sizes) for copied in copies), deliver)
        gone = 0
        with self._lock:
            self._values += call.values
            self.calls.append(call)
            while len(self.calls) > CALLS or (self._values > VALUES and len(self.calls) > 1):
                # Its memory goes back to torch, which reuses pinned memory only after the copy into it is done.
                oldest = self.calls.popleft()
                self._values -= oldest.values
                gone += oldest.values
        if gone:
            self._dropped("ring_full", gone)

    def drain(self) -> int:
        """Deliver what has arrived; returns how many calls still wait. Any thread may call it, none waits for another.

        What `deliver` raises ends this turn and is passed on; its call is gone.
        """
        if not self.calls or not self._draining.acquire(blocking=False):
            return len(self.calls)
        try:
            while (call := self._arrived()) is not None:
                call.deliver(_joined(call))
        finally:
            self._draining.release()
        return len(self.calls)

    def _arrived(self) -> _Call | None:
        """Take the oldest call out when all its copies are there."""
        with self._lock:
            if not self.calls or not all(copied.arrival.query() for copied in self.calls[0].copies):
                return None
            call = self.calls.popleft()
            self._values -= call.values
            return call

    def wait(self, timeout_s: float) -> bool:
        """Drain until nothing waits; False when `timeout_s` seconds passed."""
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while self.drain():
            if time.monotonic() >= deadline:
                return False
            pause.wait(_POLL_S)
        return True

    def close(self, timeout_s: float) -> None:
        """Wait, then give up and count what has not arrived."""
        self.wait(timeout_s)
        self.abandon("exit")

    def abandon(self, reason: str = "") -> None:
        """Forget what waits; counted when there is a `reason`, silent in a forked child."""
        calls, self.calls, self._values = self.calls, deque(), 0
        self._lock, self._draining = threading.RLock(), threading.Lock()
        if reason and calls:
            self._dropped(reason, sum(call.values for call in calls))


def _joined(call: _Call) -> NDArray[np.float64]:
    if len(call.copies) == 1:
        only = call.copies[0]
        return np.array(np.asarray(only.host)[: call.values], np.float64)
    parts: list[Any] = [None] * call.tensors
    for copied in call.copies:
        host, at = np.asarray(copied.host), 0
        for member, size in zip(copied.members, copied.sizes, strict=True):
            parts[member] = host[at : at + size]
            at += size
    return np.concatenate(parts)
