# SPDX-License-Identifier: Apache-2.0
"""Frames in, OTLP requests out; runs in the sender thread, or in `glideslope sync`.

In: (kind, payload) frames of one spool, in their order. Out: requests (signal, body, count).
Imports `frames`, `series`, `histogram_block`, `spans`, `logs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from glideslope.emit import frames, logs, spans
from glideslope.emit.frames import Definition, HistogramRow, Row
from glideslope.emit.histogram_block import HistogramBlock
from glideslope.emit.series import Chunk, SeriesBlock
from glideslope.emit.wire import Scalar


class Request(NamedTuple):
    """One OTLP request body."""

    signal: str
    """`metrics`, `traces` or `logs`."""
    body: bytes
    points: int
    """Points, spans or log records in it."""


class RequestEncoder:
    """Turns the frames of one spool into OTLP requests; remembers the contexts it has seen."""

    def __init__(self) -> None:
        self._blocks: dict[int, SeriesBlock] = {}
        self._histograms: dict[int, HistogramBlock] = {}
        self._resources: dict[int, Mapping[str, Scalar]] = {}

    def __call__(
        self, batch: Iterable[tuple[int, bytes]], max_points: int = 20_000, max_bytes: int = 4 << 20
    ) -> list[Request]:
        """Encode a batch.

        A request holds at most `max_points` points and about `max_bytes` bytes before compression (at least one point).
        Raises KeyError for a frame whose context was never defined, ValueError for a frame that cannot be read.
        """
        rows: dict[tuple[int, int, bytes], list[Row]] = {}
        found: dict[str, list[Chunk]] = {"metrics": [], "traces": [], "logs": []}
        histograms: dict[int, list[HistogramRow]] = {}
        ends: list[tuple[int, int, tuple[int, ...]]] = []
        for kind, payload in batch:
            kind_of_frame = frames.frame_type(kind)
            if kind_of_frame == frames.VALUES:
                row = frames.unpack_row(payload)
                sparse = b"" if row.columns is None else row.columns.tobytes()
                rows.setdefault((row.context, row.values.size, sparse), []).append(row)
            elif kind_of_frame == frames.DEFINE:
                self._define(frames.unpack_definition(payload))
            elif kind_of_frame == frames.HISTOGRAM:
                one = frames.unpack_histogram(payload)
                histograms.setdefault(one.context, []).append(one)
            elif kind_of_frame == frames.END:
                ends.append(frames.unpack_end(payload))
            elif kind_of_frame in (frames.SPANS, frames.RECORDS):
                signal = "traces" if kind_of_frame == frames.SPANS else "logs"
                found[signal] += self._objects(signal, payload, max_points, max_bytes)
            else:
                raise ValueError(f"frame kind {kind:#x} is unknown: ship it with the glideslope that wrote it")
        for (context, _, _), some in rows.items():
            times = np.array([row.time_ns for row in some], np.uint64)
            values = np.stack([row.values for row in some])
            found["metrics"] += self._blocks[context].chunks(times, values, some[0].columns, max_points, max_bytes)
        for context, drawn in histograms.items():
            found["metrics"] += self._histograms[context].chunks(drawn, max_points, max_bytes)
        for context, time_ns, columns in ends:
            block = self._histograms.get(context) or self._blocks[context]
            found["metrics"] += block.ends(time_ns, columns, max_points, max_bytes)
        return [
            Request(signal, body, points)
            for signal, chunks in found.items()
            for body, points in _joined(chunks, max_points, max_bytes)
        ]

    def _define(self, definition: Definition) -> None:
        context = definition.context
        known = self._histograms.get(context) or self._blocks.get(context)
        if known is not None:
            known.extend(definition)
        elif any(group.instrument == "histogram" for group in definition.groups):
            self._histograms[context] = HistogramBlock(definition)
        else:
            self._blocks[context] = SeriesBlock(definition)
            self._resources[context] = definition.resource

    def _objects(self, signal: str, payload: bytes, max_points: int, max_bytes: int) -> Iterator[Chunk]:
        context, _ = frames.head(payload)
        resource = self._resources[context]
        if signal == "traces":
            made = [span for step in frames.unpack_objects(payload) for span in spans.spans_of(step, resource)]
            for first in range(0, len(made), max_points):
                part = made[first : first + max_points]
                yield Chunk(spans.trace_chunk(part, resource), len(part))
        else:
            some: list[LogRecord] = []
            size = 0
            for event in frames.unpack_objects(payload):
                record = logs.record_of(event, resource)
                if some and (len(some) == max_points or size + record.ByteSize() > max_bytes):
                    yield Chunk(logs.log_chunk(some, resource), len(some))
                    some, size = [], 0
                some.append(record)
                size += record.ByteSize()
            if some:
                yield Chunk(logs.log_chunk(some, resource), len(some))


def _joined(chunks: list[Chunk], max_points: int, max_bytes: int) -> Iterator[Chunk]:
    """Join neighbours as long as the bounds allow."""
    bodies: list[bytes] = []
    points = size = 0
    for chunk in chunks:
        if bodies and (points + chunk.points > max_points or size + len(chunk.body) > max_bytes):
            yield Chunk(b"".join(bodies), points)
            bodies, points, size = [], 0, 0
        bodies.append(chunk.body)
        points, size = points + chunk.points, size + len(chunk.body)
    if bodies:
        yield Chunk(b"".join(bodies), points)
