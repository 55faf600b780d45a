# SPDX-License-Identifier: Apache-2.0
"""Replies are read without trust."""

import email.utils
import threading
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


def test_the_epoch_of_the_store_is_read_from_every_answer(receiver):
    transport = Transport(Export(endpoint=receiver.endpoint))
    assert transport.post("metrics", transport.compress(b"")).epoch == ""
    receiver.epoch = "17.0"
    assert transport.post("logs", transport.compress(b"")).epoch == "17.0"
    receiver.answer(503)
    assert transport.post("traces", transport.compress(b"")).epoch == "17.0"
    transport.close()


def dripping(head, piece):
    """Send `head`, then `piece` again and again, ten times a second, in a thread of its own."""

    def handle(connection):
        def work():
            try:
                connection.recv(1 << 16)
                connection.sendall(head)
                while True:
                    connection.sendall(piece)
                    time.sleep(0.1)
            except OSError:
                return

        threading.Thread(target=work, daemon=True).start()

    return handle


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
)
def test_an_answer_that_drips_is_given_up_when_the_time_is_over(raw_server, head, piece):
    transport = Transport(Export(endpoint=raw_server(dripping(head, piece)).url))
    began = time.monotonic()
    answer = transport.post("metrics", b"x", 0.5)
    assert time.monotonic() - began < 3
    assert answer.status == 0
    transport.close()


def test_an_endless_answer_is_read_up_to_a_bound(raw_server):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    server = raw_server(dripping(head, piece * 3))
    transport = Transport(Export(endpoint=server.url))
    assert transport.post("metrics", b"x", 5).status == 200
    assert transport.post("metrics", b"x", 5).status == 200
    assert len(server.accepted) == 2, "a connection with a rest in it is not used again"
    transport.close()


def test_a_receiver_that_does_not_read_is_given_up_when_the_time_is_over(raw_server):
    transport = Transport(Export(endpoint=raw_server(lambda connection: None).url))
    began = time.monotonic()
    assert transport.post("metrics", bytes(64 << 20), 0.5).status == 0
    assert time.monotonic() - began < 3


def test_a_slow_line_has_the_whole_time_for_sending(raw_server):
    """Longer than the time to connect."""

    def handle(connection):
        def work():
            left = 8 << 20
            while left > 0:
                time.sleep(0.01)
                left -= len(connection.recv(1 << 16))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=work, daemon=True).start()

    transport = Transport(Export(endpoint=raw_server(handle).url))
    assert transport.post("metrics", bytes(8 << 20), 30).status == 200
    transport.close()
