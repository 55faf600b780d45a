# SPDX-License-Identifier: Apache-2.0
"""From records to acknowledged requests, one step at a time: the logic of sending, without a thread of its own.

In: a reader, an encoder (injected), a transport. Out: progress, counters, one warning per kind of trouble.
Imports its neighbours. Used by the sender thread and by `sync`.

2xx: go on. 429, 5xx, no answer: wait, with jitter and Retry-After. 413: encode smaller. 400: quarantine.
401, 403, a metrics path that is not there: keep everything and say so.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from glideslope.ship.quarantine import Quarantine
from glideslope.ship.reader import SpoolReader
from glideslope.ship.records import Record, context_and_count, drop_class, is_definition
from glideslope.ship.transport import READ_S, Answer, Transport

_log = logging.getLogger("glideslope")

MAX_POINTS = 5_000
"""VictoriaMetrics 1.151 spends 1.9 CPU-s per million points at 5,000 a request, 3.0 at 10,000 and 3.9 at 40,000."""
MAX_BYTES = 4 << 20
_READ_BYTES = 4 << 20
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_RETRY_AFTER_S, _REFUSED_WAIT_S = 0.25, 15.0, 60.0, 30.0
_SERVER_ERROR_TRIES = 10
_SPEAK_AFTER = 3
"""Failures in a row before the warning: a restart of the collector is no news."""


class EncodedRequest(Protocol):
    """What the injected encoder returns."""

    @property
    def signal(self) -> str:
        """`metrics`, `traces` or `logs`."""

    @property
    def body(self) -> bytes:
        """Serialized OTLP request."""

    @property
    def points(self) -> int:
        """Points, spans or logs in it."""


class Encode(Protocol):
    """Frames to requests, in the order of the frames; it remembers definitions and bears repeats."""

    def __call__(
        self, batch: Sequence[tuple[int, bytes]], max_points: int, max_bytes: int, /
    ) -> Sequence[EncodedRequest]:
        """Encode a batch of (kind, payload)."""


class State(Enum):
    """How a step went."""

    IDLE = "idle"
    """Nothing waits."""
    MOVED = "moved"
    """Something was sent or set aside; go on at once."""
    WAIT = "wait"
    """The receiver wants time."""
    REFUSED = "refused"
    """The receiver refuses until someone changes settings."""
    UNREACHABLE = "unreachable"
    """Nobody answered."""


class Step(NamedTuple):
    """Outcome of `Delivery.advance`."""

    state: State
    wait_s: float = 0.0


class _Pending(NamedTuple):
    signal: str
    body: bytes
    points: int
    size: int


class Delivery:
    """Sends one spool in order; holds one batch in memory."""

    def __init__(
        self,
        reader: SpoolReader,
        encode: Encode,
        transport: Transport,
        where: str,
        say: Callable[[str], None] = _log.warning,
    ) -> None:
        """`where` names the receiver in warnings; `say` is told each kind of trouble once, in a sentence."""
        self.sent_points = 0
        """Metric points that were acknowledged."""
        self.replayed_points = 0
        """Metric points that were sent again after a request that nobody answered."""
        self.dropped: dict[tuple[str, str], int] = {}
        self._reader, self._encode, self._transport, self._where = reader, encode, transport, where
        self._quarantine = Quarantine(reader.directory)
        self._batch: list[Record] = []
        self._pending: deque[_Pending] = deque()
        self._max_points, self._max_bytes = MAX_POINTS, MAX_BYTES
        self._failures = 0
        self._unanswered = False
        self._said: set[str] = set()
        self._tell = say

    def advance(self, read_s: float = READ_S) -> Step:
        """Send one request, or read the next batch; never raises."""
        if not self._pending:
            if self._batch:
                self._finish_batch()
            self._batch = self._reader.read(_READ_BYTES)
            if not self._batch:
                return Step(State.IDLE)
            self._pending.extend(self._encoded(self._batch))
            if not self._pending:
                self._finish_batch()
                return Step(State.MOVED)
        request = self._pending[0]
        answer = self._transport.post(request.signal, request.body, read_s)
        step = self._judge(request, answer)
        if step.state is State.MOVED:
            self._failures = 0
            self._unanswered = False
            if not self._pending:
                self._finish_batch()
        return step

    def say_unreachable(self, reason: str) -> None:
        """Warn, once, that nothing can be sent and where it waits."""
        self._say(
            "unreachable",
            f"telemetry cannot be sent to {self._where} ({reason}): it waits in {self._reader.directory} and is sent "
            "when the receiver answers; after the training, `glideslope sync` sends it",
        )

    def _finish_batch(self) -> None:
        self._reader.commit()
        self._batch = []

    def _judge(self, request: _Pending, answer: Answer) -> Step:
        status = answer.status
        if 200 <= status < 300:
            self._accepted(request, answer)
        elif status == 413:
            self._split(request)
        elif status == 0:
            self._unanswered = True
            return self._again(State.UNREACHABLE, answer)
        elif status in (404, 405, 415, 501) and request.signal != "metrics":
            self._say(request.signal, f"{self._where} takes no {request.signal} ({answer.message}): they are dropped")
            self._set_aside(request, answer.message, keep=False)
        elif status in (401, 403, 404, 405, 407, 415, 501) or 300 <= status < 400:
            self._say(
                "refused",
                f"{self._where} refuses telemetry ({answer.message}): check OTEL_EXPORTER_OTLP_ENDPOINT and "
                f"OTEL_EXPORTER_OTLP_HEADERS; it waits in {self._reader.directory}",
            )
            return Step(State.REFUSED, _REFUSED_WAIT_S * random.uniform(0.5, 1.0))
        elif status in (408, 425, 429, 502, 503, 504) or (status >= 500 and self._failures < _SERVER_ERROR_TRIES):
            return self._again(State.WAIT, answer)
        else:
            self._set_aside(request, answer.message, keep=True)
        return Step(State.MOVED)

    def _accepted(self, request: _Pending, answer: Answer) -> None:
        self._pending.popleft()
        if answer.rejected > 0:
            self._drop(request.signal, "partial", answer.rejected)
            self._say("partial", f"{self._where} rejected {answer.rejected} of {request.points}: {answer.message}")
        if request.signal == "metrics":
            self.sent_points += request.points - min(answer.rejected, request.points)
            if self._unanswered:
                self.replayed_points += request.points

    def _split(self, request: _Pending) -> None:
        """Encode the batch again with smaller requests; signals that were acknowledged as a whole are left out."""
        if request.points <= 1:
            self._set_aside(request, "HTTP 413: one point alone is too large", keep=True)
            return
        self._max_points = min(self._max_points, max(1, request.points // 2))
        self._max_bytes = min(self._max_bytes, max(1024, request.size // 2))
        left = {pending.signal for pending in self._pending}
        self._pending = deque(pending for pending in self._encoded(self._batch) if pending.signal in left)

    def _set_aside(self, request: _Pending, reason: str, *, keep: bool) -> None:
        self._pending.popleft()
        self._drop(request.signal, "rejected", request.points)
        if keep:
            path = self._quarantine.keep(request.signal, request.body, request.points, reason)
            place = f", kept in {path}" if path else ""
            self._say("rejected", f"{self._where} rejected {request.points} {request.signal} ({reason}){place}")

    def _again(self, state: State, answer: Answer) -> Step:
        self._failures += 1
        if self._failures == _SPEAK_AFTER:
            self.say_unreachable(answer.message)
        wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 10)) * random.uniform(0.5, 1.0)
        if answer.retry_after_s is not None:
            wait = max(wait, min(answer.retry_after_s, _LONGEST_RETRY_AFTER_S))
        return Step(state, wait)

    def _encoded(self, batch: Sequence[Record]) -> list[_Pending]:
        frames = [(record.kind, record.payload) for record in batch]
        try:
            requests = self._encode(frames, self._max_points, self._max_bytes)
        except Exception:
            requests = self._one_by_one(batch)
        return [_Pending(r.signal, self._transport.compress(r.body), r.points, len(r.body)) for r in requests]

    def _one_by_one(self, batch: Sequence[Record]) -> list[EncodedRequest]:
        """Set aside the records that cannot be encoded; the others go on."""
        good: list[EncodedRequest] = []
        for record in batch:
            try:
                good += self._encode([(record.kind, record.payload)], self._max_points, self._max_bytes)
            except Exception as error:
                count = 0 if is_definition(record.kind) else context_and_count(record.payload)[1]
                name = drop_class(record.kind)
                self._drop(name, "rejected", count)
                reason = f"{type(error).__name__}: {error}"
                self._quarantine.keep(f"{name}-record", record.payload, count, reason)
                self._say("encode", f"a record of {self._reader.directory} cannot be encoded ({reason})")
        return good

    def _drop(self, name: str, reason: str, count: int) -> None:
        if count:
            self.dropped[name, reason] = self.dropped.get((name, reason), 0) + count

    def _say(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            # The name goes with it, because logging that nobody configured prints the bare text.
            self._tell(f"glideslope: {text}")
