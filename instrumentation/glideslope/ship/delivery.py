# SPDX-License-Identifier: Apache-2.0
"""From records to acknowledged requests, one step at a time: the logic of sending, without a thread of its own.

In: a spool folder, an encoder (injected), a transport. Out: progress, counters, one warning per kind of trouble.
Imports its neighbours. Used by the sender thread and by `sync`.

Each signal is a lane with its own position, so a receiver of traces that is stuck holds up no metrics. Encoding and
judging happen in the calling thread; only posting happens elsewhere.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Protocol

from glideslope.ship.cursor import METRICS, SIGNALS, Cursor
from glideslope.ship.lane import Encode, Lane, Ledger, Request, State, signal_of
from glideslope.ship.posters import Posters
from glideslope.ship.quarantine import Quarantine
from glideslope.ship.reader import SpoolReader, bytes_behind
from glideslope.ship.transport import READ_S, Answer

_log = logging.getLogger("glideslope")

WINDOW = {METRICS: 3, "traces": 1, "logs": 1}
"""Requests in flight by signal. Through collector and VictoriaMetrics on two cores, 3 carry 1.2 times as much as 1."""
_TRIES_AT_EXIT = 2
_WAIT_AT_EXIT_S = 0.2


class Post(Protocol):
    """What is needed of a transport."""

    def compress(self, body: bytes, /) -> bytes:
        """Compress a body the way `post` announces it."""

    def post(self, signal: str, body: bytes, read_s: float, /) -> Answer:
        """Post a compressed body within about `read_s` seconds; never raises."""


class Delivery:
    """Sends one spool; holds at most two batches of each signal in memory."""

    def __init__(
        self,
        cursor: Cursor,
        encode: Encode,
        transport: Post,
        where: str,
        *,
        live: Callable[[], bool] = lambda: False,
        newest: Callable[[], int] | None = None,
        threads: int = sum(WINDOW.values()),
        say: Callable[[str], None] = _log.warning,
        inform: Callable[[str], None] = _log.info,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`where` names the receiver in warnings; `say` is told each kind of trouble once, `inform` each replay.

        `live()`: whether the spool's writer may still append; `newest()`: sequence number of its last record; `quiet`
        wraps the threads that post.
        """
        self.ledger = Ledger(where, str(cursor.directory), say, inform)
        self._cursor, self._newest, self._clock = cursor, newest, clock
        self._deadline: float | None = None
        self._tries = dict.fromkeys(SIGNALS, 0)
        self._wanted_sequence = 0
        self._posters: Posters[Request] = Posters(transport.post, threads, quiet)
        quarantine = Quarantine(cursor.directory)
        self.lanes = {
            signal: Lane(
                signal,
                WINDOW[signal],
                SpoolReader(cursor.directory, live, cursor.acknowledged[signal], partial(_becomes, signal)),
                cursor,
                encode,
                transport.compress,
                quarantine,
                self.ledger,
            )
            for signal in SIGNALS
        }

    @property
    def acknowledged(self) -> int:
        """Sequence number up to which everything is done."""
        return min(lane.acknowledged for lane in self.lanes.values())

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return all(lane.state is State.IDLE for lane in self.lanes.values())

    @property
    def failing(self) -> bool:
        """Whether the receiver did not take the metrics it was sent last."""
        return self.lanes[METRICS].failures > 0

    def waiting_bytes(self) -> int:
        """Bytes on disk that some signal still has to read or to see acknowledged."""
        return bytes_behind(self._cursor.directory, min(self._cursor.acknowledged.values()))

    def start(self) -> None:
        """Start the threads that post."""
        self._posters.start()

    def wake(self) -> None:
        """End the wait of `advance`; callable from any thread."""
        self._posters.wake()

    def hurry(self, sequence: int) -> None:
        """Gather no more until everything up to this record was sent; callable from any thread."""
        self._wanted_sequence = max(self._wanted_sequence, sequence)
        self._posters.wake()

    def finish_by(self, deadline: float) -> None:
        """From now on waste no time: every lane tries at once, and gives up where nobody answers. Call it often."""
        if self._deadline is not None:
            return
        self._deadline = deadline
        self._tries = dict.fromkeys(SIGNALS, _TRIES_AT_EXIT)
        for lane in self.lanes.values():
            lane.retry_at = 0.0

    @property
    def finished(self) -> bool:
        """After `finish_by`: whether nothing waits or waiting is of no use."""
        return self._deadline is not None and all(
            lane.state is State.IDLE
            or (lane.state is State.UNREACHABLE and self._tries[signal] <= 0)
            or (lane.state in (State.REFUSED, State.WAIT) and lane.retry_at >= self._deadline)
            for signal, lane in self.lanes.items()
        )

    def advance(self, wait_s: float) -> bool:
        """Post what may be posted, wait up to `wait_s` seconds for answers, act on them; True when one came."""
        now = self._clock()
        # Without a living writer nothing new is waited for.
        dead = self._newest is None
        for lane in self.lanes.values():
            lane.hurry = dead or self._deadline is not None or lane.acknowledged < self._wanted_sequence
            nothing_new = self._newest is not None and lane.reader.sequence == self._newest()
            while (request := lane.next(now, nothing_new)) is not None:
                self._posters.submit(request, self._patience(now))
        came = False
        item = self._posters.take(0.0 if dead and self.idle else min(wait_s, self._next_try(now)))
        while item is not None:
            came = True
            self._judge(*item)
            item = self._posters.take(0.0)
        return came

    def relieve(self) -> None:
        """The disk is nearly full: a signal that is behind metrics gives up what only it still needs."""
        place = self._cursor.acknowledged[METRICS]._replace(offset=0)
        for signal, lane in self.lanes.items():
            if signal != METRICS and self._cursor.acknowledged[signal] < place:
                lane.skip_to(place)
                text = f"{self.ledger.where} does not take {signal}: the oldest are dropped, the spool is full"
                self.ledger.say(f"behind-{signal}", text)

    def close(self) -> None:
        """Write the cursor, let go of files and threads."""
        self._cursor.save()
        self._posters.stop()
        for lane in self.lanes.values():
            lane.reader.close()

    def _judge(self, request: Request, answer: Answer) -> None:
        metrics = self.lanes[METRICS]
        took = request.signal == METRICS and 200 <= answer.status < 300
        before = self._cursor.acknowledged[METRICS]
        if self._cursor.hear(answer.epoch, took):
            if self._cursor.safe < max(before, metrics.reader.position):
                self.ledger.inform(
                    f"glideslope: the store behind {self.ledger.where} restarted: what it acknowledged last is sent "
                    f"again from {self.ledger.directory}"
                )
            metrics.restart()
        lane, now = self.lanes[request.signal], self._clock()
        lane.judge(request, answer, now)
        if self._deadline is not None and lane.state is State.UNREACHABLE:
            lane.retry_at = now + _WAIT_AT_EXIT_S
            self._tries[request.signal] -= 1

    def _next_try(self, now: float) -> float:
        """Seconds until a lane can do something without an answer."""
        if any(lane.more for lane in self.lanes.values()):
            return 0.0
        waits = [lane.retry_at - now for lane in self.lanes.values() if lane.retry_at > now and not lane.in_flight]
        return min(waits, default=float("inf"))

    def _patience(self, now: float) -> float:
        return READ_S if self._deadline is None else min(READ_S, max(0.05, self._deadline - now))


def _becomes(signal: str, kind: int) -> bool:
    return signal_of(kind) == signal
