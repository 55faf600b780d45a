# SPDX-License-Identifier: Apache-2.0
"""The training side of layer statistics: one table of series per kind of tensor.

In: `LayerStats`. Out: `DEFINE` and `VALUES` frames. Imports events, `frames`, `table`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glideslope.emit.frames import RowForm
from glideslope.emit.table import SeriesTable
from glideslope.emit.wire import Scalar
from glideslope.events import LayerStats


class _Layout(NamedTuple):
    """What a tuple of layers and its stats mean."""

    layers: tuple[str, ...]
    stats: tuple[str, ...]
    kept: NDArray[np.intp] | None
    """Positions of the values that have a series; None = all."""
    form: RowForm


class LayerTables:
    """The series of all layers; what a tuple of layers means is found again by its identity."""

    def __init__(self, make_table: Callable[[int], SeriesTable]) -> None:
        """`make_table(number)` makes the table of the kind that was seen as the `number`-th, from 0."""
        self._make_table = make_table
        self._tables: dict[str, SeriesTable] = {}
        self._known: dict[str, _Layout] = {}

    def write(self, event: LayerStats, values: NDArray[np.float64]) -> None:
        """Store the flat `values` (layers * stats,) of one event."""
        known = self._known.get(event.kind)
        if known is None or known.layers is not event.layers or known.stats != event.stats:
            known = self._known[event.kind] = self._layout(event)
        table = self._tables[event.kind]
        if known.kept is not None:
            table.drop(f"train.layer/{event.kind}", values.size - known.kept.size)
            values = values[known.kept]
        if values.size:
            table.put(known.form.pack(table.tick(event.time_ns), event.step, values))

    def end(self, time_ns: int) -> None:
        """Mark all series as ended."""
        for table in self._tables.values():
            table.end(time_ns)

    def _layout(self, event: LayerStats) -> _Layout:
        if event.kind not in self._tables:
            self._tables[event.kind] = self._make_table(len(self._tables))
        rows: list[tuple[tuple[str, str], tuple[Scalar, ...]]] = [
            ((layer, stat), (layer, index, stat)) for index, layer in enumerate(event.layers) for stat in event.stats
        ]
        keys = ("layer.name", "layer.index", "stat")
        table = self._tables[event.kind]
        columns = table.indices("train.layer", {"tensor.kind": event.kind}, keys, rows)
        kept = None if (columns >= 0).all() else np.flatnonzero(columns >= 0)
        series = columns if kept is None else columns[kept]
        return _Layout(event.layers, event.stats, kept, RowForm(table.context, series.size, series))


def flat(event: LayerStats) -> NDArray[np.float64]:
    """The values of an event in one row; raises ValueError when their number is not that of layers and stats."""
    values = np.ascontiguousarray(event.values, np.float64).reshape(-1)
    if values.size != len(event.layers) * len(event.stats):
        raise ValueError(
            f"layer values have {values.size} numbers, not {len(event.layers)} layers x {len(event.stats)} stats"
        )
    return values
