# SPDX-License-Identifier: Apache-2.0
"""Kept steps as OTLP spans: a root over all ranks, one `train.step` a rank, one span a phase.

In: resource attributes and JSON objects {step, start, end, phases: [[name, start, end], …], attributes}.
Out: chunks of a serialized ExportTraceServiceRequest. Imports `ids`, `wire`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from glideslope.emit.ids import span_id, trace_id
from glideslope.emit.wire import Scalar, attributes


def resource_message(resource: Mapping[str, Scalar]) -> Resource:
    """The OTLP resource of a mapping."""
    return Resource.FromString(attributes(1, dict(resource)))


def spans_of(step: Mapping[str, Any], resource: Mapping[str, Scalar]) -> list[Span]:
    """Spans of one step on one rank; rank 0 adds the root."""
    run, attempt, rank = str(resource["run.id"]), str(resource["run.attempt"]), str(resource["dist.rank"])
    number = int(step["step"])
    trace = trace_id(run, attempt, number)
    root = span_id(run, attempt, number, "root")
    own = span_id(run, attempt, number, f"rank{rank}")
    marks: dict[str, Scalar] = {"train.step": number, **step.get("attributes", {})}
    status = Status(code=Status.STATUS_CODE_ERROR) if step.get("error") else None

    def span(name: str, identity: bytes, parent: bytes, start: int, end: int, attrs: dict[str, Scalar]) -> Span:
        made = Span.FromString(attributes(9, attrs))
        made.trace_id, made.span_id, made.parent_span_id = trace, identity, parent
        made.name, made.kind = name, Span.SPAN_KIND_INTERNAL
        made.start_time_unix_nano, made.end_time_unix_nano = start, max(start, end)
        if status is not None and name.startswith("train.step"):
            made.status.CopyFrom(status)
        return made

    spans = [span("train.step", own, root, step["start"], step["end"], marks)]
    if rank == "0":
        spans.insert(0, span("train.step.root", root, b"", step["start"], step["end"], marks))
    for index, (name, start, end) in enumerate(step["phases"]):
        identity = span_id(run, attempt, number, f"rank{rank}|{index}|{name}")
        spans.append(span(name, identity, own, start, end, {}))
    return spans


def trace_chunk(spans: Sequence[Span], resource: Mapping[str, Scalar]) -> bytes:
    """Serialize spans of one resource."""
    scope = ScopeSpans(scope=InstrumentationScope(name="glideslope"), spans=spans)
    message = ResourceSpans(resource=resource_message(resource), scope_spans=[scope])
    return ExportTraceServiceRequest(resource_spans=[message]).SerializeToString()
