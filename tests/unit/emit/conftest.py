# SPDX-License-Identifier: Apache-2.0
"""A writer whose frames are kept in a list, and OTLP read back with opentelemetry-proto."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from glideslope.emit import EventWriter, Request, RequestEncoder
from glideslope.events import StepDone

RESOURCE = {
    "service.name": "gpt",
    "run.id": "r1",
    "run.name": "first",
    "run.attempt": 0,
    "dist.rank": 0,
    "dist.local_rank": 0,
    "dist.world_size": 2,
    "host.name": "node1",
    "process.pid": 7,
    "hw.id": "GPU-1",
}
START = 1_800_000_000_000_000_000


class Point(NamedTuple):
    name: str
    attributes: dict[str, Any]
    time_ns: int
    value: float
    kind: str
    ended: bool
    resource: dict[str, Any]
    start_ns: int


def attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def number(point: Any) -> float:
    """The value of a point, the count of a histogram; NaN where nothing was recorded."""
    if hasattr(point, "bucket_counts"):
        return float(point.count)
    return point.as_double if point.WhichOneof("value") else math.nan


def points(requests: Iterable[Request]) -> list[Point]:
    found = []
    for request in requests:
        if request.signal != "metrics":
            continue
        message = ExportMetricsServiceRequest.FromString(request.body)
        some = [
            Point(
                metric.name,
                attributes(point.attributes),
                point.time_unix_nano,
                number(point),
                metric.WhichOneof("data"),
                bool(point.flags & 1),
                attributes(resource.resource.attributes),
                point.start_time_unix_nano,
            )
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in getattr(metric, metric.WhichOneof("data")).data_points
        ]
        assert len(some) == request.points
        found += some
    return found


def spans(requests: Iterable[Request]) -> list[Any]:
    messages = [ExportTraceServiceRequest.FromString(r.body) for r in requests if r.signal == "traces"]
    return [s for m in messages for r in m.resource_spans for scope in r.scope_spans for s in scope.spans]


def records(requests: Iterable[Request]) -> list[Any]:
    messages = [ExportLogsServiceRequest.FromString(r.body) for r in requests if r.signal == "logs"]
    return [s for m in messages for r in m.resource_logs for scope in r.scope_logs for s in scope.log_records]


class Kit:
    """A writer, its frames, and what an encoder makes of them."""

    def __init__(self, resource: dict[str, Any] | None = None, **settings: Any) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.writer = EventWriter(
            RESOURCE | (resource or {}),
            lambda kind, payload: self.frames.append((kind, payload)),
            start_ns=START,
            **settings,
        )
        self.write, self.end = self.writer.write, self.writer.end

    resource = RESOURCE

    @staticmethod
    def read(frames: list[tuple[int, bytes]]) -> list[Point]:
        """The points of other frames."""
        return points(RequestEncoder()(frames))

    def requests(self, **bounds: int) -> list[Request]:
        return RequestEncoder()(self.frames, **bounds)

    def points(self, name: str | None = None) -> list[Point]:
        return [point for point in points(self.requests()) if name in (None, point.name)]

    def series(self, name: str, **labels: Any) -> list[float]:
        wanted = {key.replace("_", "."): value for key, value in labels.items()}
        return [p.value for p in self.points(name) if wanted.items() <= p.attributes.items() and not p.ended]

    def spans(self) -> list[Any]:
        return spans(self.requests())

    def records(self) -> list[Any]:
        return records(self.requests())


@pytest.fixture
def make_kit() -> type[Kit]:
    return Kit


@pytest.fixture(scope="session")
def make_kit_once() -> type[Kit]:
    """The same for property tests, which want no fixture that is made anew for each test."""
    return Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
def read_points() -> Callable[[Iterable[Request]], list[Point]]:
    return points


@pytest.fixture
def step() -> Callable[..., StepDone]:
    """Make a StepDone that ends `step` times 100 ms after the start and took 100 ms, unless told otherwise."""

    def make(number: int, *, took_ms: float = 100, end_ns: int | None = None, **more: Any) -> StepDone:
        end = START + number * 100_000_000 if end_ns is None else end_ns
        return StepDone(number, end - int(took_ms * 1e6), end, **({"loss": 1.0 / number} | more))

    return make
