# SPDX-License-Identifier: Apache-2.0
"""One signal of a spool on its way: what is sent next, and what each answer means.

In: a reader, an encoder (injected), answers. Out: requests, progress, counters. Imports its neighbours; no thread, no
socket of its own.

2xx: go on. 429, 5xx, no answer: wait, with jitter and Retry-After. 413: encode smaller. 400: quarantine.
401, 403, a metrics path that is not there: keep everything and say so.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from glideslope.ship.cursor import METRICS, Cursor
from glideslope.ship.quarantine import Quarantine
from glideslope.ship.reader import START, Position, SpoolReader
from glideslope.ship.records import Record, context_and_count, drop_class, is_definition
from glideslope.ship.transport import Answer

MAX_POINTS = 5_000
"""VictoriaMetrics 1.151 spends 1.9 CPU-s per million points at 5,000 a request, 3.0 at 10,000 and 3.9 at 40,000."""
MAX_BYTES = 4 << 20
READ_BYTES = 1 << 20
"""Spool bytes in a batch; two batches are in memory, encoded and compressed."""
GATHER_S = 0.25
"""Between two batches of a writer that is slower than the sender: many values travel in one request."""
_BATCHES = 2
_READS = 4
"""Batches without anything of this signal that are passed at a time; the other signals want their turn."""
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_RETRY_AFTER_S, _REFUSED_WAIT_S = 0.25, 15.0, 60.0, 30.0
_SERVER_ERROR_TRIES = 10
_SPEAK_AFTER = 3
"""Failures in a row before the warning: a restart of the collector is no news."""
_CLASS_SIGNALS = {"metrics": "metrics", "layers": "metrics", "traces": "traces", "logs": "logs"}


def signal_of(kind: int) -> str:
    """The signal that a record of this kind becomes."""
    return _CLASS_SIGNALS[drop_class(kind)]


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
    ) -> Iterable[EncodedRequest]:
        """Encode a batch of (kind, payload)."""


class State(Enum):
    """How a signal stands."""

    IDLE = "idle"
    """Nothing waits."""
    BUSY = "busy"
    """Something can be sent or is under way."""
    WAIT = "wait"
    """The receiver wants time."""
    REFUSED = "refused"
    """The receiver refuses until someone changes settings."""
    UNREACHABLE = "unreachable"
    """Nobody answered."""


@dataclass(slots=True)
class Ledger:
    """What happened to a spool's points, and what was said about it; shared by its lanes."""

    where: str
    """Names the receiver."""
    directory: str
    tell: Callable[[str], None]
    inform: Callable[[str], None]
    sent_points: int = 0
    """Metric points that were acknowledged; a point that is sent again counts again."""
    replayed_points: int = 0
    """Metric points that were sent again, because nobody answered or because the store restarted."""
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def drop(self, name: str, reason: str, count: int) -> None:
        """Count what will not be stored."""
        if count:
            self.dropped[name, reason] = self.dropped.get((name, reason), 0) + count

    def say(self, topic: str, text: str) -> None:
        """Say each kind of trouble once, in a sentence."""
        if topic not in self.said:
            self.said.add(topic)
            # The name goes with it, because logging that nobody configured prints the bare text.
            self.tell(f"glideslope: {text}")

    def say_unreachable(self, reason: str) -> None:
        """Warn, once, that nothing can be sent and where it waits."""
        self.say(
            "unreachable",
            f"telemetry cannot be sent to {self.where} ({reason}): it waits in {self.directory} and is sent "
            "when the receiver answers; after the training, `glideslope sync` sends it",
        )


@dataclass(eq=False, slots=True)
class Batch:
    """Records that were read together; acknowledged together."""

    records: list[Record]
    start: Position
    end: Position
    sequence: int
    waiting: deque[Request] = field(default_factory=deque)
    """Requests to be posted, oldest first."""
    under_way: int = 0
    epochs: set[str] = field(default_factory=set)
    asks: bool = False
    replayed: bool = False


@dataclass(eq=False, slots=True)
class Request:
    """One request; in flight between `Lane.next` and `Lane.judge`."""

    signal: str
    body: bytes
    points: int
    size: int
    batch: Batch | None
    """None: nobody waits for the answer any more."""
    number: int
    """Requests of a batch are sent in this order."""
    failures: int = 0
    """Of the lane when it was posted."""
    unanswered: bool = False


