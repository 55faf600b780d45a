# SPDX-License-Identifier: Apache-2.0
"""The webhook and the list of alerts: what is accepted, what is refused, what outlives a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from glideslope.server.alert_book import AlertBook
from glideslope.server.settings import Settings
from glideslope.stack.assets import stack_file
from glideslope.stack.settings import fill
from glideslope.store.alertmanager import Alert, Alertmanager

START = "2030-01-01T10:00:00Z"
NEVER = "0001-01-01T00:00:00Z"


def alert(
    fingerprint: str = "f1", status: str = "firing", name: str = "TrainLossSpike", **fields: Any
) -> dict[str, Any]:
    ended = {"firing": NEVER, "resolved": "2030-01-01T11:00:00Z"}.get(status, NEVER)
    entry = {
        "status": status,
        "labels": {"alertname": name, "run_id": "r1"},
        "annotations": {"summary": "loss rose"},
        "startsAt": START,
        "endsAt": ended,
        "generatorURL": "http://127.0.0.1:8880/alert",
        "fingerprint": fingerprint,
    }
    return entry | fields


def body(*alerts: dict[str, Any]) -> dict[str, Any]:
    return {"version": "4", "receiver": "server", "status": "firing", "alerts": list(alerts), "groupKey": "g"}


Post = Callable[..., httpx.Response]


@pytest.fixture
def post(client: httpx.Client, token: str) -> Post:
    return lambda value: client.post("/api/alerts/webhook", json=value, headers={"Authorization": f"Bearer {token}"})


def test_an_alert_is_listed_with_the_fields_that_the_viewer_reads(client: httpx.Client, post: Post) -> None:
    assert post(body(alert())).json() == {"received": 1}
    (listed,) = client.get("/api/alerts").json()["alerts"]
    assert datetime.fromisoformat(listed.pop("receivedAt")) <= datetime.now(UTC)
    assert listed == {
        "fingerprint": "f1",
        "status": "firing",
        "labels": {"alertname": "TrainLossSpike", "run_id": "r1"},
        "annotations": {"summary": "loss rose"},
        "startsAt": "2030-01-01T10:00:00.000Z",
        "endsAt": None,
        "generatorURL": "http://127.0.0.1:8880/alert",
    }


def test_a_repeated_alert_is_listed_once_and_then_resolved(client: httpx.Client, post: Post) -> None:
    for status in ("firing", "firing", "resolved"):
        assert post(body(alert(status=status))).status_code == 200
    (listed,) = client.get("/api/alerts").json()["alerts"]
    assert (listed["status"], listed["endsAt"]) == ("resolved", "2030-01-01T11:00:00.000Z")


def test_an_alert_that_fires_anew_is_a_second_entry_on_top(client: httpx.Client, post: Post) -> None:
    post(body(alert(status="resolved")))
    post(body(alert(startsAt="2030-01-01T12:00:00Z")))
    listed = client.get("/api/alerts").json()["alerts"]
    assert [entry["status"] for entry in listed] == ["firing", "resolved"]


def test_alerts_outlive_a_restart(serve: Callable[..., httpx.Client], token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    first = serve()
    first.post("/api/alerts/webhook", json=body(alert(), alert("w", name="Watchdog")), headers=headers)
    before = first.get("/api/alerts").json()
    after = serve().get("/api/alerts").json()
    assert after == before
    assert len(after["alerts"]) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-token-wrong-token"},
        {"Authorization": "Basic Z2xpZGVzbG9wZTpjb3JyZWN0LWhvcnNlLWJhdHRlcnktc3RhcGxl"},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
)
def test_without_the_bearer_token_nothing_is_taken(client: httpx.Client, headers: dict[str, Any]) -> None:
    answer = client.post("/api/alerts/webhook", json=body(alert()), headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get("/api/alerts").json()["alerts"] == []


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([], "webhook"),
        ({"version": "3", "alerts": []}, "webhook"),
        ({"version": "4"}, "alerts must be a list"),
        ({"version": "4", "alerts": [1]}, "object"),
        (body(alert(status="unknown")), "status"),
        (body(alert(fingerprint="")), "fingerprint"),
        (body(alert(fingerprint="f" * 200)), "fingerprint"),
        (body(alert(labels=[])), "labels"),
        (body(alert(labels={"a": 1})), "labels"),
        (body(alert(labels={str(i): "x" for i in range(100)})), "labels"),
        (body(alert(startsAt="yesterday")), "startsAt"),
        (body(alert(startsAt=None)), "startsAt"),
        (body(alert(status="resolved", endsAt="later")), "endsAt"),
    ],
)
def test_a_body_that_is_no_webhook_is_refused_as_a_whole(
    client: httpx.Client, post: Post, value: Any, named: str
) -> None:
    answer = post(value)
    assert answer.status_code == 400
    assert named in answer.json()["error"]
    assert client.get("/api/alerts").json()["alerts"] == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"version": NaN'])
def test_what_is_no_json_is_refused(client: httpx.Client, token: str, content: bytes) -> None:
    answer = client.post("/api/alerts/webhook", content=content, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 400


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_beyond_the_cap_is_refused(client: httpx.Client, token: str, chunked: bool) -> None:
    content = (b"x" * 65536 for _ in range(100)) if chunked else b"x" * (2 << 20)
    headers = {"Authorization": f"Bearer {token}"}
    try:
        assert client.post("/api/alerts/webhook", content=content, headers=headers).status_code == 413
    except httpx.WriteError:
        # The server may close while the client still writes; what counts is that it did not read it all.
        assert chunked
    assert client.get("/api/health").status_code == 200


def test_the_token_is_checked_before_the_body_is_read(client: httpx.Client) -> None:
    assert client.post("/api/alerts/webhook", content=b"x" * (2 << 20)).status_code == 401


def test_hostile_texts_are_kept_as_text_and_cut(client: httpx.Client, post: Post) -> None:
    hostile = "<script>alert(1)</script>"
    post(body(alert(annotations={"summary": hostile, "long": "x" * 10_000}, generatorURL="javascript:alert(1)")))
    answer = client.get("/api/alerts")
    (listed,) = answer.json()["alerts"]
    assert listed["annotations"]["summary"] == hostile
    assert len(listed["annotations"]["long"]) == 4096
    assert listed["generatorURL"] == ""
    assert answer.headers["content-type"] == "application/json"


def test_the_watchdog_is_tracked_and_not_listed(client: httpx.Client, post: Post) -> None:
    assert client.get("/api/alerts").json()["watchdog"] == {"lastSeen": None, "healthy": False}
    post(body(alert("w", name="Watchdog")))
    answer = client.get("/api/alerts").json()
    assert answer["watchdog"]["healthy"]
    assert answer["alerts"] == []


def test_the_watchdog_counts_as_lost_after_its_timeout(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    book = AlertBook(tmp_path / "alerts.json", watchdog_timeout_s=90, now=lambda: now)
    book.record(body(alert("w", name="Watchdog")))
    now += timedelta(seconds=89)
    assert book.snapshot()["watchdog"] == {"lastSeen": "2030-01-01T00:00:00.000Z", "healthy": True}
    now += timedelta(seconds=1)
    assert not book.snapshot()["watchdog"]["healthy"]
    book.record(body(alert("w", "resolved", name="Watchdog")))
    assert not book.snapshot()["watchdog"]["healthy"]


def test_the_oldest_resolved_alerts_go_first_and_are_counted(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    book = AlertBook(tmp_path / "alerts.json", kept=3, now=lambda: now)
    for index, status in enumerate(["firing", "resolved", "firing", "resolved", "firing"]):
        now += timedelta(seconds=1)
        book.record(body(alert(f"f{index}", status)))
    snapshot = book.snapshot()
    assert [entry["fingerprint"] for entry in snapshot["alerts"]] == ["f4", "f2", "f0"]
    assert snapshot["dropped"] == 2


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": 99, "alerts": []}', '{"format": 1, "alerts": [{}]}', "\x00"]
)
def test_a_damaged_file_is_put_aside(tmp_path: Path, content: str) -> None:
    path = tmp_path / "alerts.json"
    path.write_text(content)
    book = AlertBook(path)
    assert book.snapshot()["alerts"] == []
    assert (tmp_path / "alerts.json.damaged").read_text() == content
    book.record(body(alert()))
    assert len(json.loads(path.read_text())["alerts"]) == 1


def test_a_disk_that_cannot_be_written_asks_alertmanager_to_send_again(
    client: httpx.Client, post: Post, settings: Settings
) -> None:
    settings.state.write_text("a file where the folder should be")
    answer = post(body(alert()))
    assert answer.status_code == 503
    assert "again" in answer.json()["error"]
    settings.state.unlink()
    assert post(body(alert())).status_code == 200
    assert len(client.get("/api/alerts").json()["alerts"]) == 1


def test_no_part_of_a_file_is_left_behind(client: httpx.Client, post: Post, settings: Settings) -> None:
    for index in range(5):
        post(body(alert(f"f{index}")))
    assert [path.name for path in settings.state.iterdir()] == ["alerts.json"]


def test_the_real_alertmanager_delivers_with_the_shipped_configuration(
    client: httpx.Client, token: str, tmp_path: Path, start_alertmanager: Callable[[str], str]
) -> None:
    (tmp_path / "token").write_text(token)
    shipped = stack_file("alerts", "generated", "alertmanager.yaml").read_text("utf-8")
    places = {"GLIDESLOPE_TOKEN_FILE": str(tmp_path / "token"), "URL_SERVER": str(client.base_url).rstrip("/")}
    now = datetime.now(UTC)
    spike = Alert({"alertname": "TrainLossSpike", "run_id": "r1", "severity": "critical"}, {"summary": "up"}, now)
    with Alertmanager(start_alertmanager(fill(shipped, places, "alertmanager.yaml"))) as manager:
        manager.send([spike, Alert({"alertname": "Watchdog", "severity": "none"}, starts_at=now)])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = client.get("/api/alerts").json()
            if answer["alerts"] and answer["watchdog"]["healthy"]:
                break
            time.sleep(0.05)
    (listed,) = answer["alerts"]
    assert (listed["status"], listed["labels"], listed["annotations"]) == ("firing", spike.labels, spike.annotations)
    assert datetime.fromisoformat(listed["startsAt"]) == now.replace(microsecond=now.microsecond // 1000 * 1000)
    assert answer["watchdog"]["healthy"]
