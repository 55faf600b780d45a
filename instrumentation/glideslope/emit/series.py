# SPDX-License-Identifier: Apache-2.0
"""Series blocks: a growing list of series whose OTLP bytes are made once; each row only patches times and values.

In: definitions and rows of values. Out: chunks of a serialized ExportMetricsServiceRequest; chunks may be joined,
because joined protobuf messages merge their repeated fields. Imports `frames`, `rounding`, `wire`; never an
OpenTelemetry SDK.

Wire layout of one NumberDataPoint: attributes (field 7), for counters 0x11 + start time, then 0x19 + 8 bytes
time_unix_nano and 0x21 + 8 bytes as_double. The last 17 of these (time, tag, value) are contiguous and of constant
length, so numpy writes them for all points of all rows at once. Absent values are left out: per set of present series a
template is joined from the series' own bytes and cached.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glideslope.emit.frames import Definition
from glideslope.emit.rounding import rounded
from glideslope.emit.wire import attribute, attributes, field, varint

_GAUGE, _SUM = 5, 7
_MONOTONIC_CUMULATIVE = b"\x10\x02\x18\x01"
_SCOPE = field(1, field(1, b"glideslope"))
_PATCH = 17
_PLACEHOLDER = b"\x19" + bytes(8) + b"\x21" + bytes(8)
_CACHED_POINTS = 100_000
"""Templates are kept until they hold this many points together; their index takes 136 bytes a point."""


class Chunk(NamedTuple):
    """A piece of a metrics request."""

    body: bytes
    points: int


class _Run(NamedTuple):
    """The points of one metric inside a template."""

    metric: int
    columns: NDArray[np.intp]
    template: NDArray[np.uint8]
    ends: NDArray[np.intp]
    """End of each point in the template; the 17 bytes before it are patched."""
    where: NDArray[np.intp] | None
    """Positions of the patched bytes, or None when all points have the same length."""


class SeriesBlock:
    """The series of one context."""

    def __init__(self, definition: Definition) -> None:
        """Take resource, start time and first series from `definition` (its `first` must be 0)."""
        self._resource = field(1, attributes(1, dict(definition.resource)))
        self._start = b"\x11" + struct.pack("<Q", definition.start_ns)
        self._metrics: list[tuple[bytes, int]] = []
        self._metric_ids: dict[tuple[str, str, str], int] = {}
        self._metric_of: list[int] = []
        self._points: list[bytes] = []
        self._lengths = np.empty(0, np.intp)
        self._digits = np.empty(0, np.int8)
        self._templates: OrderedDict[bytes, list[_Run]] = OrderedDict()
        self._cached = 0
        self.extend(definition)

    def __len__(self) -> int:
        return len(self._points)

    def extend(self, definition: Definition) -> None:
        """Add the series of a later definition; those already known are ignored, so that repeats do no harm."""
        known = len(self._points) - definition.first
        if known < 0:
            raise ValueError(f"context {definition.context} lacks {-known} series before series {definition.first}")
        position = 0
        digits: list[int] = []
        for group in definition.groups:
            key = (group.metric, group.unit, group.instrument)
            if key not in self._metric_ids:
                self._metric_ids[key] = len(self._metrics)
                name = field(1, group.metric.encode()) + (field(3, group.unit.encode()) if group.unit else b"")
                self._metrics.append((name, _SUM if group.instrument == "counter" else _GAUGE))
            metric = self._metric_ids[key]
            shared = attributes(7, dict(group.shared))
            tail = (self._start if group.instrument == "counter" else b"") + _PLACEHOLDER
            for row in group.rows:
                position += 1
                if position <= known:
                    continue
                own = b"".join(field(7, attribute(k, v)) for k, v in zip(group.keys, row, strict=True))
                self._points.append(field(1, shared + own + tail))
                self._metric_of.append(metric)
                digits.append(group.digits)
        self._digits = np.concatenate([self._digits, np.array(digits, np.int8)])
        new = self._points[self._lengths.size :]
        self._lengths = np.concatenate([self._lengths, np.fromiter(map(len, new), np.intp, len(new))])

    def chunks(
        self,
        times: NDArray[np.uint64],
        values: NDArray[np.float64],
        columns: NDArray[np.integer[Any]] | None,
        max_points: int,
        max_bytes: int,
    ) -> Iterator[Chunk]:
        """Encode rows.

        `times` has shape (rows,), ns; `values` has shape (rows, series); `columns` (series,) names the series by index,
        None = the first ones. Non-finite values are absent and not sent. A chunk holds at most `max_points` points and
        about `max_bytes` bytes, but at least one point.
        """
        which = np.arange(values.shape[1]) if columns is None else columns.astype(np.intp)
        digits = self._digits[which]
        if digits.any():
            values = rounded(values, digits)
        present = np.isfinite(values)
        if present.all():
            yield from self._rows(which, times, values, max_points, max_bytes)
            return
        groups: dict[bytes, list[int]] = {}
        for row, pattern in enumerate(np.packbits(present, axis=1)):
            groups.setdefault(pattern.tobytes(), []).append(row)
        for rows in groups.values():
            kept = np.flatnonzero(present[rows[0]])
            if kept.size:
                yield from self._rows(which[kept], times[rows], values[rows][:, kept], max_points, max_bytes)

    def ends(self, time_ns: int, columns: tuple[int, ...], max_points: int, max_bytes: int) -> Iterator[Chunk]:
        """Encode one NoRecordedValue point per series (all, when `columns` is empty).

        It takes the series out of instant queries at once.
        """
        marker = b"\x19" + struct.pack("<Q", time_ns) + b"\x40\x01"
        pieces: dict[int, list[bytes]] = {}
        points = size = 0
        for column in columns or range(len(self)):
            metric, framed = self._metric_of[column], self._points[column]
            header = 1
            while framed[header] & 0x80:
                header += 1
            point = field(1, framed[header + 1 : -len(_PLACEHOLDER)] + marker)
            if points and (points == max_points or size + len(point) > max_bytes):
                yield self._chunk({m: b"".join(p) for m, p in pieces.items()}, points)
                pieces, points, size = {}, 0, 0
            pieces.setdefault(metric, []).append(point)
            points, size = points + 1, size + len(point)
        if points:
            yield self._chunk({m: b"".join(p) for m, p in pieces.items()}, points)

    def _rows(
        self,
        columns: NDArray[np.intp],
        times: NDArray[np.uint64],
        values: NDArray[np.float64],
        max_points: int,
        max_bytes: int,
    ) -> Iterator[Chunk]:
        for part in self._parts(columns, max_points, max_bytes):
            chosen = columns[part]
            runs = self._template(chosen)
            size = sum(run.template.size for run in runs)
            step = max(1, min(max_points // chosen.size, max_bytes // max(size, 1)))
            narrowed = values if chosen.size == values.shape[1] else values[:, part]
            for first in range(0, len(times), step):
                rows = slice(first, first + step)
                bodies = {run.metric: self._patched(run, times[rows], narrowed[rows]) for run in runs}
                yield self._chunk(bodies, chosen.size * len(times[rows]))

    def _parts(self, columns: NDArray[np.intp], max_points: int, max_bytes: int) -> list[slice]:
        """Cut the columns so that one row of each part stays within the bounds."""
        ends = np.cumsum(self._lengths[columns])
        if columns.size <= max_points and ends[-1] <= max_bytes:
            return [slice(0, columns.size)]
        parts, first, used = [], 0, 0
        while first < columns.size:
            fits = int(np.searchsorted(ends, used + max_bytes, "right"))
            last = max(first + 1, min(first + max_points, fits))
            parts.append(slice(first, last))
            first, used = last, int(ends[last - 1])
        return parts

    def _template(self, columns: NDArray[np.intp]) -> list[_Run]:
        key = columns.tobytes()
        if (found := self._templates.get(key)) is not None:
            self._templates.move_to_end(key)
            return found
        by_metric: dict[int, list[int]] = {}
        for position, column in enumerate(columns.tolist()):
            by_metric.setdefault(self._metric_of[column], []).append(position)
        runs = []
        for metric, positions in by_metric.items():
            bodies = [self._points[column] for column in columns[positions].tolist()]
            template = np.frombuffer(b"".join(bodies), np.uint8)
            ends = np.cumsum(self._lengths[columns[positions]])
            where = None
            if len(set(map(len, bodies))) > 1:
                where = ((ends - _PATCH)[:, None] + np.arange(_PATCH)).ravel()
            runs.append(_Run(metric, np.asarray(positions, np.intp), template, ends, where))
        self._templates[key] = runs
        self._cached += columns.size
        while self._cached > _CACHED_POINTS and len(self._templates) > 1:
            _, oldest = self._templates.popitem(last=False)
            self._cached -= sum(run.columns.size for run in oldest)
        return runs

    @staticmethod
    def _patched(run: _Run, times: NDArray[np.uint64], values: NDArray[np.float64]) -> bytes:
        rows, points = len(times), run.columns.size
        patch = np.empty((rows, points, _PATCH), np.uint8)
        patch[:, :, :8] = times.astype("<u8").view(np.uint8).reshape(rows, 1, 8)
        patch[:, :, 8] = 0x21
        own = values if points == values.shape[1] else values[:, run.columns]
        patch[:, :, 9:] = np.ascontiguousarray(own, "<f8").view(np.uint8).reshape(rows, points, 8)
        out = np.empty((rows, run.template.size), np.uint8)
        out[:] = run.template
        if run.where is None:
            out.reshape(rows, points, -1)[:, :, -_PATCH:] = patch
        elif rows < points:
            for row in range(rows):
                out[row][run.where] = patch[row].reshape(-1)
        else:
            for point, end in enumerate(run.ends.tolist()):
                out[:, end - _PATCH : end] = patch[:, point]
        return out.tobytes()

    def _chunk(self, bodies: dict[int, bytes], points: int) -> Chunk:
        metrics = []
        for metric, body in bodies.items():
            name, data_field = self._metrics[metric]
            metrics.append((name, data_field, body, _MONOTONIC_CUMULATIVE if data_field == _SUM else b""))
        return Chunk(metrics_body(self._resource, metrics), points)


def metrics_body(resource: bytes, metrics: Iterable[tuple[bytes, int, bytes, bytes]]) -> bytes:
    """Frame metrics of one resource as an ExportMetricsServiceRequest.

    Each metric is (encoded name and unit, field number of its data, encoded points, what follows the points).
    """
    pieces: list[bytes] = []
    for name, data_field, body, tail in metrics:
        data = varint(data_field << 3 | 2) + varint(len(body) + len(tail))
        header = varint(2 << 3 | 2) + varint(len(name) + len(data) + len(body) + len(tail))
        pieces += [header, name, data, body, tail]
    scope_size = len(_SCOPE) + sum(map(len, pieces))
    scope_head = b"\x12" + varint(scope_size)
    head = b"\x0a" + varint(len(resource) + len(scope_head) + scope_size)
    return b"".join((head, resource, scope_head, _SCOPE, *pieces))