class Lane:
    """Sends the records of one signal in order, with its own position and its own patience."""

    def __init__(
        self,
        signal: str,
        window: int,
        reader: SpoolReader,
        cursor: Cursor,
        encode: Encode,
        compress: Callable[[bytes], bytes],
        quarantine: Quarantine,
        ledger: Ledger,
    ) -> None:
        """`window`: requests in flight while all goes well; one at a time otherwise."""
        self.signal, self.reader, self.state = signal, reader, State.BUSY
        self.retry_at = 0.0
        self.failures = 0
        """In a row, without an answer or with one that wants time."""
        self.hurry = False
        """Send what is there at once instead of gathering."""
        self.acknowledged = 0
        """Sequence number up to which everything is done; below 0 while the store is given everything again."""
        self.more = False
        """There may be more to read at once."""
        self._window, self._cursor, self._encode, self._compress = window, cursor, encode, compress
        self._quarantine, self._ledger = quarantine, ledger
        self._batches: deque[Batch] = deque()
        self._posted: list[Request] = []
        self._max_points, self._max_bytes = MAX_POINTS, MAX_BYTES
        self._gather_until = 0.0
        self._replay_until = self._ask_until = reader.position

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._posted)

    def next(self, now: float, nothing_new: bool = False) -> Request | None:
        """Return the next request that may be posted at `now`; `nothing_new`: the spool holds no more than was read."""
        self.more = False
        limit = 1 if self.failures else self._window
        if now < self.retry_at or self.in_flight >= limit:
            return None
        for _ in range(_READS):
            for batch in self._batches:
                if batch.waiting:
                    request = batch.waiting.popleft()
                    batch.under_way += 1
                    self._posted.append(request)
                    request.failures = self.failures
                    self.state = State.BUSY
                    return request
            if len(self._batches) >= _BATCHES or not self._read(now, nothing_new):
                return None
        self.more = True
        return None

    def judge(self, request: Request, answer: Answer, now: float) -> None:
        """Act on the answer of a request that `next` returned."""
        self._posted.remove(request)
        batch = request.batch
        if batch is None:
            return
        batch.under_way -= 1
        status = answer.status
        if 200 <= status < 300:
            self._accepted(request, batch, answer)
        elif status == 413:
            self._split(request, batch)
        elif status == 0:
            request.unanswered = True
            return self._again(State.UNREACHABLE, request, batch, answer, now)
        elif status in (404, 405, 415, 501) and self.signal != METRICS:
            where = self._ledger.where
            self._ledger.say(self.signal, f"{where} takes no {self.signal} ({answer.message}): they are dropped")
            self._set_aside(request, answer.message, keep=False)
        elif status in (401, 403, 404, 405, 407, 415, 501) or 300 <= status < 400:
            self._ledger.say(
                "refused",
                f"{self._ledger.where} refuses telemetry ({answer.message}): check OTEL_EXPORTER_OTLP_ENDPOINT and "
                f"OTEL_EXPORTER_OTLP_HEADERS; it waits in {self._ledger.directory}",
            )
            return self._again(State.REFUSED, request, batch, answer, now)
        elif status in (408, 425, 429, 502, 503, 504) or (status >= 500 and self.failures < _SERVER_ERROR_TRIES):
            return self._again(State.WAIT, request, batch, answer, now)
        else:
            self._set_aside(request, answer.message, keep=True)
        if request.failures == self.failures:
            self.failures, self.retry_at = 0, 0.0
        self._finish()

    def restart(self) -> None:
        """Read from the acknowledged position on again; what is in memory or in flight is forgotten."""
        sent = [batch.end if batch.epochs or batch.under_way else batch.start for batch in self._batches]
        self._replay_until = max(self._replay_until, max(sent, default=self.reader.position))
        self._ask_until = START
        for batch in self._batches:
            self._forget_posted(batch)
        self._batches.clear()
        self.reader.seek(self._cursor.acknowledged[self.signal])
        self.acknowledged, self._gather_until, self.state = -1, 0.0, State.BUSY

    def ask(self) -> None:
        """Send the last batch again, uncounted, to hear the epoch of the store."""
        self.restart()
        self._ask_until = self.reader.position
        self.reader.seek(self._cursor.last)

    def skip_to(self, position: Position) -> None:
        """Drop, counted, what waits before `position`: the disk is full and the receiver does not take it."""
        self.restart()
        start = self.reader.position
        while self.reader.position < position:
            here = self.reader.position
            for record in self.reader.read(64 << 10):
                if not is_definition(record.kind):
                    self._ledger.drop(drop_class(record.kind), "quota", context_and_count(record.payload)[1])
            if self.reader.position == here:
                break
        self._cursor.advance(self.signal, start, self.reader.position)
        self.acknowledged = self.reader.sequence

    def close(self) -> None:
        """Close the files."""
        self.reader.close()

    def _read(self, now: float, nothing_new: bool) -> bool:
        """Read and encode a batch; False when there is none now."""
        if nothing_new:
            if not self._batches:
                self.state = State.IDLE
            return False
        if now < self._gather_until and not self.hurry:
            return False
        start = self.reader.position
        records = self.reader.read(READ_BYTES)
        end = self.reader.position
        for name, points in self.reader.take_missing().items():
            self._ledger.drop(name, "damaged", points)
            text = (
                f"{points:,} points of {name} that were on disk are gone (deleted or damaged): {self._ledger.directory}"
            )
            self._ledger.say(f"damaged-{name}", text)
        if end == start:
            if not self._batches:
                self.state = State.IDLE
            return False
        full = sum(len(record.payload) for record in records) >= READ_BYTES // 2 or end.segment > start.segment
        self._gather_until = 0.0 if full else now + GATHER_S
        batch = Batch(records, start, end, self.reader.sequence)
        batch.asks, batch.replayed = start < self._ask_until, start < self._replay_until
        self._fill(batch)
        self._batches.append(batch)
        self._finish()
        return True

    def _finish(self) -> None:
        """Move the cursor over the batches that are done, in their order."""
        while self._batches and not self._batches[0].waiting and not self._batches[0].under_way:
            batch = self._batches.popleft()
            self._cursor.advance(self.signal, batch.start, batch.end, batch.epochs)
            self.acknowledged = batch.sequence

    def _accepted(self, request: Request, batch: Batch, answer: Answer) -> None:
        batch.epochs.add(answer.epoch)
        if answer.rejected > 0:
            self._ledger.drop(self.signal, "partial", answer.rejected)
            text = f"{self._ledger.where} rejected {answer.rejected} of {request.points}: {answer.message}"
            self._ledger.say("partial", text)
        if self.signal == METRICS and not batch.asks:
            self._ledger.sent_points += request.points - min(answer.rejected, request.points)
            if request.unanswered or batch.replayed:
                self._ledger.replayed_points += request.points

    def _split(self, request: Request, batch: Batch) -> None:
        """Encode the batch again with smaller requests."""
        if request.points <= 1:
            self._set_aside(request, "HTTP 413: one point alone is too large", keep=True)
            return
        self._max_points = min(self._max_points, max(1, request.points // 2))
        self._max_bytes = min(self._max_bytes, max(1024, request.size // 2))
        self._forget_posted(batch)
        self._fill(batch)

    def _forget_posted(self, batch: Batch) -> None:
        """Nobody waits for the answers of a batch any more."""
        batch.under_way = 0
        for request in self._posted:
            if request.batch is batch:
                request.batch = None

    def _set_aside(self, request: Request, reason: str, *, keep: bool) -> None:
        self._ledger.drop(self.signal, "rejected", request.points)
        if keep:
            path = self._quarantine.keep(self.signal, request.body, request.points, reason)
            place = f", kept in {path}" if path else ""
            where = self._ledger.where
            text = (
                f"{where} rejected {request.points} {self.signal} ({reason}){place}: check that "
                "OTEL_EXPORTER_OTLP_ENDPOINT names a receiver of OTLP/HTTP; what is rejected is not sent again"
            )
            self._ledger.say("rejected", text)

    def _again(self, state: State, request: Request, batch: Batch, answer: Answer, now: float) -> None:
        """Put the request back to its place and wait."""
        place = sum(other.number < request.number for other in batch.waiting)
        batch.waiting.insert(place, request)
        self.state = state
        if answer.retry_after_s is not None:
            self.retry_at = max(self.retry_at, now + min(answer.retry_after_s, _LONGEST_RETRY_AFTER_S))
        if request.failures < self.failures:
            # Posted together with one that failed already: the same trouble, not the next.
            return
        self.failures += 1
        if state is State.REFUSED:
            wait = _REFUSED_WAIT_S * random.uniform(0.5, 1.0)
        else:
            if self.failures == _SPEAK_AFTER:
                self._ledger.say_unreachable(answer.message)
            wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(self.failures - 1, 10)) * random.uniform(0.5, 1.0)
        self.retry_at = max(self.retry_at, now + wait)

    def _fill(self, batch: Batch) -> None:
        frames = [(record.kind, record.payload) for record in batch.records]
        try:
            found = self._encoded(frames, batch)
        except Exception:
            found = self._one_by_one(batch)
        batch.waiting = deque(found)

    def _encoded(self, frames: Sequence[tuple[int, bytes]], batch: Batch, first: int = 0) -> list[Request]:
        requests = self._encode(frames, self._max_points, self._max_bytes)
        return [
            Request(r.signal, self._compress(r.body), r.points, len(r.body), batch, first + number)
            for number, r in enumerate(requests)
        ]

    def _one_by_one(self, batch: Batch) -> list[Request]:
        """Set aside the records that cannot be encoded; the others go on."""
        good: list[Request] = []
        for record in batch.records:
            try:
                good += self._encoded([(record.kind, record.payload)], batch, len(good))
            except Exception as error:
                count = 0 if is_definition(record.kind) else context_and_count(record.payload)[1]
                name = drop_class(record.kind)
                self._ledger.drop(name, "rejected", count)
                reason = f"{type(error).__name__}: {error}"
                self._quarantine.keep(f"{name}-record", record.payload, count, reason)
                text = f"a record of {self._ledger.directory} cannot be encoded ({reason})"
                self._ledger.say("encode", text)
        return good
