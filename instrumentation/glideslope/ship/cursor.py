# SPDX-License-Identifier: Apache-2.0
"""How far a spool was delivered and how much of that is durable: `cursor.json`.

In: acknowledgements, epochs of the store. Out: positions; the order to send again; deletion of what is durable.
Imports `reader`, `spool`.

VictoriaMetrics acknowledges before data are durable: killed, it loses up to 10.5 s. So metrics stay on disk after their
acknowledgement until the same life of the store (its epoch) has acknowledged something `retain_s` seconds later, and
everything behind that position is sent again when an epoch appears that was never seen. A receiver that names no epoch
is trusted after `retain_s` by the clock. Spans and logs are stored twice when sent twice, so they are never repeated.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from glideslope.ship.reader import START, Position
from glideslope.ship.spool import segment_numbers, segment_path

CURSOR = "cursor.json"
METRICS = "metrics"
SIGNALS = (METRICS, "traces", "logs")
RETAIN_S = 30.0
"""Seconds until an acknowledgement counts as durable: three times the loss seen when VictoriaMetrics is killed."""
_EPOCHS = 16
_MARKS_PER_RETENTION = 30
_UNCONFIRMED = 10
"""Retentions after which metrics are sent again that the epoch which took them never confirmed: it is gone for good."""


class _Mark(NamedTuple):
    """Metrics before `position` were acknowledged between `first` and `last`, by these epochs."""

    position: Position
    first: float
    last: float
    epochs: frozenset[str]


class Cursor:
    """The delivery state of one spool; used by one thread. On a failing disk more is repeated, nothing is lost."""

    def __init__(
        self,
        directory: Path,
        retain_s: float = RETAIN_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Go on from `cursor.json`, also one that knows only a position."""
        self.directory = directory
        self.acknowledged: dict[str, Position] = dict.fromkeys(SIGNALS, START)
        """By signal: everything before it was acknowledged, or dropped and counted."""
        self.safe = START
        """Metrics before it are durable."""
        self.last = START
        """Where the last acknowledged batch of metrics began: it is sent again to ask for the epoch."""
        self._retain_s, self._clock, self._wall = retain_s, clock, wall
        self._epochs: list[str] = []
        self._confirmed: dict[str, float] = {}
        self._marks: deque[_Mark] = deque()
        self._began = False
        self._unsaved = False
        self._load()

    @property
    def durable(self) -> bool:
        """Whether all acknowledged metrics are durable."""
        return self.safe >= self.acknowledged[METRICS]

    @property
    def confirmable_in_s(self) -> float:
        """Seconds until the next acknowledgement can make everything durable."""
        return max(0.0, self._marks[-1].last + self._retain_s - self._clock()) if self._marks else 0.0

    @property
    def asks(self) -> bool:
        """Whether only an answer can tell if what was acknowledged is durable, and none came yet."""
        return not self._confirmed and any(epoch for mark in self._marks for epoch in mark.epochs)

    def hear(self, epoch: str, acknowledged: bool) -> bool:
        """Note the epoch that an answer named; `acknowledged`: it acknowledged metrics.

        True when metrics behind `safe` must be sent again; `acknowledged["metrics"]` has gone back to it then.
        """
        first_of_all = not self._began and not self._epochs
        new = epoch != "" and epoch not in self._epochs
        if epoch and self._epochs[-1:] != [epoch]:
            self._epochs = [*(known for known in self._epochs if known != epoch), epoch][-_EPOCHS:]
            self._unsaved = True
        if new and not first_of_all:
            return self._back()
        if acknowledged:
            self._began = True
            self._confirmed[epoch] = now = self._clock()
            self.settle()
            if self._marks and now - self._marks[0].last > _UNCONFIRMED * self._retain_s:
                self._epochs = [epoch] if epoch else []
                return self._back()
        return False

    def advance(self, signal: str, start: Position, end: Position, epochs: Iterable[str] = ()) -> None:
        """Everything of `signal` up to `end` is done; `epochs` acknowledged something of what began at `start`."""
        if end <= self.acknowledged[signal]:
            return
        self.acknowledged[signal] = end
        self._unsaved = True
        by = frozenset(epochs)
        if signal == METRICS:
            now = max((self._confirmed.get(epoch, self._clock()) for epoch in by), default=0.0)
            before = self._marks[-1] if self._marks else None
            if not by and before is None:
                self.safe = end
            elif before is not None and (not by or now - before.first < self._retain_s / _MARKS_PER_RETENTION):
                self._marks[-1] = before._replace(
                    position=end, last=now if by else before.last, epochs=before.epochs | by
                )
            else:
                self._marks.append(_Mark(end, now, now, by))
            if by:
                self.last = start
                self.settle()
        if by:
            self.save()

    def settle(self) -> None:
        """Move `safe` over what is durable by now."""
        now = self._clock()
        while self._marks:
            mark = self._marks[0]
            if any(
                (self._confirmed.get(epoch, -math.inf) if epoch else now) - mark.last < self._retain_s
                for epoch in mark.epochs
            ):
                break
            self.safe = mark.position
            self._marks.popleft()
            self._unsaved = True

    def forget(self, *, crowded: bool = False) -> int:
        """Delete the segments that nobody needs any more; return their size in bytes.

        `crowded`: those too that were acknowledged and are not known to be durable.
        """
        first = {**self.acknowledged, METRICS: self.acknowledged[METRICS] if crowded else self.safe}
        keep = min(position.segment for position in first.values())
        freed = 0
        for number in segment_numbers(self.directory):
            if number >= keep:
                break
            path = segment_path(self.directory, number)
            with contextlib.suppress(OSError):
                size = path.stat().st_size
                path.unlink()
                freed += size
        return freed

    def save(self) -> None:
        """Write the file if anything changed."""
        if not self._unsaved:
            return
        temporary = self.directory / f".{CURSOR}.{os.getpid()}"
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(self._as_json()))
            os.replace(temporary, self.directory / CURSOR)
            self._unsaved = False

    def _back(self) -> bool:
        """Metrics behind `safe` are not acknowledged any more."""
        self._marks.clear()
        self._confirmed.clear()
        self._began = True
        self.acknowledged[METRICS] = self.safe
        self._unsaved = True
        self.save()
        return True

    def _as_json(self) -> dict[str, Any]:
        ago = self._clock() - self._marks[-1].last if self._marks else 0.0
        return {
            **self.acknowledged[METRICS]._asdict(),
            **{signal: self.acknowledged[signal]._asdict() for signal in SIGNALS if signal != METRICS},
            "safe": self.safe._asdict(),
            "last": self.last._asdict(),
            "epochs": self._epochs,
            "acknowledged_by": sorted(frozenset().union(*(mark.epochs for mark in self._marks))),
            "acknowledged_at": self._wall() - ago,
        }

    def _load(self) -> None:
        path = self.directory / CURSOR
        try:
            seen = json.loads(path.read_text())
            main = _position(seen)
            others = {signal: _position(seen.get(signal, seen)) for signal in SIGNALS if signal != METRICS}
            # A cursor without these keys was written before there were epochs: what is on disk goes again.
            safe = _position(seen["safe"]) if "safe" in seen else START
            last = _position(seen.get("last", seen))
            epochs = [str(epoch) for epoch in seen.get("epochs", ())]
            by = frozenset(str(epoch) for epoch in seen.get("acknowledged_by", ("",)))
            age = max(0.0, self._wall() - float(seen.get("acknowledged_at", path.stat().st_mtime)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        self.acknowledged = {METRICS: main, **others}
        self.safe, self.last, self._epochs = min(safe, main), last, epochs[-_EPOCHS:]
        self._began = main > START
        if self.safe < main:
            moment = self._clock() - age
            self._marks.append(_Mark(main, moment, moment, by or frozenset(("",))))


def _position(seen: dict[str, Any]) -> Position:
    return Position(int(seen["segment"]), int(seen["offset"]))
