# SPDX-License-Identifier: Apache-2.0
"""Events as OTLP log records: name, sentence, severity, step, the trace of that step, attributes.

In: resource attributes and JSON objects {name, time, body, severity, step, attributes}.
Out: chunks of a serialized ExportLogsServiceRequest. Imports `ids`, `spans`, `wire`, `events`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from glideslope.emit.ids import span_id, trace_id
from glideslope.emit.spans import resource_message
from glideslope.emit.wire import Scalar, attributes
from glideslope.events import Severity


def record_of(event: Mapping[str, Any], resource: Mapping[str, Scalar]) -> LogRecord:
    """One log record."""
    marks: dict[str, Scalar] = dict(event["attributes"])
    step = event["step"]
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if step is not None:
        marks["train.step"] = step
    record = LogRecord.FromString(attributes(6, marks))
    record.time_unix_nano = record.observed_time_unix_nano = event["time"]
    record.severity_number = event["severity"]
    record.severity_text = Severity(event["severity"]).name
    record.event_name = event["name"]
    record.body.CopyFrom(AnyValue(string_value=event["body"]))
    if isinstance(step, int):
        run, attempt = str(resource["run.id"]), str(resource["run.attempt"])
        record.trace_id = trace_id(run, attempt, step)
        record.span_id = span_id(run, attempt, step, f"rank{resource['dist.rank']}")
    return record


def log_chunk(records: Sequence[LogRecord], resource: Mapping[str, Scalar]) -> bytes:
    """Serialize log records of one resource."""
    scope = ScopeLogs(scope=InstrumentationScope(name="glideslope"), log_records=records)
    message = ResourceLogs(resource=resource_message(resource), scope_logs=[scope])
    return ExportLogsServiceRequest(resource_logs=[message]).SerializeToString()
