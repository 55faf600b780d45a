# SPDX-License-Identifier: Apache-2.0
"""After the demonstration every panel of every dashboard shows data, and a NaN reaches the viewer within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page

from glideslope.store.logs import VictoriaLogs

DASHBOARDS = ("run", "layers", "gpu", "telemetry")
STEPS = 150
# The acceptance line: an alert is in the viewer this many seconds after its step.
NAN_TO_VIEWER_S = 15.0


@dataclass(frozen=True)
class Demo:
    """A finished demonstration."""

    run_id: str
    output: str


def start_demo(stack: Any, run_id: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the demonstration command to its end."""
    command = [sys.executable, "-m", "glideslope", "demo", "--headless", "--run", run_id, *more]
    environ = {**os.environ, **stack.env}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=400)


@pytest.fixture(scope="session")
def demo(stack: Any) -> Demo:
    run_id = f"demo-{os.getpid()}"
    done = start_demo(stack, run_id, "--steps", str(STEPS))
    assert done.returncode == 0, done.stdout + done.stderr
    return Demo(run_id, done.stdout + done.stderr)


def test_the_demonstration_ends_with_the_addresses_and_the_next_command(stack: Any, demo: Demo) -> None:
    for name in DASHBOARDS:
        assert f"{stack.server}/d/glideslope-{name}?var-run={demo.run_id}" in demo.output
    assert f"{stack.server}/alerts" in demo.output
    assert "\nNext: glideslope " in demo.output
    assert "simulated" in demo.output


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_shows_data_after_the_demonstration(
    stack: Any, demo: Demo, open_dashboard: Callable[..., Any], name: str
) -> None:
    path = f"/d/glideslope-{name}?var-run={demo.run_id}&from=now-15m&to=now"
    states = open_dashboard(stack.server, path, name)
    assert len(states) >= 5
    assert [state for state in states if state.state != "ok"] == []


def test_the_trace_of_a_step_opens_from_its_address(stack: Any, demo: Demo, browser_page: Page) -> None:
    found = httpx.get(
        f"{stack.server}/api/datasources/proxy/traces/api/traces",
        params={"service": "glideslope-training", "tags": json.dumps({"run.id": demo.run_id}), "limit": 5},
    ).json()["data"]
    assert found
    browser_page.goto(f"{stack.server}/trace/{found[0]['traceID']}")
    browser_page.get_by_text("backward").first.wait_for(timeout=20_000)
    browser_page.screenshot(path=Path(__file__).parents[1] / "output" / "browser" / "step-trace.png")


def test_a_nan_is_in_the_viewer_within_fifteen_seconds(
    stack: Any, tmp_path: Path, browser_page: Page, record_property: Callable[[str, object], None]
) -> None:
    run_id, truth = f"nan-{os.getpid()}", tmp_path / "truth"
    # A narrow window: the training must still run when the alert comes.
    worker = threading.Thread(
        target=start_demo,
        args=(stack, run_id, "--incident", "nan", "--steps", "60", "--truth", str(truth)),
        daemon=True,
    )
    worker.start()
    browser_page.goto(f"{stack.server}/alerts")
    row = browser_page.get_by_text(run_id).first
    row.wait_for(timeout=300_000)
    seen = time.time()
    browser_page.screenshot(path=Path(__file__).parents[1] / "output" / "browser" / "alert-nan.png")
    worker.join(300)
    records = [json.loads(line) for line in truth.with_name("truth.rank0").read_text().splitlines()]
    first = next(record for record in records if record["loss"] != record["loss"])
    delay = seen - first["time"]
    record_property("nan_to_viewer_s", round(delay, 2))
    print(f"NaN at step {first['step']} -> alert in the viewer after {delay:.2f} s")
    alerts = httpx.get(f"{stack.server}/api/alerts").json()["alerts"]
    names = {alert["labels"]["alertname"] for alert in alerts if alert["labels"].get("run_id") == run_id}
    assert "TrainNonFinite" in names
    assert delay <= NAN_TO_VIEWER_S
    with VictoriaLogs(stack.logs) as logs:
        found = list(logs.query(f'"run.id":="{run_id}" event_name:="train.nonfinite"'))
    said = sorted((record.fields["dist.rank"], record.fields["what"]) for record in found)
    assert said == [("0", "grad.norm"), ("0", "loss"), ("1", "grad.norm"), ("1", "loss")]


@pytest.mark.parametrize(
    ("incident", "alert", "steps"),
    [("spike", "TrainLossSpike", 120), ("stall", "TrainDataStall", 60), ("crash", "TrainFailed", 30)],
)
def test_each_incident_raises_its_own_alert(stack: Any, incident: str, alert: str, steps: int) -> None:
    run_id = f"{incident}-{os.getpid()}"
    command = [sys.executable, "-m", "glideslope", "demo", "--headless", "--run", run_id]
    command += ["--incident", incident, "--steps", str(steps)]
    training = subprocess.Popen(
        command, env={**os.environ, **stack.env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline, names = time.monotonic() + 240, set()
        while alert not in names and time.monotonic() < deadline:
            time.sleep(0.5)
            alerts = httpx.get(f"{stack.server}/api/alerts").json()["alerts"]
            names = {one["labels"]["alertname"] for one in alerts if one["labels"].get("run_id") == run_id}
    finally:
        training.terminate()
        training.wait(60)
    assert alert in names
