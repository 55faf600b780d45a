# SPDX-License-Identifier: Apache-2.0
"""The training side of metrics that people log by name: committed values and previews.

In: `MetricsLogged`. Out: `DEFINE` and `VALUES` frames. Imports events, `frames`, `table`, `text`, `times`.

What a set of names means (series, their form on disk) is worked out once and found again by the identity of the tuple,
so that few values cost a struct.pack and two look-ups, and many values cost a few passes of numpy.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glideslope.emit.frames import RowForm
from glideslope.emit.table import Budget, SeriesTable
from glideslope.emit.text import LABEL_BYTES, distinct_label
from glideslope.emit.times import Columns, SeriesTimes
from glideslope.events import Happened, MetricsLogged, Severity

_MS = 1_000_000
_FEW = 64
_SETS = 4096
_CHARACTERS_IN_SETS = 20_000_000
"""Sets are forgotten when they hold more than this together; a name counts as its length and 100 more."""
_NAMED_AT_MOST = 10
_TOLD_AT_ONCE = 16


class _NameSet:
    """What a tuple of names means."""

    __slots__ = ("columns", "form", "kept", "lost", "names", "preview", "repeats", "series", "simple", "size")

    def __init__(self, names: tuple[str, ...], found: NDArray[np.intp], context: int, preview: bool) -> None:
        self.names, self.preview = names, preview
        good = found >= 0
        self.kept: NDArray[np.intp] | None = None if good.all() else np.flatnonzero(good)
        """Positions of the values that have a series; None = all."""
        self.series = found if self.kept is None else found[good]
        """Series of the values that are kept."""
        self.lost = [names[i] for i in np.flatnonzero(~good).tolist() if i < len(names)]
        """Names that have none."""
        self.form = RowForm(context, self.series.size, self.series)
        self.columns: Columns = self.series
        if self.series.size == 1:
            self.columns = int(self.series[0])
        elif self.series.size and np.array_equal(self.series, np.arange(self.series.size) + self.series[0]):
            self.columns = slice(int(self.series[0]), int(self.series[-1]) + 1)
        self.simple = len(names) < _FEW and self.kept is None and not preview
        """Whether rows may be packed without numpy."""
        self.size = sum(map(len, names)) + 100 * len(names)
        self.repeats = len(set(names)) < len(names)


class LoggedMetrics:
    """The series that people named, and the sets of names that were used lately."""

    def __init__(
        self,
        table: SeriesTable,
        budget: Budget,
        say: Callable[[Happened], object],
        count_nonfinite: Callable[[MetricsLogged, int], None],
    ) -> None:
        """`say` takes events, `count_nonfinite(event, how many)` counts values that were not finite."""
        self._table, self._budget = table, budget
        self._say, self._count_nonfinite = say, count_nonfinite
        self._times = SeriesTimes()
        self._bad_now = np.zeros(256, np.bool_)
        self._any_bad = False
        self._labels: dict[str | bytes, str] = {}
        self._used: set[str] = set()
        self._by_identity: dict[tuple[int, bool], _NameSet] = {}
        self._sets: OrderedDict[tuple[bool, tuple[str, ...]], _NameSet] = OrderedDict()
        self._held = 0
        self._recent: _NameSet | None = None

    def write(self, event: MetricsLogged) -> None:
        """Store the values of one event; raises ValueError when there is not one value per name."""
        names, values, preview = event.names, event.values, event.preview is not None
        group: _NameSet | None = self._recent
        if group is None or group.names is not names or group.preview is not preview:
            group = self._by_identity.get((id(names), preview)) or self._find(names, preview)
            if group is None:
                return
            self._recent = group
        if group.repeats:
            self._write_in_turn(event)
            return
        count = len(values)
        if count != len(names):
            raise ValueError(f"{count} values for {len(names)} names: give one value per name")
        if (
            group.simple
            and not self._any_bad
            and not (event.timed and len(names) > 1)
            and not isinstance(values, np.ndarray)
            and math.isfinite(sum(values))
        ):
            if event.timed:
                at, _ = self._times.given(group.columns, event.time_ns)[0]
            else:
                at = self._times.taken(group.columns, event.time_ns)
            self._table.put(group.form.pack_few(at * _MS, event.step, values))
            return
        self._write_array(event, group)

    def end(self, time_ns: int) -> None:
        """Mark all series as ended."""
        self._table.end(max(time_ns, (self._times.newest + 1) * _MS))

    def _write_array(self, event: MetricsLogged, group: _NameSet) -> None:
        values = _doubles(event.values)
        finite = np.isfinite(values)
        if self._any_bad or not finite.all():
            self._note_nonfinite(event, group, finite)
        if group.lost:
            self._lose(group.lost)
        if event.preview is not None:
            values = np.concatenate([values, np.where(finite, event.preview, np.nan)])
        if group.kept is not None:
            values = values[group.kept]
        if not values.size:
            return
        if not event.timed:
            at = self._times.taken(group.columns, event.time_ns)
            self._table.put(group.form.pack(at * _MS, event.step, values))
            return
        for at, part in self._times.given(group.columns, event.time_ns):
            if part is None:
                self._table.put(group.form.pack(at * _MS, event.step, values))
            else:
                form = RowForm(group.form.context, int(part.sum()), group.series[part])
                self._table.put(form.pack(at * _MS, event.step, values[part]))

    def _lose(self, names: Sequence[str]) -> None:
        """Count one point of each name as dropped."""
        for name in names[:_TOLD_AT_ONCE]:
            self._table.drop(name, 0)
        self._table.drop(names[0], len(names))

    def _write_in_turn(self, event: MetricsLogged) -> None:
        """Write a set in which a name occurs several times as several sets."""
        turns: list[dict[str, float]] = []
        seen: dict[str, int] = {}
        for name, value in zip(event.names, event.values, strict=True):
            turn = seen[name] = seen.get(name, -1) + 1
            if turn == len(turns):
                turns.append({})
            turns[turn][name] = float(value)
        for one in turns:
            some = tuple(one.values())
            self.write(MetricsLogged(event.time_ns, event.step, tuple(one), some, event.timed, event.preview))

    def _find(self, names: tuple[str, ...], preview: bool) -> _NameSet | None:
        """The set for a tuple that is new; None when none of its names has a series and there is no room left."""
        if self._budget.left <= 0 and not any(self._key(name) in self._labels for name in names):
            self._lose(names)
            return None
        key = (preview, names)
        group = self._sets.get(key)
        if group is not None:
            # The tuple that is used now will be used again.
            self._by_identity.pop((id(group.names), preview), None)
            group.names = names
            self._by_identity[id(names), preview] = group
            self._sets.move_to_end(key)
            return group
        group = self._open(names, preview)
        self._sets[key] = self._by_identity[id(names), preview] = group
        self._held += group.size
        while len(self._sets) > 1 and (len(self._sets) > _SETS or self._held > _CHARACTERS_IN_SETS):
            (kind, _), oldest = self._sets.popitem(last=False)
            self._by_identity.pop((id(oldest.names), kind), None)
            self._held -= oldest.size
        return group

    def _open(self, names: tuple[str, ...], preview: bool) -> _NameSet:
        keys = [self._key(name) for name in names]
        room = self._budget.left
        for key, name in zip(keys, names, strict=True):
            if key not in self._labels and room > 0:
                room -= 1
                self._labels[key] = distinct_label(name, self._used)
                self._used.add(self._labels[key])
        metrics = ("train.metric.preview", "train.metric.preview.completion") if preview else ("train.metric",)
        found = [
            self._table.indices(
                metric,
                {},
                ("metric.name",),
                [((metric, key), (self._labels.get(key, ""),)) for key in keys],
            )
            for metric in metrics
        ]
        self._times.grow(len(self._table))
        if len(self._table) > self._bad_now.size:
            self._bad_now = np.concatenate([self._bad_now, np.zeros(len(self._table), np.bool_)])
        return _NameSet(names, np.concatenate(found), self._table.context, preview)

    @staticmethod
    def _key(name: str) -> str | bytes:
        """The name, or a digest of one that is too long to keep."""
        if len(name) <= LABEL_BYTES:
            return name
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _note_nonfinite(self, event: MetricsLogged, group: _NameSet, finite: NDArray[np.bool_]) -> None:
        """Count NaN and infinite values; say so once for each name, until the name is finite again."""
        own = np.arange(finite.size) if group.kept is None else group.kept[group.kept < finite.size]
        series = group.series[: own.size]
        before = np.ones(finite.size, np.bool_)
        before[own] = self._bad_now[series]
        self._bad_now[series] = ~finite[own]
        self._any_bad = bool(self._bad_now.any())
        bad = int(finite.size - finite.sum())
        if not bad:
            return
        fresh = [group.names[position] for position in np.flatnonzero(~finite & ~before).tolist()]
        if fresh:
            more = f" and {len(fresh) - _NAMED_AT_MOST} more" if len(fresh) > _NAMED_AT_MOST else ""
            body = f"not finite at step {event.step:g}: {', '.join(fresh[:_NAMED_AT_MOST])}{more}"
            marks: dict[str, str | int | float | bool] = {"what": "metric"}
            if len(fresh) == 1:
                marks["metric.name"] = fresh[0]
            self._say(Happened("train.nonfinite", event.time_ns, body, Severity.WARN, event.step, marks))
        self._count_nonfinite(event, bad)


def _doubles(values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values, np.float64)
    # struct reads a list of floats three times as fast as numpy does.
    return np.frombuffer(struct.pack(f"{len(values)}d", *values), np.float64)
