# SPDX-License-Identifier: Apache-2.0
"""The store proxy against the real VictoriaMetrics, and against servers that misbehave."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from glideslope.config import Ports
from glideslope.store.victoria import Series, Victoria

Serve = Callable[..., httpx.Client]
PROXY = "/api/datasources/proxy"


@pytest.fixture(scope="module")
def client(read_only: httpx.Client, victoria_url: str) -> httpx.Client:
    """A client of a server whose VictoriaMetrics holds 20,000 samples of one series."""
    # Old enough for the 30 s that a plain VictoriaMetrics hides.
    now = time.time_ns() // 1_000_000 - 40_000
    with Victoria(victoria_url) as store:
        stamps = tuple(range(now - 20_000, now))
        store.import_lines([Series({"__name__": "proxied", "run_id": "r1"}, stamps, (1.5,) * 20_000)])
        store.flush()
    return read_only


@contextmanager
def upstream(answer: bytes, *, hold: bool = False) -> Iterator[str]:
    """A server that reads a request and then sends exactly these bytes; `hold` keeps the connection open."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)

        def handle() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                try:
                    connection.sendall(answer)
                except OSError:
                    return
                if hold:
                    done.wait(20)

        thread = threading.Thread(target=handle)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            done.set()
            thread.join(20)


