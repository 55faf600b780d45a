# SPDX-License-Identifier: Apache-2.0
"""Compact frames: what the training thread writes to the spool, and what the sender turns into OTLP.

In: contexts, values, spans, logs. Out: (kind, payload) and back. Imports nothing of glideslope.

A kind is one byte: its upper four bits name the drop class, its lower four bits the frame type. Each payload starts
with two little-endian u32: the id of the context that gives it meaning, and the number of points, spans or logs in it.
A context (`DEFINE`) holds resource, scope and series; it is cumulative: a later definition of the same context adds
series. The spool repeats definitions in each segment that needs them. Values are f64, or f32 where nothing is lost;
an absent value is NaN. Each row carries a time in ns and the step it belongs to (NaN = none).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from glideslope.emit.wire import Scalar

METRICS, LAYERS, TRACES, LOGS = range(4)
"""Drop classes, in the order of `drop.class` in the registry."""
CLASS_NAMES = ("metrics", "layers", "traces", "logs")
DEFINE, VALUES, END, SPANS, RECORDS, HISTOGRAM = range(1, 7)
"""Frame types."""

_HEAD = struct.Struct("<II")
_ROW = struct.Struct("<QdBB6x")
_END = struct.Struct("<IIQ")
_FIRST = struct.Struct("<I")
_HISTOGRAM = struct.Struct("<QdIIdB7x")
_ALL, _LISTED, _RUN = range(3)
"""Which series a row has: the first ones of the context, those that are listed, or a run of them."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_BEYOND_F32 = (1 << 29) - 1
_PACK_FROM = 64
"""Rows of at least this many values are narrowed to f32 when that loses nothing."""


def kind(drop_class: int, frame_type: int) -> int:
    """Make a kind byte."""
    return drop_class << 4 | frame_type


def frame_type(kind_byte: int) -> int:
    """The frame type of a kind byte."""
    return kind_byte & 0x0F


