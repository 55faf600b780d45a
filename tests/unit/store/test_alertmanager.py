# SPDX-License-Identifier: Apache-2.0
"""The Alertmanager client against the real program."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from glideslope.errors import StoreError
from glideslope.store.alertmanager import Alert, Alertmanager, Matcher, Silence

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def alertmanager(alertmanager_url: str) -> Iterator[Alertmanager]:
    with Alertmanager(alertmanager_url, timeout_s=10) as client:
        yield client


def silence(run: str, **changes: object) -> Silence:
    values: dict[str, object] = {
        "matchers": (Matcher("run_id", run),),
        "starts_at": NOW,
        "ends_at": NOW + timedelta(hours=1),
        "created_by": "glideslope",
        "comment": "planned restart",
    }
    return Silence(**(values | changes))  # type: ignore[arg-type]


def test_an_alert_that_was_sent_is_listed(alertmanager: Alertmanager) -> None:
    alertmanager.send([Alert({"alertname": "TrainLossSpike", "run_id": "sent"}, {"summary": "up"}, starts_at=NOW)])
    (alert,) = alertmanager.alerts(['run_id="sent"'])
    assert (alert.labels["alertname"], alert.annotations["summary"], alert.starts_at) == ("TrainLossSpike", "up", NOW)
    assert alert.fingerprint


def test_a_silence_mutes_an_alert_until_it_is_expired(alertmanager: Alertmanager) -> None:
    silence_id = alertmanager.create_silence(silence("muted"))
    alertmanager.send([Alert({"alertname": "TrainStalled", "run_id": "muted"}, starts_at=NOW)])
    deadline = time.monotonic() + 20
    while not (found := alertmanager.alerts(['run_id="muted"']))[0].silenced_by and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (found[0].silenced_by, found[0].state) == ((silence_id,), "suppressed")
    (stored,) = alertmanager.silences(['run_id="muted"'])
    assert (stored.silence_id, stored.state, stored.matchers) == (silence_id, "active", (Matcher("run_id", "muted"),))
    alertmanager.expire_silence(silence_id)
    assert [one.state for one in alertmanager.silences(['run_id="muted"'])] == ["expired"]


def test_a_silence_can_be_prolonged(alertmanager: Alertmanager) -> None:
    first = alertmanager.create_silence(silence("longer"))
    second = alertmanager.create_silence(silence("longer", silence_id=first, ends_at=NOW + timedelta(hours=2)))
    active = [one for one in alertmanager.silences(['run_id="longer"']) if one.state == "active"]
    assert [(one.silence_id, one.ends_at) for one in active] == [(second, NOW + timedelta(hours=2))]


def test_a_silence_of_everything_is_refused(alertmanager: Alertmanager) -> None:
    with pytest.raises(StoreError, match="every alert"):
        alertmanager.create_silence(silence("r", matchers=()))


def test_a_silence_that_ends_before_it_starts_is_refused(alertmanager: Alertmanager) -> None:
    with pytest.raises(StoreError, match="after it starts"):
        alertmanager.create_silence(silence("r", ends_at=NOW))


def test_a_time_without_zone_is_refused(alertmanager: Alertmanager) -> None:
    with pytest.raises(StoreError, match="time zone"):
        alertmanager.send([Alert({"alertname": "A"}, starts_at=datetime(2030, 1, 1))])


def test_what_is_no_silence_id_is_refused(alertmanager: Alertmanager) -> None:
    with pytest.raises(StoreError, match="no silence id"):
        alertmanager.expire_silence("../silences")


def test_health_is_true_for_a_healthy_server(alertmanager: Alertmanager) -> None:
    assert alertmanager.health()
