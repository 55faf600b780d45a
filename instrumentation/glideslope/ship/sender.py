# SPDX-License-Identifier: Apache-2.0
"""The thread that ships a spool while its writer lives.

In: a delivery and its reader. Out: progress; bounded `flush` and `close`. Imports its neighbours.
The thread is a daemon, starts once, holds no lock that the training thread takes, and wakes four times a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from glideslope.ship.delivery import Delivery, State, Step
from glideslope.ship.reader import SpoolReader
from glideslope.ship.spool import SpoolWriter
from glideslope.ship.transport import READ_S

_log = logging.getLogger("glideslope")

POLL_S = 0.25
_SWEEP_S = 2.0
_TRIES_AT_EXIT = 2
_WAIT_AT_EXIT_S = 0.2


class Sender:
    """Runs `Delivery.advance` in a daemon thread."""

    def __init__(
        self,
        writer: SpoolWriter,
        reader: SpoolReader,
        delivery: Delivery,
        *,
        retain_s: float,
        quiet: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`retain_s`: seconds that acknowledged segments are kept; `quiet` wraps the thread's whole life."""
        self._writer, self._reader, self._delivery = writer, reader, delivery
        self._retain_s, self._quiet = retain_s, quiet
        self._wake = threading.Event()
        self._moved = threading.Condition()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="glideslope-sender", daemon=True)

    def start(self) -> None:
        """Start the thread; where none can be started the values stay on disk."""
        try:
            self._thread.start()
        except RuntimeError as error:
            _log.warning(
                "no sender thread (%s): values stay in %s, see `glideslope sync`", error, self._reader.directory
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything appended before the call was acknowledged; False when time ran out."""
        target, deadline = self._writer.sequence, time.monotonic() + timeout_s
        self._wake.set()
        with self._moved:
            while self._reader.acknowledged < target:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._moved.wait(min(left, POLL_S))
        return True

    def close(self, timeout_s: float) -> bool:
        """Send what waits and end the thread; returns after `timeout_s` at the latest. True when nothing is left.

        Gives up early when nobody listens at the endpoint.
        """
        self._deadline = time.monotonic() + timeout_s
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        done = self._reader.acknowledged >= self._writer.sequence
        if not done:
            self._delivery.say_unreachable("not all could be sent before exit")
        return done

    def _run(self) -> None:
        with self._quiet():
            swept = time.monotonic()
            while True:
                try:
                    if self._turn():
                        return
                    if time.monotonic() - swept >= _SWEEP_S:
                        self._sweep()
                        swept = time.monotonic()
                except Exception:
                    # A fault of ours must end neither training nor shipping; the records stay on disk.
                    _log.debug("sender", exc_info=True)
                    self._wake.wait(_SWEEP_S)
                    if self._deadline is not None:
                        return

    def _turn(self) -> bool:
        """One step and the pause after it; True when the thread shall end."""
        step = self._delivery.advance(self._patience())
        self._note()
        closing = self._deadline is not None
        if step.state is State.MOVED:
            return closing and self._left() <= 0
        if closing:
            return step.state in (State.IDLE, State.REFUSED) or self._last_tries(step)
        self._wake.wait(POLL_S if step.state is State.IDLE else step.wait_s)
        if self._deadline is None:
            self._wake.clear()
        return False

    def _last_tries(self, step: Step) -> bool:
        """At exit: try again shortly, until time is up, or twice where nobody answers; True when that is over."""
        for attempt in range(2, 1_000_000):
            if step.state in (State.MOVED, State.IDLE):
                return step.state is State.IDLE
            refused = step.state is State.UNREACHABLE and attempt > _TRIES_AT_EXIT
            if refused or step.state is State.REFUSED or self._left() <= 0:
                return True
            pause = _WAIT_AT_EXIT_S if step.state is State.UNREACHABLE else max(_WAIT_AT_EXIT_S, step.wait_s)
            time.sleep(min(pause, max(0.0, self._left())))
            step = self._delivery.advance(self._patience())
            self._note()
        return True

    def _left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def _patience(self) -> float:
        return min(READ_S, max(0.05, self._left()))

    def _note(self) -> None:
        """Publish progress: drop the lag marks that were acknowledged, wake those who flush."""
        marks, done = self._writer.marks, self._reader.acknowledged
        while marks and marks[0][0] <= done:
            marks.popleft()
        with self._moved:
            self._moved.notify_all()

    def _sweep(self) -> None:
        freed = self._reader.forget(0.0 if self._writer.crowded else self._retain_s)
        if freed:
            self._writer.release(freed)