@dataclass(frozen=True, slots=True)
class SeriesGroup:
    """Series of one metric that differ in the values of `keys`."""

    metric: str
    instrument: str
    """`gauge`, `counter` or `histogram`."""
    unit: str
    shared: Mapping[str, Scalar]
    """Attributes that all series of the group have."""
    keys: tuple[str, ...]
    rows: Sequence[tuple[Scalar, ...]]
    """One tuple of attribute values per series, in the order of `keys`."""
    edges: tuple[float, ...] = ()
    """Bounds of the buckets of histograms."""
    digits: int = 0
    """Significant decimal digits that values are rounded to when they are sent; 0 = all."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A decoded `DEFINE` frame."""

    context: int
    first: int
    """Number of series that the context had before."""
    resource: Mapping[str, Scalar]
    start_ns: int
    """Start time of the cumulative counters."""
    groups: tuple[SeriesGroup, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A decoded `VALUES` frame: values of some series of a context at one time."""

    context: int
    time_ns: int
    step: float
    values: NDArray[np.float64]
    columns: NDArray[np.uint32] | None
    """Index of each value's series; None = the first len(values) series of the context."""


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """A decoded `HISTOGRAM` frame."""

    context: int
    series: int
    time_ns: int
    step: float
    total: float
    """Sum of the values; NaN = unknown."""
    counts: NDArray[np.uint64]
    """Values per bucket, of shape (edges + 1,)."""


def _json(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return zstandard.compress(text, 1) if len(text) > 1024 else text


def _parsed(data: bytes) -> Any:
    if data[:4] == _ZSTD:
        data = zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 28)
    return json.loads(data)


def head(payload: bytes) -> tuple[int, int]:
    """Return (context id, count) of a payload."""
    context, count = _HEAD.unpack_from(payload)
    return context, count


def pack_definition(definition: Definition) -> bytes:
    """Encode a definition; its count is the number of series it adds."""
    groups = [
        [g.metric, g.instrument, g.unit, dict(g.shared), g.keys, list(g.rows), g.edges, g.digits]
        for g in definition.groups
    ]
    body = {"first": definition.first, "resource": dict(definition.resource), "start": definition.start_ns}
    count = sum(len(group.rows) for group in definition.groups)
    return _HEAD.pack(definition.context, count) + _json(body | {"groups": groups})


def unpack_definition(payload: bytes) -> Definition:
    """Decode a definition."""
    context, _ = head(payload)
    body = _parsed(payload[_HEAD.size :])
    groups = tuple(
        SeriesGroup(metric, instrument, unit, shared, tuple(keys), [tuple(row) for row in rows], tuple(edges), digits)
        for metric, instrument, unit, shared, keys, rows, edges, digits in body["groups"]
    )
    return Definition(context, body["first"], body["resource"], body["start"], groups)


class RowForm:
    """The constant part of rows of the same series; makes payloads of `VALUES` frames."""

    __slots__ = ("_columns", "_count", "_form", "_struct", "context")

    def __init__(self, context: int, count: int, columns: NDArray[np.integer[Any]] | None) -> None:
        """`columns` (count,) says which series the rows have; None = the first `count` of the context."""
        self.context, self._count = context, count
        self._form, self._columns = _ALL, b""
        if columns is not None and count:
            first = int(columns[0])
            if np.array_equal(columns, np.arange(first, first + count)):
                self._form, self._columns = (_RUN, _FIRST.pack(first)) if first else (_ALL, b"")
            else:
                self._form, self._columns = _LISTED, columns.astype("<u4").tobytes()
        self._struct = struct.Struct(f"<IIQdBB6x{len(self._columns)}s{count if count < _PACK_FROM else 0}d")

    def pack_few(self, time_ns: int, step: float, values: Sequence[float]) -> bytes:
        """Encode one row of less than 64 values."""
        return self._struct.pack(self.context, self._count, time_ns, step, 8, self._form, self._columns, *values)

    def pack(self, time_ns: int, step: float, values: NDArray[np.float64]) -> bytes:
        """Encode one row."""
        data, width = values, 8
        bits = values.view(np.uint64)
        # One pass tells most float64 rows from float32 ones, whose lower 29 bits are zero; the second one makes sure.
        if values.size >= _PACK_FROM and not int(np.bitwise_or.reduce(bits)) & _BEYOND_F32:
            with np.errstate(over="ignore", invalid="ignore"):
                narrow = values.astype("<f4")
                if np.array_equal(narrow.astype(np.float64).view(np.uint64), bits):
                    data, width = narrow, 4
        row = _ROW.pack(time_ns, step, width, self._form)
        return b"".join((_HEAD.pack(self.context, self._count), row, self._columns, data.tobytes()))


def pack_list(context: int, time_ns: int, step: float, values: Sequence[float]) -> bytes:
    """Encode one row of the first series of a context from a list; for few values."""
    count = len(values)
    return _HEAD.pack(context, count) + _ROW.pack(time_ns, step, 8, _ALL) + struct.pack(f"<{count}d", *values)


def unpack_row(payload: bytes) -> Row:
    """Decode one row."""
    context, count = _HEAD.unpack_from(payload)
    time_ns, step, width, form = _ROW.unpack_from(payload, _HEAD.size)
    start = _HEAD.size + _ROW.size
    columns = None
    if form == _LISTED:
        columns = np.frombuffer(payload, "<u4", count, start)
        start += 4 * count
    elif form == _RUN:
        (first,) = _FIRST.unpack_from(payload, start)
        columns = np.arange(first, first + count, dtype=np.uint32)
        start += _FIRST.size
    data = np.frombuffer(payload, "<f8" if width == 8 else "<f4", count, start)
    return Row(context, time_ns, step, data.astype(np.float64, copy=False), columns)


def pack_histogram(
    context: int, series: int, time_ns: int, step: float, total: float, counts: NDArray[np.uint64]
) -> bytes:
    """Encode one histogram: the sum of its values and `counts` (buckets,) of the series number `series`."""
    width = next(size for size in (1, 2, 4, 8) if size == 8 or int(counts.max()) < 256**size)
    row = _HISTOGRAM.pack(time_ns, step, series, counts.size, total, width)
    return _HEAD.pack(context, 1) + row + counts.astype(f"<u{width}").tobytes()


def unpack_histogram(payload: bytes) -> HistogramRow:
    """Decode one histogram."""
    context, _ = head(payload)
    time_ns, step, series, buckets, total, width = _HISTOGRAM.unpack_from(payload, _HEAD.size)
    counts = np.frombuffer(payload, f"<u{width}", buckets, _HEAD.size + _HISTOGRAM.size)
    return HistogramRow(context, series, time_ns, step, total, counts.astype(np.uint64))


def pack_end(context: int, count: int, time_ns: int, columns: Sequence[int] = ()) -> bytes:
    """Encode the end of all `count` series of a context, or of those in `columns`."""
    return _END.pack(context, count, time_ns) + np.asarray(columns, "<u4").tobytes()


def unpack_end(payload: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Return (context id, time in ns, columns) of an end frame; no columns = all series."""
    context, _, time_ns = _END.unpack_from(payload)
    return context, time_ns, tuple(np.frombuffer(payload, "<u4", offset=_END.size).tolist())


def pack_objects(context: int, objects: Sequence[Mapping[str, Any]], count: int) -> bytes:
    """Encode spans or logs as JSON objects."""
    return _HEAD.pack(context, count) + _json(objects)


def unpack_objects(payload: bytes) -> list[dict[str, Any]]:
    """Decode spans or logs."""
    objects: list[dict[str, Any]] = _parsed(payload[_HEAD.size :])
    return objects
