# SPDX-License-Identifier: Apache-2.0
"""An OTLP receiver in memory, for tests of anything that sends OTLP.

In: OTLP/HTTP requests (protobuf; plain, gzip, deflate or zstd). Out: decoded points, spans and log records. It can be
told to refuse, to be slow, to reject a part, and to be gone. Imports config and the OTLP message classes only.
"""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

import zstandard
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from glideslope.config import LOOPBACK
from glideslope.testing.loopback import LoopbackServer

__all__ = ["LogRecord", "OtlpReceiver", "Point", "Request", "Span"]

Attribute = str | int | float | bool | bytes | None | list[Any] | dict[str, Any]
_MAX_BODY = 256 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it arrived, and the status it was answered with."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    """After decompression."""
    size: int
    """Bytes on the wire."""
    status: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Point:
    """One data point of a gauge or sum."""

    name: str
    value: float
    time_ns: int
    attributes: Mapping[str, Attribute]
    resource: Mapping[str, Attribute]
    unit: str
    kind: str
    """`gauge`, `counter` (monotonic sum) or `sum`."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span; ids in lower-case hex, `parent_id` empty for a root."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute]
    resource: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record; `name` is its event name."""

    name: str
    body: Attribute
    severity: int
    time_ns: int
    attributes: Mapping[str, Attribute]
    resource: Mapping[str, Attribute]
    trace_id: str = ""
    span_id: str = ""


@dataclass(slots=True)
class _Answer:
    status: int = 200
    delay_s: float = 0.0
    retry_after_s: int | None = None
    rejected: int = 0
    times: int | None = None
    paths: tuple[str, ...] = ()


def _value(value: AnyValue) -> Attribute:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    plain: Attribute = getattr(value, kind)
    return plain


def _attributes(pairs: Any) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    pair: KeyValue
    for pair in pairs:
        found[pair.key] = _value(pair.value)
    return found


_SIGNALS: dict[str, tuple[type[Any], type[Any], str]] = {
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse, "rejected_data_points"),
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse, "rejected_spans"),
    "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse, "rejected_log_records"),
}


def _inflate(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "deflate":
        return zlib.decompress(body)
    if encoding == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    raise ValueError(f"unknown Content-Encoding {encoding!r}")


class OtlpReceiver:
    """An OTLP/HTTP (protobuf) receiver on a loopback port that keeps what it got in memory.

    Use it as a context manager, or call `start` and `stop`; a stopped receiver can be started again on the same port,
    which is how an outage is played. Only requests answered with 2xx count as received; all are in `requests`.
    """

    def __init__(self, port: int = 0, *, keep: int = 100_000) -> None:
        """`port` 0 takes a free one; at most `keep` requests are remembered, the oldest go first."""
        self.port = port
        self.epoch = ""
        """Sent as `Glideslope-Store-Epoch` with every answer; another text plays a restart of the store."""
        self._kept: deque[Request] = deque(maxlen=keep)
        self._answers: list[_Answer] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server: LoopbackServer | None = None

    @property
    def endpoint(self) -> str:
        """Base URL, for OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> Self:
        """Begin to listen, on the port of the last start if there was one; does nothing while it listens."""
        if self._server is not None:
            return self
        receiver = self
        self._stopping.clear()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._receive(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = LoopbackServer(self.port, Handler)
        self.port = self._server.server_address[1]
        return self

    def stop(self) -> None:
        """Cut all connections and stop listening; what was received stays readable."""
        self._stopping.set()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def answer(
        self,
        status: int = 200,
        *,
        delay_s: float = 0.0,
        retry_after_s: int | None = None,
        rejected: int = 0,
        times: int | None = None,
        paths: Sequence[str] = (),
    ) -> None:
        """Say how the next requests are answered.

        `status` such as 200, 400, 413, 429, 503; `delay_s` is waited before the answer; `retry_after_s` sets the
        header; `rejected` is the count of a partial success; `times` ends it after so many requests (None = until the
        next call); `paths` limits it to signals such as `/v1/metrics`. Calls with `times` queue up in order.
        """
        with self._changed:
            if times is None:
                self._answers.clear()
            self._answers.append(_Answer(status, delay_s, retry_after_s, rejected, times, tuple(paths)))

    def _next_answer(self, path: str) -> _Answer:
        with self._changed:
            for answer in self._answers:
                if answer.paths and path not in answer.paths:
                    continue
                if answer.times is not None:
                    answer.times -= 1
                    if answer.times <= 0:
                        self._answers.remove(answer)
                return answer
        return _Answer()

    def _receive(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            handler.close_connection = True
            handler.send_error(413)
            return
        wire = handler.rfile.read(length)
        answer = self._next_answer(handler.path)
        status, reply, body = answer.status, b"", b""
        try:
            request, response, rejected = _SIGNALS[handler.path]
            body = _inflate(wire, handler.headers.get("Content-Encoding", "").strip().lower())
            request.FromString(body)
            if answer.rejected:
                partial = {rejected: answer.rejected, "error_message": "rejected by the test"}
                reply = response(partial_success=partial).SerializeToString()
        except KeyError:
            status = 404
        except (DecodeError, ValueError, OSError, zlib.error, zstandard.ZstdError):
            status = 400
        if answer.delay_s and self._stopping.wait(answer.delay_s):
            handler.close_connection = True
            return
        now = time.time_ns()
        with self._changed:
            self._kept.append(Request(handler.path, dict(handler.headers), body, len(wire), status, now))
            self._changed.notify_all()
        handler.send_response(status)
        if answer.retry_after_s is not None:
            handler.send_header("Retry-After", str(answer.retry_after_s))
        if self.epoch:
            handler.send_header("Glideslope-Store-Epoch", self.epoch)
        handler.send_header("Content-Type", "application/x-protobuf")
        handler.send_header("Content-Length", str(len(reply)))
        handler.end_headers()
        handler.wfile.write(reply)

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return 0 if self._server is None else self._server.connections

    @property
    def requests(self) -> list[Request]:
        """Every request so far, refused ones too, oldest first."""
        with self._changed:
            return list(self._kept)

    def clear(self) -> None:
        """Forget what was received."""
        with self._changed:
            self._kept.clear()

    def wait_for(self, condition: Callable[[OtlpReceiver], bool], timeout_s: float = 10.0) -> bool:
        """Wait until `condition(receiver)` holds, looking again after each request; False when time ran out."""
        deadline = time.monotonic() + timeout_s
        while not condition(self):
            with self._changed:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.1))
        return True

    def _received(self, path: str) -> list[Any]:
        return [
            _SIGNALS[path][0].FromString(request.body)
            for request in self.requests
            if request.path == path and request.status < 300
        ]

    def metrics(self, name: str | None = None) -> list[Point]:
        """Every gauge and sum point received, in order of arrival; only those of metric `name` if given."""
        points: list[Point] = []
        for message in self._received("/v1/metrics"):
            for group in message.resource_metrics:
                resource = _attributes(group.resource.attributes)
                for metric in (m for scope in group.scope_metrics for m in scope.metrics):
                    data = metric.WhichOneof("data")
                    if data not in ("gauge", "sum") or (name is not None and metric.name != name):
                        continue
                    kind = "counter" if data == "sum" and metric.sum.is_monotonic else data
                    for point in getattr(metric, data).data_points:
                        value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
                        points.append(
                            Point(
                                metric.name,
                                value,
                                point.time_unix_nano,
                                _attributes(point.attributes),
                                resource,
                                metric.unit,
                                kind,
                            )
                        )
        return points

    def spans(self, name: str | None = None) -> list[Span]:
        """Every span received, in order of arrival; only those called `name` if given."""
        return [
            Span(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                _attributes(span.attributes),
                _attributes(group.resource.attributes),
            )
            for message in self._received("/v1/traces")
            for group in message.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
            if name is None or span.name == name
        ]

    def logs(self, name: str | None = None) -> list[LogRecord]:
        """Every log record received, in order of arrival; only those whose event name is `name` if given."""
        return [
            LogRecord(
                record.event_name,
                _value(record.body),
                record.severity_number,
                record.time_unix_nano,
                _attributes(record.attributes),
                _attributes(group.resource.attributes),
                record.trace_id.hex(),
                record.span_id.hex(),
            )
            for message in self._received("/v1/logs")
            for group in message.resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
            if name is None or record.event_name == name
        ]
