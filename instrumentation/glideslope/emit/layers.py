# SPDX-License-Identifier: Apache-2.0
"""The training side of layer statistics: one table of series per kind of tensor.

In: `LayerStats`. Out: `DEFINE` and `VALUES` frames. Imports events, `table`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from glideslope.emit.table import SeriesTable
from glideslope.emit.wire import Scalar
from glideslope.events import LayerStats


class LayerTables:
    """The series of all layers; what a tuple of layers means is found again by its identity."""

    def __init__(self, make_table: Callable[[int], SeriesTable]) -> None:
        """`make_table(number)` makes the table of the kind that was seen as the `number`-th, from 0."""
        self._make_table = make_table
        self._tables: dict[str, SeriesTable] = {}
        self._known: dict[str, tuple[tuple[str, ...], tuple[str, ...], NDArray[np.intp] | None]] = {}

    def write(self, event: LayerStats, values: NDArray[np.float64]) -> None:
        """Store the flat `values` (layers * stats,) of one event."""
        known = self._known.get(event.kind)
        if known is None or known[0] is not event.layers or known[1] != event.stats:
            known = self._known[event.kind] = (event.layers, event.stats, self._columns(event))
        table, columns = self._tables[event.kind], known[2]
        if columns is not None and (lost := int((columns < 0).sum())):
            table.drop(f"train.layer/{event.kind}", lost)
        table.write_array(event.time_ns, event.step, values, columns)

    def end(self, time_ns: int) -> None:
        """Mark all series as ended."""
        for table in self._tables.values():
            table.end(time_ns)

    def _columns(self, event: LayerStats) -> NDArray[np.intp] | None:
        """Series of the values; None when they are 0, 1, 2, …: the shorter form on disk."""
        if event.kind not in self._tables:
            self._tables[event.kind] = self._make_table(len(self._tables))
        rows: list[tuple[tuple[str, str], tuple[Scalar, ...]]] = [
            ((layer, stat), (layer, index, stat)) for index, layer in enumerate(event.layers) for stat in event.stats
        ]
        keys = ("layer.name", "layer.index", "stat")
        columns = self._tables[event.kind].indices("train.layer", {"tensor.kind": event.kind}, keys, rows)
        return None if np.array_equal(columns, np.arange(columns.size)) else columns


def flat(event: LayerStats) -> NDArray[np.float64]:
    """The values of an event in one row; raises ValueError when their number is not that of layers and stats."""
    values = np.ascontiguousarray(event.values, np.float64).reshape(-1)
    if values.size != len(event.layers) * len(event.stats):
        raise ValueError(
            f"layer values have {values.size} numbers, not {len(event.layers)} layers x {len(event.stats)} stats"
        )
    return values