def test_the_datasources_are_those_of_the_dashboards(client: httpx.Client) -> None:
    listed = client.get("/api/datasources").json()
    assert {entry["uid"]: entry["type"] for entry in listed} == {
        "live": "prometheus",
        "curves": "prometheus",
        "logs": "victoriametrics-logs-datasource",
        "traces": "jaeger",
    }
    assert [entry["uid"] for entry in listed if entry["isDefault"]] == ["live"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_query_is_answered_by_the_store(client: httpx.Client, method: str) -> None:
    fields = {"query": 'proxied{run_id="r1"}', "time": str(time.time())}
    url = f"{PROXY}/live/api/v1/query"
    answer = client.get(url, params=fields) if method == "GET" else client.post(url, data=fields)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["data"]["result"][0]["value"][1] == "1.5"


@pytest.mark.parametrize(
    "path",
    ["query_range?query=proxied", "series?match[]=proxied", "labels", "label/run_id/values", "label/__name__/values"],
)
def test_every_listed_path_is_relayed(client: httpx.Client, path: str) -> None:
    assert client.get(f"{PROXY}/live/api/v1/{path}").json()["status"] == "success"


def test_a_bad_query_comes_back_as_the_store_puts_it(client: httpx.Client) -> None:
    answer = client.get(f"{PROXY}/live/api/v1/query", params={"query": "proxied{"})
    assert answer.status_code == 422 or answer.status_code == 400
    assert answer.json()["status"] == "error"


@pytest.mark.parametrize(
    "path",
    [
        "live/api/v1/admin/tsdb/delete_series",
        "live/api/v1/import",
        "live/api/v1/export",
        "live/write",
        "live/internal/force_flush",
        "live/snapshot/create",
        "live/metrics",
        "live/",
        "live/api/v1/query/",
        "live/api/v1/query%0d%0aX:%20y",
        "live/api/v1/label/../../admin/tsdb/delete_series/values",
        "live/api/v1/label/..%2f..%2fimport%2f/values",
        "live/api/v1/label/%2e%2e/values",
        "live/api%2fv1%2fimport",
        "logs/insert/jsonline",
        "logs/select/logsql/tail",
        "logs/select/logsql/../../delete/run_task",
        "logs/delete/run_task",
        "traces/api/traces/xyz",
        "traces/analytics",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_other_path_is_refused(client: httpx.Client, path: str, method: str) -> None:
    answer = client.request(method, f"{PROXY}/{path}")
    assert answer.status_code in (403, 404, 405)
    assert answer.json()["error"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(client: httpx.Client, method: str) -> None:
    assert client.request(method, f"{PROXY}/live/api/v1/query").status_code == 405


def test_traces_are_read_with_get_only(client: httpx.Client) -> None:
    assert client.post(f"{PROXY}/traces/api/traces").status_code == 405


def test_an_unknown_datasource_names_the_known_ones(client: httpx.Client) -> None:
    answer = client.get(f"{PROXY}/other/api/v1/query")
    assert (answer.status_code, "live" in answer.json()["error"]) == (404, True)


def test_a_request_body_beyond_the_cap_is_refused(client: httpx.Client) -> None:
    answer = client.post(f"{PROXY}/live/api/v1/query", content=b"q" * (2 << 20))
    assert answer.status_code == 413


def test_logs_and_traces_are_relayed(
    serve: Serve, ports_of: Callable[..., Ports], logs_url: str, jaeger_urls: tuple[str, str]
) -> None:
    client = serve(ports=ports_of(logs=logs_url, traces_query=jaeger_urls[0]))
    found = client.post(f"{PROXY}/logs/select/logsql/query", data={"query": "no_such_word_anywhere"})
    assert (found.status_code, found.text) == (200, "")
    assert "data" in client.get(f"{PROXY}/traces/api/services").json()
    assert client.get(f"{PROXY}/traces/api/traces/{'cd' * 16}").status_code == 404


def test_a_store_that_is_down_is_a_clear_502(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    client = serve(ports=ports_of(live=f"http://127.0.0.1:{port}"))
    answer = client.get(f"{PROXY}/live/api/v1/query?query=up")
    assert answer.status_code == 502
    assert answer.json()["status"] == "error"
    assert "glideslope status" in answer.json()["error"]


def test_a_store_that_does_not_answer_is_a_clear_504(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    with upstream(b"", hold=True) as url:
        client = serve(ports=ports_of(live=url), proxy_timeout_s=0.2)
        answer = client.get(f"{PROXY}/live/api/v1/query?query=up")
        assert answer.status_code == 504
        assert "shorter range" in answer.json()["error"]


def test_an_answer_that_is_too_long_by_its_header_is_a_502(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    with upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000) as url:
        client = serve(ports=ports_of(live=url), proxy_response_bytes=1000)
        answer = client.get(f"{PROXY}/live/api/v1/query")
        assert (answer.status_code, "5000 bytes" in answer.json()["error"]) == (502, True)


@pytest.mark.parametrize("case", ["too long", "too slow", "broken off"])
def test_an_answer_that_goes_wrong_on_the_way_is_cut_and_never_looks_whole(
    serve: Serve, ports_of: Callable[..., Ports], case: str
) -> None:
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = chunk * 10 + b"0\r\n\r\n" if case == "too long" else chunk
    with upstream(head + body, hold=case == "too slow") as url:
        client = serve(ports=ports_of(live=url), proxy_response_bytes=20_000, proxy_timeout_s=1)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            client.get(f"{PROXY}/live/api/v1/query")
        assert client.get("/api/health").status_code == 200


def test_a_redirect_is_not_followed(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with upstream(answer) as url:
        found = serve(ports=ports_of(live=url)).get(f"{PROXY}/live/api/v1/query")
        assert (found.status_code, "redirect" in found.json()["error"]) == (502, True)
        assert "location" not in found.headers


def test_nothing_that_could_run_or_set_state_comes_back(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    page = b"<script>alert(1)</script>"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: {len(page)}\r\n\r\n"
    with upstream(head.encode() + page) as url:
        answer = serve(ports=ports_of(live=url)).get(f"{PROXY}/live/api/v1/query")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers


def test_compressed_answers_stay_compressed(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    packed = gzip.compress(b'{"status":"success"}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    with upstream(head + packed) as url:
        answer = serve(ports=ports_of(live=url)).get(f"{PROXY}/live/api/v1/query")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text == '{"status":"success"}'


def test_the_browsers_credentials_do_not_reach_the_store(serve: Serve, ports_of: Callable[..., Ports]) -> None:
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def handle() -> None:
            connection, _ = listening.accept()
            with connection:
                received.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=handle)
        thread.start()
        client = serve(ports=ports_of(live=f"http://127.0.0.1:{listening.getsockname()[1]}"))
        headers = {"Authorization": "Bearer x", "Cookie": "session=1", "AccountID": "7", "X-Forwarded-For": "1.2.3.4"}
        assert client.get(f"{PROXY}/live/api/v1/query", params={"query": "a b&c"}, headers=headers).status_code == 200
        thread.join(10)
    request = received[0].lower()
    assert b"query=a+b%26c" in request
    for name in (b"authorization", b"cookie", b"accountid", b"x-forwarded-for"):
        assert name not in request
