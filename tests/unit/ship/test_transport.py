# SPDX-License-Identifier: Apache-2.0
"""Replies are read without trust."""

import email.utils
import time

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from glideslope.config import Export
from glideslope.ship.transport import Transport, partial_success, retry_after_s


@pytest.mark.parametrize(
    ("response", "field"),
    [
        (ExportMetricsServiceResponse, "rejected_data_points"),
        (ExportTraceServiceResponse, "rejected_spans"),
        (ExportLogsServiceResponse, "rejected_log_records"),
    ],
)
def test_a_partial_success_is_read_for_every_signal(response, field):
    made = response(partial_success={field: 300, "error_message": "too old"})
    assert partial_success(made.SerializeToString()) == (300, "too old")
    assert partial_success(response().SerializeToString()) == (0, "")


@pytest.mark.parametrize(
    "content", [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", b"{}", b"\x08\x01", b"ok"]
)
def test_rubbish_is_no_partial_success(content):
    assert partial_success(content) == (0, "")


def test_retry_after_is_a_number_or_a_date():
    assert retry_after_s("3") == 3.0
    assert retry_after_s("") is None
    assert retry_after_s("soon") is None
    assert retry_after_s("-5") == 0.0
    assert 50 < retry_after_s(email.utils.formatdate(time.time() + 60, usegmt=True)) <= 60


def test_requests_are_compressed_and_keep_one_connection(receiver):
    transport = Transport(Export(endpoint=receiver.endpoint + "/", headers={"Authorization": "Bearer x"}))
    for _ in range(5):
        assert transport.post("metrics", transport.compress(b"")).status == 200
    assert receiver.connections == 1
    headers = receiver.requests[0].headers
    assert headers["Content-Encoding"] == "zstd"
    assert headers["Authorization"] == "Bearer x"
    assert headers["User-Agent"].startswith("glideslope/")
    transport.close()


def test_paths_can_be_replaced(receiver):
    transport = Transport(Export(endpoint=receiver.endpoint), {"metrics": "/v1/logs"})
    transport.post("metrics", transport.compress(b""))
    assert receiver.requests[0].path == "/v1/logs"
    transport.close()


def test_a_refused_connection_is_an_answer_with_the_reason(receiver):
    receiver.stop()
    answer = Transport(Export(endpoint=receiver.endpoint)).post("metrics", b"")
    assert answer.status == 0
    assert "refused" in answer.message


def test_a_server_that_never_answers_costs_the_read_timeout(raw_server):
    server = raw_server(lambda connection: None)
    answer = Transport(Export(endpoint=server.url)).post("metrics", b"", read_s=0.1)
    assert answer.status == 0
    assert "timed out" in answer.message.lower()


@pytest.mark.parametrize("reply", [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"])
def test_a_broken_reply_is_no_answer(raw_server, reply):
    def handle(connection):
        connection.recv(1 << 16)
        connection.sendall(reply)
        connection.close()

    assert Transport(Export(endpoint=raw_server(handle).url)).post("metrics", b"x", read_s=5).status == 0
