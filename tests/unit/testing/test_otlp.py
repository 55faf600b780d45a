# SPDX-License-Identifier: Apache-2.0
"""The shipped stand-ins: what they record, how they misbehave on request, and that they stop at once."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable

import httpx
import pytest
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from glideslope.testing import OtlpReceiver


def metrics_body(*values: float, name: str = "train.loss") -> bytes:
    message = ExportMetricsServiceRequest()
    group = message.resource_metrics.add()
    group.resource.attributes.add(key="run.id").value.string_value = "r1"
    metric = group.scope_metrics.add().metrics.add(name=name, unit="s")
    for index, value in enumerate(values):
        point = metric.gauge.data_points.add(time_unix_nano=1000 + index, as_double=value)
        point.attributes.add(key="dist.rank").value.int_value = index
    counter = group.scope_metrics[0].metrics.add(name="train.tokens")
    counter.sum.is_monotonic = True
    counter.sum.data_points.add(time_unix_nano=5, as_int=7)
    return message.SerializeToString()


def post(receiver: OtlpReceiver, body: bytes, path: str = "/v1/metrics", **headers: str) -> httpx.Response:
    return httpx.post(receiver.endpoint + path, content=body, headers=headers, timeout=10)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("identity", bytes), ("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_points_are_decoded_whatever_the_compression(
    receiver: OtlpReceiver, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    assert post(receiver, pack(metrics_body(1.5, 2.5)), **{"Content-Encoding": encoding}).status_code == 200
    first, second = receiver.metrics("train.loss")
    assert (first.value, first.time_ns, first.unit, first.kind) == (1.5, 1000, "s", "gauge")
    assert (second.attributes, second.resource) == ({"dist.rank": 1}, {"run.id": "r1"})
    (tokens,) = receiver.metrics("train.tokens")
    assert (tokens.value, tokens.kind) == (7, "counter")


def test_spans_and_logs_are_decoded(receiver: OtlpReceiver) -> None:
    traces = ExportTraceServiceRequest()
    traces.resource_spans.add().scope_spans.add().spans.add(
        name="train.step", trace_id=b"\x01" * 16, span_id=b"\x02" * 8, start_time_unix_nano=1, end_time_unix_nano=9
    )
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add(event_name="train.run.start", severity_number=9)
    record.body.string_value = "began"
    assert post(receiver, traces.SerializeToString(), "/v1/traces").status_code == 200
    assert post(receiver, logs.SerializeToString(), "/v1/logs").status_code == 200
    (span,) = receiver.spans("train.step")
    assert (span.trace_id, span.span_id, span.parent_id, span.end_ns) == ("01" * 16, "02" * 8, "", 9)
    (log,) = receiver.logs()
    assert (log.name, log.body, log.severity) == ("train.run.start", "began", 9)


def test_refused_requests_are_recorded_but_do_not_count_as_received(receiver: OtlpReceiver) -> None:
    receiver.answer(503, retry_after_s=3, times=1)
    receiver.answer(413, times=1)
    answers = [post(receiver, metrics_body(1.0)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 413, 200]
    assert answers[0].headers["Retry-After"] == "3"
    assert [request.status for request in receiver.requests] == [503, 413, 200]
    assert len(receiver.metrics("train.loss")) == 1


def test_an_answer_can_be_limited_to_one_signal(receiver: OtlpReceiver) -> None:
    receiver.answer(429, paths=["/v1/logs"])
    assert post(receiver, metrics_body(1.0)).status_code == 200
    assert post(receiver, b"", "/v1/logs").status_code == 429


def test_a_partial_success_says_how_many_were_rejected(receiver: OtlpReceiver) -> None:
    receiver.answer(rejected=4, times=1)
    reply = ExportMetricsServiceResponse.FromString(post(receiver, metrics_body(1.0)).content)
    assert reply.partial_success.rejected_data_points == 4


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}])
def test_a_body_that_cannot_be_read_is_answered_with_400(receiver: OtlpReceiver, headers: dict[str, str]) -> None:
    assert post(receiver, b"\xff not a message", **headers).status_code == 400
    assert receiver.metrics() == []


def test_an_unknown_path_is_answered_with_404(receiver: OtlpReceiver) -> None:
    assert post(receiver, b"", "/v1/unknown").status_code == 404


def test_a_stopped_receiver_cuts_connections_and_starts_again_on_its_port() -> None:
    receiver = OtlpReceiver().start()
    port = receiver.port
    with httpx.Client() as client:
        assert client.post(receiver.endpoint + "/v1/metrics", content=metrics_body(1.0)).status_code == 200
        receiver.stop()
        with pytest.raises(httpx.TransportError):
            client.post(receiver.endpoint + "/v1/metrics", content=metrics_body(2.0))
        with receiver.start():
            assert receiver.port == port
            assert client.post(receiver.endpoint + "/v1/metrics", content=metrics_body(3.0)).status_code == 200
    assert [point.value for point in receiver.metrics("train.loss")] == [1.0, 3.0]


def test_stopping_does_not_wait_for_a_slow_answer() -> None:
    receiver = OtlpReceiver().start()
    receiver.answer(delay_s=3600)
    outcome: list[type[BaseException]] = []

    def send() -> None:
        try:
            post(receiver, metrics_body(1.0))
        except httpx.TransportError as error:
            outcome.append(type(error))

    sender = threading.Thread(target=send)
    sender.start()
    while not receiver.connections:
        time.sleep(0.001)
    receiver.stop()
    sender.join(10)
    assert len(outcome) == 1
    assert receiver.requests == []


def test_waiting_ends_when_the_condition_holds_or_time_runs_out(receiver: OtlpReceiver) -> None:
    sender = threading.Timer(0.05, lambda: post(receiver, metrics_body(1.0)))
    sender.start()
    assert receiver.wait_for(lambda got: len(got.metrics("train.loss")) == 1)
    sender.join()
    assert not receiver.wait_for(lambda got: len(got.requests) > 1, timeout_s=0.05)
