# SPDX-License-Identifier: Apache-2.0
"""One context of the training side: which series exist, their order, their last time; definitions go out as it grows.

In: series and rows. Out: `DEFINE`, `VALUES`, `END` frames through `append`. Imports `frames`, `text`, semconv, errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition, SeriesGroup
from glideslope.emit.text import safe_label
from glideslope.emit.wire import Scalar
from glideslope.errors import SemconvError

Append = Callable[[int, bytes], None]
_MS = 1_000_000
_TOLD_AT_MOST = 16
_TOLD_LENGTH = 100


class Budget:
    """Series that one process may have; shared by its tables. The first ones are kept."""

    def __init__(self, series: int, say: Callable[[int, str], None] | None = None) -> None:
        """`say(drop class, name)` hears of names that found no room: once per name or first part of a path."""
        self.series = self.left = series
        self.dropped: dict[tuple[str, str], int] = {}
        """Points without a series, by (class, reason)."""
        self._say, self._told = say, set[str]()

    def take(self, series: int = 1) -> bool:
        """Take room for some series, or say no."""
        if self.left < series:
            return False
        self.left -= series
        return True

    def drop(self, drop_class: int, points: int, name: str) -> None:
        """Count points of `name` that found no room."""
        key = (frames.CLASS_NAMES[drop_class], "budget")
        self.dropped[key] = self.dropped.get(key, 0) + points
        if self._say is not None and len(self._told) < _TOLD_AT_MOST:
            part = name.partition("/")[0][:_TOLD_LENGTH]
            if part not in self._told:
                self._told.add(part)
                self._say(drop_class, name)


class SeriesTable:
    """A growing list of series with one row of values per time.

    Row times are whole milliseconds and strictly increase, because VictoriaMetrics stores milliseconds and keeps one
    sample per series and millisecond.
    """

    def __init__(
        self,
        context: int,
        drop_class: int,
        resource: Mapping[str, Scalar],
        start_ns: int,
        append: Append,
        budget: Budget,
        digits: int = 0,
    ) -> None:
        self.context, self._digits = context, digits
        self._class, self._append, self._budget = drop_class, append, budget
        self._resource, self._start_ns = resource, start_ns
        self._values = frames.kind(drop_class, frames.VALUES)
        self._index: dict[Hashable, int] = {}
        self._last_ms = 0
        self._unborn: set[int] = set()

    def __len__(self) -> int:
        return len(self._index)

    def index(self, key: Hashable, metric: str, attributes: Mapping[str, Scalar]) -> int:
        """Position of a series, made at first sight; -1 when the budget is used up."""
        found = self._index.get(key)
        if found is None:
            return int(self.indices(metric, {}, tuple(attributes), [(key, tuple(attributes.values()))])[0])
        return found

    def indices(
        self,
        metric: str,
        shared: Mapping[str, Scalar],
        keys: tuple[str, ...],
        rows: Sequence[tuple[Hashable, tuple[Scalar, ...]]],
    ) -> NDArray[np.intp]:
        """Positions of many series of one metric, given as (key, attribute values); -1 where the budget is used up.

        Raises SemconvError when the registry does not know the metric or gives it no such attribute.
        """
        entry = semconv.metric(metric)
        for name in (*shared, *keys):
            if name not in entry.attributes:
                raise SemconvError(
                    f"metric {metric!r} has no attribute {name!r}: add it to semconv/registry.json first"
                )
        found = np.empty(len(rows), np.intp)
        first, new = len(self._index), []
        for position, (key, values) in enumerate(rows):
            index = self._index.get(key, -1)
            if index < 0 and self._budget.take():
                index = self._index[key] = len(self._index)
                new.append(tuple(safe_label(v) if isinstance(v, str) else v for v in values))
            found[position] = index
        if new:
            if entry.instrument == "counter":
                self._unborn.update(range(first, len(self._index)))
            group = SeriesGroup(metric, entry.instrument, entry.unit, shared, keys, new, (), self._digits)
            definition = Definition(self.context, first, self._resource, self._start_ns, (group,))
            self._append(frames.kind(self._class, frames.DEFINE), frames.pack_definition(definition))
        return found

    def write(self, time_ns: int, step: float, row: Sequence[float]) -> None:
        """Write the values of the first len(row) series; NaN = absent."""
        if self._unborn:
            self._bear(time_ns, step, row)
        self._append(self._values, frames.pack_list(self.context, self.tick(time_ns), step, row))

    def put(self, payload: bytes) -> None:
        """Write a row that is packed already."""
        self._append(self._values, payload)

    def drop(self, name: str, points: int = 1) -> None:
        """Count points of `name` that found no series."""
        self._budget.drop(self._class, points, name)

    def end(self, time_ns: int, columns: Sequence[int] = ()) -> None:
        """Mark all series as ended, or those in `columns`."""
        if self._index:
            payload = frames.pack_end(self.context, len(columns or self._index), self.tick(time_ns), columns)
            self._append(frames.kind(self._class, frames.END), payload)

    def tick(self, time_ns: int) -> int:
        """The time in ns of the next row: whole milliseconds, later than the row before."""
        self._last_ms = max(time_ns // _MS, self._last_ms + 1)
        return self._last_ms * _MS

    def _bear(self, time_ns: int, step: float, row: Sequence[float]) -> None:
        """Send 0 before the first value of a counter, so that increase() sees the first value."""
        zeros = [math.nan] * len(row)
        for index in self._unborn:
            if index < len(row) and row[index] > 0:
                zeros[index] = 0.0
        self._unborn.clear()
        if any(value == 0.0 for value in zeros):
            payload = frames.pack_list(self.context, self.tick(time_ns - _MS), step, zeros)
            self._append(self._values, payload)


def checked_event(name: str, attributes: Mapping[str, Any]) -> None:
    """Raise SemconvError unless the registry has the event and every attribute."""
    if name not in semconv.event_names():
        raise SemconvError(f"event {name!r} is not in semconv/registry.json: add it there first")
    known = semconv.registry()["attributes"]
    for key in attributes:
        if key not in known:
            raise SemconvError(
                f"attribute {key!r} of event {name!r} is not in semconv/registry.json: add it there first"
            )
