# SPDX-License-Identifier: Apache-2.0
"""The threads in which requests wait for their answers.

In: requests. Out: (request, answer) pairs, in the order of the answers. Imports `transport`.
Daemon threads of our own: those of concurrent.futures are joined at interpreter exit. They only post; what an answer
means is decided in the thread that takes it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, Protocol, TypeVar

from glideslope.ship.transport import Answer


class Postable(Protocol):
    """What can be posted."""

    @property
    def signal(self) -> str:
        """`metrics`, `traces` or `logs`."""

    @property
    def body(self) -> bytes:
        """Compressed body."""


R = TypeVar("R", bound=Postable)


class Posters(Generic[R]):
    """Posts each request in the next free thread; with no thread at all, in the caller's."""

    def __init__(
        self,
        post: Callable[[str, bytes, float], Answer],
        threads: int,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`post(signal, body, read_s)` must be bounded in time; `quiet` wraps the life of each thread."""
        self._post, self._quiet = post, quiet
        self._work: queue.SimpleQueue[tuple[R, float] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[R, Answer] | None] = queue.SimpleQueue()
        self._wanted, self._started = threads, 0

    def start(self) -> None:
        """Start the threads, once; fewer where the system gives no more."""
        while self._started < self._wanted:
            thread = threading.Thread(target=self._run, name="glideslope-poster", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._wanted = self._started
                return
            self._started += 1

    def submit(self, request: R, read_s: float) -> None:
        """Post a request; its answer comes out of `take`."""
        if self._started:
            self._work.put((request, read_s))
        else:
            self._answers.put((request, self._post(request.signal, request.body, read_s)))

    def take(self, timeout_s: float) -> tuple[R, Answer] | None:
        """The next answer; None after `timeout_s` seconds or `wake`."""
        try:
            return self._answers.get(timeout_s > 0, max(0.0, timeout_s))
        except queue.Empty:
            return None

    def wake(self) -> None:
        """Let `take` return at once; callable from any thread."""
        self._answers.put(None)

    def stop(self) -> None:
        """Let the threads end after what they do now."""
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        with self._quiet():
            while (item := self._work.get()) is not None:
                request, read_s = item
                try:
                    answer = self._post(request.signal, request.body, read_s)
                except Exception as error:
                    answer = Answer(0, f"{type(error).__name__}: {error}"[:200])
                self._answers.put((request, answer))
