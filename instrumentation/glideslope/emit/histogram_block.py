# SPDX-License-Identifier: Apache-2.0
"""Histograms whose OTLP bytes are made once per series; each row only patches time, count, sum and bucket counts.

In: definitions and rows of bucket counts. Out: chunks of a serialized ExportMetricsServiceRequest.
Imports `frames`, `series`, `wire`; never an OpenTelemetry SDK.

Wire layout of one HistogramDataPoint: attributes (field 9), 0x19 time, 0x21 count, 0x29 sum, 0x32 bucket_counts (packed
fixed64), 0x3a explicit_bounds (packed double). All but the attributes are of constant length for a constant number of
buckets. The temporality is delta, because each histogram stands for its step alone; VictoriaMetrics stores such points
as they are, as `_bucket{le}` (cumulative over the buckets), `_count` and `_sum`. It drops the buckets of a point
without a sum, so an unknown sum travels as NaN, which it leaves out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glideslope.emit.frames import Definition, HistogramRow
from glideslope.emit.series import Chunk, metrics_body
from glideslope.emit.wire import attribute, attributes, field, varint

_HISTOGRAM = 9
_DELTA = b"\x10\x01"
_NO_RECORDED_VALUE = b"\x50\x01"


class HistogramBlock:
    """The histogram series of one context."""

    def __init__(self, definition: Definition) -> None:
        """Take resource and first series from `definition` (its `first` must be 0)."""
        self._resource = field(1, attributes(1, dict(definition.resource)))
        self._series: list[tuple[bytes, bytes, int, bytes]] = []
        self.extend(definition)

    def __len__(self) -> int:
        return len(self._series)

    def extend(self, definition: Definition) -> None:
        """Add the series of a later definition; those already known are ignored, so that repeats do no harm."""
        known = len(self._series) - definition.first
        if known < 0:
            raise ValueError(f"context {definition.context} lacks {-known} series before series {definition.first}")
        position = 0
        for group in definition.groups:
            name = field(1, group.metric.encode()) + (field(3, group.unit.encode()) if group.unit else b"")
            bounds = field(7, struct.pack(f"<{len(group.edges)}d", *group.edges))
            shared = attributes(9, dict(group.shared))
            for row in group.rows:
                position += 1
                if position > known:
                    own = b"".join(field(9, attribute(k, v)) for k, v in zip(group.keys, row, strict=True))
                    self._series.append((name, shared + own, len(group.edges) + 1, bounds))

    def chunks(self, rows: Sequence[HistogramRow], max_points: int, max_bytes: int) -> Iterator[Chunk]:
        """Encode rows; a chunk holds at most `max_points` histograms and about `max_bytes` bytes, but at least one."""
        by_series: dict[int, list[HistogramRow]] = {}
        for row in rows:
            by_series.setdefault(row.series, []).append(row)
        for index, some in by_series.items():
            template = self._template(index, b"")
            at_once = max(1, min(max_points, max_bytes // template.size))
            for first in range(0, len(some), at_once):
                part = some[first : first + at_once]
                yield self._chunk(index, self._patched(index, template, part), len(part))

    def ends(self, time_ns: int, columns: tuple[int, ...], max_points: int, max_bytes: int) -> Iterator[Chunk]:
        """Encode one NoRecordedValue point per series (all, when `columns` is empty)."""
        for index in columns or range(len(self)):
            template = self._template(index, _NO_RECORDED_VALUE)
            buckets = self._series[index][2]
            row = HistogramRow(0, index, time_ns, 0.0, 0.0, np.zeros(buckets, np.uint64))
            yield self._chunk(index, self._patched(index, template, [row]), 1)

    def _template(self, index: int, flags: bytes) -> NDArray[np.uint8]:
        _, attrs, buckets, bounds = self._series[index]
        fixed = b"\x19" + bytes(8) + b"\x21" + bytes(8) + b"\x29" + bytes(8) + field(6, bytes(8 * buckets))
        return np.frombuffer(field(1, attrs + flags + fixed + bounds), np.uint8)

    def _patched(self, index: int, template: NDArray[np.uint8], rows: Sequence[HistogramRow]) -> bytes:
        _, _, buckets, bounds = self._series[index]
        counts = np.stack([row.counts for row in rows])
        if counts.shape[1] != buckets:
            raise ValueError(f"a histogram has {counts.shape[1]} buckets where its series has {buckets}")
        out = np.empty((len(rows), template.size), np.uint8)
        out[:] = template
        end = template.size - len(bounds)

        def put(stop: int, words: NDArray[np.uint64] | NDArray[np.float64]) -> None:
            data = np.ascontiguousarray(words.reshape(len(rows), -1)).view(np.uint8)
            out[:, stop - data.shape[1] : stop] = data

        put(end, counts.astype("<u8"))
        end -= 8 * buckets + 1 + len(varint(8 * buckets))
        put(end, np.array([row.total for row in rows], "<f8"))
        put(end - 9, counts.sum(axis=1, dtype=np.uint64).astype("<u8"))
        put(end - 18, np.array([row.time_ns for row in rows], "<u8"))
        return out.tobytes()

    def _chunk(self, index: int, body: bytes, points: int) -> Chunk:
        return Chunk(metrics_body(self._resource, [(self._series[index][0], _HISTOGRAM, body, _DELTA)]), points)
