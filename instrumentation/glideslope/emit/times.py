# SPDX-License-Identifier: Apache-2.0
"""Which millisecond each value that a person logged is stored at, so that no two values of a series share one.

In: series and the times that their rows ask for. Out: whole milliseconds. Imports nothing of glideslope.

VictoriaMetrics keeps milliseconds and one sample per series and millisecond. The rules, per series:

- A time that glideslope took (`taken`): the first millisecond at or after it that is later than the last one of any
  series of the row. A row that asks for an earlier time than a row before it comes late, because its values were read
  from a device later, or another thread was faster: it gets its own time, or the first free millisecond after it, and
  pushes nothing. Free is known for the last rows; what comes later than these is treated as a clock that jumped back:
  it goes behind the last one. So does a row that finds none of 100 milliseconds free.
- A time that a person gave (`given`): that time, cut to milliseconds. Only a time that does not lie before the previous
  request of the series moves behind the last one used, so that many values in one second lose nothing. The answer
  depends on the calls for that series alone, so that doing the same upload twice stores everything once. Where a value
  without a time already has that millisecond, the given one goes one later.
"""

from __future__ import annotations

import time
from array import array
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = int | slice | NDArray[np.intp]
"""Which series a row has: one, a run of them, or a list."""

_MS = 1_000_000
_REMEMBERED_MS = 4096
_SETS_PER_MS = 16
_LARGE = 64
_TRIES = 100
_LAST = 1


class SeriesTimes:
    """The last milliseconds of a growing list of series."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, list[Columns | None]] = OrderedDict()
        self._floor = -1
        self._size = 0
        self._single: list[array[int]] = []
        """Asked for and used without a given time, asked for and used with one."""
        self._many: list[NDArray[np.int64]] = []
        self.grow(256)

    def grow(self, series: int) -> None:
        """Make room for this many series."""
        if series <= self._size:
            return
        # An array is read one by one in half the time that numpy takes; numpy looks at the same memory.
        fresh = [array("q", [-1]) * (2 * series) for _ in range(4)]
        if self._size:
            for new, old in zip(fresh, self._single, strict=True):
                new[: self._size] = old[: self._size]
        self._single = fresh
        self._many = [np.frombuffer(one, np.int64) for one in fresh]
        self._size = 2 * series

    @property
    def newest(self) -> int:
        """The latest millisecond that a series without given times has; -1 = none."""
        return int(self._many[_LAST].max())

    def taken(self, columns: Columns, time_ns: int) -> int:
        """The millisecond of a row whose time glideslope took."""
        at = wanted = -(-time_ns // _MS)
        asked: Any
        last: Any
        if isinstance(columns, int):
            asked, last, _, _ = self._single
            before, latest = asked[columns], last[columns]
        else:
            asked, last, _, _ = self._many
            before, latest = int(asked[columns].max()), int(last[columns].max())
        if wanted >= before or wanted <= self._floor:
            if latest >= wanted:
                at = latest + 1
            if wanted >= before:
                asked[columns] = wanted
            last[columns] = at
        else:
            tries = range(wanted, wanted + _TRIES)
            at = next((ms for ms in tries if not self._is_taken(ms, columns)), latest + 1)
            asked[columns] = np.maximum(asked[columns], wanted)
            last[columns] = np.maximum(last[columns], at)
        rows = self._rows.get(at)
        if rows is None:
            self._rows[at] = [columns if isinstance(columns, int) else _remembered(columns)]
            if len(self._rows) > _REMEMBERED_MS:
                oldest, _ = self._rows.popitem(last=False)
                self._floor = max(self._floor, oldest)
        elif len(rows) < _SETS_PER_MS:
            rows.append(_remembered(columns))
        else:
            rows[:] = [None] * _SETS_PER_MS
        return at

    def given(self, columns: Columns, time_ns: int) -> list[tuple[int, NDArray[np.bool_] | None]]:
        """Milliseconds of a row whose time a person gave, with the part of the row that each is for (None = all)."""
        wanted = time_ns // _MS
        if isinstance(columns, int):
            _, _, given, latest = self._single
            free = self._place(columns, wanted if wanted < given[columns] else max(wanted, latest[columns] + 1))
            given[columns] = wanted
            return [(free, None)]
        _, _, asked, used = self._many
        places: NDArray[np.int64] = np.where(wanted < asked[columns], wanted, np.maximum(wanted, used[columns] + 1))
        asked[columns] = wanted
        lowest, highest = int(places.min()), int(places.max())
        if lowest == highest:
            return [(self._place(columns, lowest), None)]
        listed = _listed(columns)
        parts = [(at, places == at) for at in np.unique(places).tolist()]
        return [(self._place(listed[part], at), part) for at, part in parts]

    def _place(self, columns: Columns, at: int) -> int:
        """Use a given millisecond, or the next one that no row without a given time has."""
        while self._rows and self._is_taken(at, columns):
            at += 1
        last: Any
        used: Any
        _, last, _, used = self._single if isinstance(columns, int) else self._many
        used[columns] = at
        # A time in the future must not carry those along that ask for the present.
        if at <= time.time_ns() // _MS:
            last[columns] = np.maximum(last[columns], at)
        return at

    def _is_taken(self, at: int, columns: Columns) -> bool:
        return any(other is None or _meet(columns, other) for other in self._rows.get(at, ()))


def _remembered(columns: Columns) -> Columns | None:
    """Large lists are not kept alive: None stands for every series."""
    return None if not isinstance(columns, int | slice) and columns.size > _LARGE else columns


def _listed(columns: Columns) -> NDArray[np.intp]:
    if isinstance(columns, int):
        return np.array([columns])
    return np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns


def _meet(one: Columns, other: Columns) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    found: Any = np.isin(_listed(one), _listed(other)).any()
    return bool(found)
