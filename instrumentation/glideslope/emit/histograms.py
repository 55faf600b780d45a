# SPDX-License-Identifier: Apache-2.0
"""The training side of histograms that people log by name.

In: `HistogramLogged`. Out: `DEFINE`, `HISTOGRAM` and `END` frames. Imports events, semconv, `frames`, `table`, `text`,
`times`.

The bounds of the buckets are all edges: the bucket below the first edge and the one above the last stay empty, so that
quantiles are interpolated inside the edges only. A name keeps the edges of its first histogram; each other set of edges
is a series of its own (`histogram.edges`), of at most eight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition, SeriesGroup
from glideslope.emit.table import Append, Budget
from glideslope.emit.text import distinct_label
from glideslope.emit.times import SeriesTimes
from glideslope.emit.wire import Scalar
from glideslope.events import Happened, HistogramLogged, MetricsLogged, Severity

_MS = 1_000_000
_METRIC = "train.histogram"
SETS_PER_NAME = 8
"""Sets of edges that one name may have."""


class LoggedHistograms:
    """The histogram series of one context."""

    def __init__(
        self,
        context: int,
        resource: Mapping[str, Scalar],
        append: Append,
        budget: Budget,
        say: Callable[[Happened], object],
        count_nonfinite: Callable[[HistogramLogged | MetricsLogged, int], None],
    ) -> None:
        """`say` takes events, `count_nonfinite(event, how many)` counts values that were not finite."""
        self._context, self._resource, self._append, self._budget = context, resource, append, budget
        self._say, self._count_nonfinite = say, count_nonfinite
        self._times = SeriesTimes()
        self._sets: dict[str, dict[bytes, int]] = {}
        self._labels: dict[str, str] = {}
        self._used: set[str] = set()
        self._series = 0
        self._bad_now: set[str] = set()
        self._entry = semconv.metric(_METRIC)

    def write(self, event: HistogramLogged) -> None:
        """Store one histogram; raises ValueError for edges or counts that are none."""
        edges, counts = _checked(event)
        index = self._series_of(event.name, edges)
        self._note_nonfinite(event)
        if index < 0:
            self._budget.drop(frames.METRICS, 1, event.name)
            return
        if event.timed:
            ((at, _),) = self._times.given(index, event.time_ns)
        else:
            at = self._times.taken(index, event.time_ns)
        buckets = np.zeros(edges.size + 1, np.uint64)
        buckets[1:-1] = counts
        payload = frames.pack_histogram(self._context, index, at * _MS, event.step, float(event.total), buckets)
        self._append(frames.kind(frames.METRICS, frames.HISTOGRAM), payload)

    def end(self, time_ns: int) -> None:
        """Mark all series as ended."""
        if self._series:
            at = max(time_ns, (self._times.newest + 1) * _MS)
            payload = frames.pack_end(self._context, self._series, at // _MS * _MS)
            self._append(frames.kind(frames.METRICS, frames.END), payload)

    def _series_of(self, name: str, edges: NDArray[np.float64]) -> int:
        """Position of the series of a name and its edges, made at first sight; -1 when there is no room."""
        sets, key = self._sets.get(name, {}), blake2b(edges.tobytes(), digest_size=16).digest()
        if (known := sets.get(key)) is not None:
            return known
        # As many series in the store: one per edge, the bucket above all, count and sum.
        if len(sets) >= SETS_PER_NAME or not self._budget.take(edges.size + 3):
            return -1
        if name not in self._labels:
            self._labels[name] = distinct_label(name, self._used)
            self._used.add(self._labels[name])
        shared: dict[str, Scalar] = {"histogram.edges": len(sets)} if sets else {}
        group = SeriesGroup(
            _METRIC,
            self._entry.instrument,
            self._entry.unit,
            shared,
            ("metric.name",),
            [(self._labels[name],)],
            tuple(edges.tolist()),
        )
        definition = Definition(self._context, self._series, self._resource, 0, (group,))
        self._append(frames.kind(frames.METRICS, frames.DEFINE), frames.pack_definition(definition))
        sets[key] = self._series
        self._sets[name] = sets
        self._series += 1
        self._times.grow(self._series)
        return sets[key]

    def _note_nonfinite(self, event: HistogramLogged) -> None:
        if event.nonfinite <= 0:
            self._bad_now.discard(event.name)
            return
        # Names without a series are counted but not remembered, so that memory stays bounded.
        if event.name in self._sets and event.name not in self._bad_now:
            self._bad_now.add(event.name)
            body = f"{event.nonfinite} values of {event.name} are not finite at step {event.step:g}"
            marks = {"what": "metric", "metric.name": event.name}
            self._say(Happened("train.nonfinite", event.time_ns, body, Severity.WARN, event.step, marks))
        self._count_nonfinite(event, event.nonfinite)


def _checked(event: HistogramLogged) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    edges = np.ascontiguousarray(event.edges, np.float64).reshape(-1)
    counts = np.rint(np.asarray(event.counts, np.float64)).reshape(-1)
    if edges.size != counts.size + 1 or counts.size < 1:
        raise ValueError(f"{edges.size} edges for {counts.size} counts: give one more edge than counts")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError("edges must be finite and strictly increase")
    if not np.isfinite(counts).all() or (counts < 0).any() or counts.sum() >= 2.0**63:
        raise ValueError("counts must be finite, 0 or more, and below 2^63 together")
    return edges, counts.astype(np.uint64)
