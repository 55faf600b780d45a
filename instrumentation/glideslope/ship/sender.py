# SPDX-License-Identifier: Apache-2.0
"""The thread that ships a spool while its writer lives.

In: a delivery and its cursor. Out: progress; bounded `flush` and `close`. Imports its neighbours.
The thread is a daemon, starts once, holds no lock that the training thread takes, and wakes four times a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from glideslope.ship.cursor import Cursor
from glideslope.ship.delivery import Delivery
from glideslope.ship.spool import SpoolWriter

_log = logging.getLogger("glideslope")

POLL_S = 0.25
_SWEEP_S = 2.0


class Sender:
    """Runs `Delivery.advance` in a daemon thread."""

    def __init__(
        self,
        writer: SpoolWriter,
        cursor: Cursor,
        delivery: Delivery,
        *,
        quiet: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`quiet` wraps the thread's whole life."""
        self._writer, self._cursor, self._delivery, self._quiet = writer, cursor, delivery, quiet
        self._moved = threading.Condition()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="glideslope-sender", daemon=True)

    def start(self) -> None:
        """Start the threads; where none can be started the values stay on disk."""
        try:
            self._delivery.start()
            self._thread.start()
        except RuntimeError as error:
            _log.warning(
                "no sender thread (%s): values stay in %s, see `glideslope sync`", error, self._writer.directory
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything appended before the call was acknowledged; False when time ran out."""
        target, deadline = self._writer.sequence, time.monotonic() + timeout_s
        self._delivery.hurry(target)
        with self._moved:
            while self._delivery.acknowledged < target:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._moved.wait(min(left, POLL_S))
        return True

    def close(self, timeout_s: float) -> bool:
        """Send what waits and end the thread; returns after `timeout_s` at the latest. True when nothing is left.

        Gives up early when nobody listens at the endpoint or it wants more time than there is.
        """
        self._deadline = time.monotonic() + timeout_s
        self._delivery.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        done = self._delivery.acknowledged >= self._writer.sequence
        if not done:
            self._delivery.ledger.say_unreachable("not all could be sent before exit")
        return done

    def _run(self) -> None:
        with self._quiet():
            swept = time.monotonic()
            while True:
                try:
                    if self._turn():
                        break
                    if time.monotonic() - swept >= (POLL_S if self._writer.crowded else _SWEEP_S):
                        self._sweep()
                        swept = time.monotonic()
                except Exception:
                    # A fault of ours must end neither training nor shipping; the records stay on disk.
                    _log.debug("sender", exc_info=True)
                    if self._deadline is not None:
                        break
                    time.sleep(_SWEEP_S)
            self._delivery.close()

    def _turn(self) -> bool:
        """One step; True when the thread shall end."""
        deadline = self._deadline
        if deadline is None:
            self._delivery.advance(POLL_S)
        else:
            self._delivery.finish_by(deadline)
            self._delivery.advance(min(POLL_S, max(0.0, deadline - time.monotonic())))
        self._note()
        return deadline is not None and (self._delivery.finished or time.monotonic() >= deadline)

    def _note(self) -> None:
        """Publish progress: drop the lag marks that were acknowledged, wake those who flush."""
        marks, done = self._writer.marks, self._delivery.acknowledged
        while marks and marks[0][0] <= done:
            marks.popleft()
        with self._moved:
            self._moved.notify_all()

    def _sweep(self) -> None:
        """Delete what is durable; on a nearly full disk more than that."""
        self._cursor.settle()
        freed = self._cursor.forget()
        if freed:
            self._writer.release(freed)
        if self._writer.crowded:
            self._delivery.relieve()
            # In an outage the store may have been killed: what it acknowledged last goes only when new values would.
            if self._writer.full or not self._delivery.failing:
                self._writer.release(self._cursor.forget(crowded=True))
        self._cursor.save()
