# SPDX-License-Identifier: Apache-2.0
"""Dashboards, runbooks and viewer files, and that no path leads out of their folders."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable

import httpx
import pytest

from glideslope.server.settings import Settings

OUTSIDE = [
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/assets/..%2f..%2fsecret.txt",
    "/assets/../../../../../secret.txt",
    "/..%5csecret.txt",
    "//secret.txt",
    "/link.txt",
    "/%00",
    "/index.html%00.txt",
    "/api/runbooks/..%2f..%2f..%2fsecret",
    "/api/runbooks/../../../secret",
    "/api/dashboards/..%2fviewer%2fsecret",
    "/api/dashboards/%2e%2e",
]


def raw_get(client: httpx.Client, path: str) -> bytes:
    """Send the path as it stands: HTTP clients tidy `..` away before they send."""
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    with socket.create_connection((host, port), 10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_served_folders(read_only: httpx.Client, path: str) -> None:
    answer = raw_get(read_only, path)
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"secret" not in answer.partition(b"\r\n\r\n")[2].replace(b"no such", b"")
    assert not answer.startswith(b"HTTP/1.1 5")


def test_health_answers(read_only: httpx.Client) -> None:
    assert read_only.get("/api/health").json() == {"status": "ok"}


def test_dashboards_are_listed_and_a_damaged_file_is_left_out(read_only: httpx.Client) -> None:
    listed = read_only.get("/api/dashboards").json()
    assert [entry["uid"] for entry in listed] == ["glideslope-gpu", "glideslope-run"]
    assert listed[0] == {"uid": "glideslope-gpu", "title": "GLIDESLOPE-GPU", "tags": ["glideslope"], "description": ""}


def test_a_dashboard_is_served_byte_for_byte(client: httpx.Client, settings: Settings) -> None:
    answer = client.get("/api/dashboards/glideslope-run")
    assert answer.content == (settings.dashboards / "glideslope-run.json").read_bytes()
    assert answer.headers["content-type"] == "application/json"


def test_a_dashboard_that_appears_later_is_served(client: httpx.Client, settings: Settings) -> None:
    assert client.get("/api/dashboards/new").status_code == 404
    (settings.dashboards / "new.json").write_text('{"uid": "new"}')
    assert client.get("/api/dashboards/new").json() == {"uid": "new"}


def test_an_unknown_dashboard_names_the_known_ones(read_only: httpx.Client) -> None:
    answer = read_only.get("/api/dashboards/unknown")
    assert answer.status_code == 404
    assert "glideslope-run" in answer.json()["error"]


def test_a_runbook_is_served_as_markdown(read_only: httpx.Client) -> None:
    answer = read_only.get("/api/runbooks/TrainLossSpike")
    assert (answer.text, answer.headers["content-type"]) == ("# Train loss spike\n", "text/markdown; charset=utf-8")


def test_a_page_that_is_not_named_after_an_alert_is_not_served(client: httpx.Client, settings: Settings) -> None:
    (settings.runbooks / ".hidden.md").write_text("draft")
    assert client.get("/api/runbooks/.hidden").status_code == 404


def test_an_unknown_runbook_names_the_known_ones(read_only: httpx.Client) -> None:
    answer = read_only.get("/api/runbooks/Unknown")
    assert (answer.status_code, "TrainLossSpike" in answer.json()["error"]) == (404, True)


@pytest.mark.parametrize(
    "path", ["/", "/d/glideslope-run?var-run=r1", "/alerts", "/runbooks/TrainLossSpike", "/trace/ab"]
)
def test_every_route_of_the_viewer_gets_its_page(read_only: httpx.Client, path: str) -> None:
    answer = read_only.get(path)
    assert (answer.status_code, answer.text) == (200, "<html>the viewer</html>")
    assert answer.headers["cache-control"] == "no-cache"


def test_hashed_files_may_be_kept_by_the_browser(read_only: httpx.Client) -> None:
    answer = read_only.get("/assets/index-abc.js")
    assert answer.text == "run()"
    assert "javascript" in answer.headers["content-type"]
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("path", ["/assets/missing.js", "/assets/missing", "/favicon.ico", "/api/unknown", "/api"])
def test_missing_files_and_apis_are_not_answered_with_the_page(read_only: httpx.Client, path: str) -> None:
    answer = read_only.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]


def test_a_viewer_that_is_not_built_says_what_to_run(client: httpx.Client, settings: Settings) -> None:
    shutil.rmtree(settings.viewer)
    answer = client.get("/d/glideslope-run")
    assert answer.status_code == 503
    assert "npm run build" in answer.text
    assert client.get("/api/health").status_code == 200


def test_security_headers_are_on_every_answer(read_only: httpx.Client) -> None:
    for path in ("/", "/api/health", "/api/unknown", "/assets/index-abc.js"):
        headers = read_only.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8700", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8700", 200),
        ("node7.example:8700", 200),
        ("evil.example", 421),
        ("evil.example:8700", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8700", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_a_foreign_host_name_is_refused(serve: Callable[..., httpx.Client], host: str, status: int) -> None:
    client = serve(allowed_hosts=("node7.example",))
    answer = client.get("/api/health", headers={"Host": host})
    assert answer.status_code == status


def test_where_a_token_is_asked_it_is_asked_everywhere(serve: Callable[..., httpx.Client], token: str) -> None:
    client = serve(require_token=True)
    for path in ("/", "/api/alerts", "/api/dashboards", "/api/datasources/proxy/live/api/v1/query"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Basic realm="glideslope"')
    assert client.get("/api/alerts", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert client.get("/api/alerts", auth=("anybody", token)).status_code == 200
    assert client.get("/api/alerts", auth=("anybody", token[:-1])).status_code == 401
    for damaged in ("Basic !!!", "Basic", "Bearer", "Digest x", "Basic " + "/w=="):
        assert client.get("/api/alerts", headers={"Authorization": damaged}).status_code == 401
