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
DEFINE, VALUES, END, SPANS, RECORDS = range(1, 6)
"""Frame types."""

_HEAD = struct.Struct("<II")
_ROW = struct.Struct("<QdBB6x")
_END = struct.Struct("<IIQ")
_ZSTD = b"\x28\xb5\x2f\xfd"
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
    """`gauge` or `counter`."""
    unit: str
    shared: Mapping[str, Scalar]
    """Attributes that all series of the group have."""
    keys: tuple[str, ...]
    rows: Sequence[tuple[Scalar, ...]]
    """One tuple of attribute values per series, in the order of `keys`."""


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
    groups = [[g.metric, g.instrument, g.unit, dict(g.shared), g.keys, list(g.rows)] for g in definition.groups]
    body = {"first": definition.first, "resource": dict(definition.resource), "start": definition.start_ns}
    count = sum(len(group.rows) for group in definition.groups)
    return _HEAD.pack(definition.context, count) + _json(body | {"groups": groups})


def unpack_definition(payload: bytes) -> Definition:
    """Decode a definition."""
    context, _ = head(payload)
    body = _parsed(payload[_HEAD.size :])
    groups = tuple(
        SeriesGroup(metric, instrument, unit, shared, tuple(keys), [tuple(row) for row in rows])
        for metric, instrument, unit, shared, keys, rows in body["groups"]
    )
    return Definition(context, body["first"], body["resource"], body["start"], groups)


def pack_list(context: int, time_ns: int, step: float, values: Sequence[float]) -> bytes:
    """Encode one row from a list; for few values."""
    count = len(values)
    return _HEAD.pack(context, count) + _ROW.pack(time_ns, step, 8, 0) + struct.pack(f"<{count}d", *values)


def pack_array(
    context: int, time_ns: int, step: float, values: NDArray[np.float64], columns: NDArray[np.uint32] | None = None
) -> bytes:
    """Encode one row from a float64 array of shape (series,); `columns` (uint32, same shape) says which series."""
    data, width = values.tobytes(), 8
    if values.size >= _PACK_FROM:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = values.astype("<f4")
        if np.array_equal(narrow, values, equal_nan=True):
            data, width = narrow.tobytes(), 4
    sparse = b"" if columns is None else columns.tobytes()
    row = _ROW.pack(time_ns, step, width, columns is not None)
    return b"".join((_HEAD.pack(context, values.size), row, sparse, data))


def unpack_row(payload: bytes) -> Row:
    """Decode one row."""
    context, count = _HEAD.unpack_from(payload)
    time_ns, step, width, sparse = _ROW.unpack_from(payload, _HEAD.size)
    start = _HEAD.size + _ROW.size
    columns = np.frombuffer(payload, "<u4", count, start) if sparse else None
    data = np.frombuffer(payload, "<f8" if width == 8 else "<f4", count, start + 4 * count * sparse)
    return Row(context, time_ns, step, data.astype(np.float64, copy=False), columns)


def pack_end(context: int, count: int, time_ns: int) -> bytes:
    """Encode the end of all series of a context."""
    return _END.pack(context, count, time_ns)


def unpack_end(payload: bytes) -> tuple[int, int]:
    """Return (context id, time in ns) of an end frame."""
    context, _, time_ns = _END.unpack(payload)
    return context, time_ns


def pack_objects(context: int, objects: Sequence[Mapping[str, Any]], count: int) -> bytes:
    """Encode spans or logs as JSON objects."""
    return _HEAD.pack(context, count) + _json(objects)


def unpack_objects(payload: bytes) -> list[dict[str, Any]]:
    """Decode spans or logs."""
    objects: list[dict[str, Any]] = _parsed(payload[_HEAD.size :])
    return objects
