# SPDX-License-Identifier: Apache-2.0
"""Samples in the real store become alerts in the real webhook: VictoriaMetrics, vmalert, Alertmanager, our server."""

import math
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from glideslope import semconv
from glideslope.config import Ports
from glideslope.stack.assets import stack_root
from glideslope.stack.binaries import ensure
from glideslope.stack.recipes import recipe
from glideslope.store.alertmanager import Alertmanager
from glideslope.store.victoria import Series, Victoria

DEADLINE_S = 60.0
Labels = dict[str, str]


def series(metric: str, run: str, points: dict[float, float], rank: int = 0, **labels: str) -> Series:
    """One series of a rank; `points` maps Unix seconds to values."""
    names: Labels = {"__name__": semconv.metric(metric).stored_name, "run_id": run, "run_attempt": "0"}
    times = sorted(points)
    return Series(
        names | {"dist_rank": str(rank)} | labels,
        tuple(round(at * 1000) for at in times),
        tuple(points[at] for at in times),
    )


def every(period_s: float, start_s: float, end_s: float, value: Callable[[int], float]) -> dict[float, float]:
    """Points from `start_s` to `end_s`, one each `period_s`; `value` gets their number."""
    return {start_s + i * period_s: value(i) for i in range(math.floor((end_s - start_s) / period_s) + 1)}


def noisy(level: float) -> Callable[[int], float]:
    return lambda i: level + 0.05 * math.sin(i * 12.9898)


def not_finite(now: float) -> list[Series]:
    steps = every(0.2, now - 20, now, lambda i: float(i))
    # Rank 2 was first by one step, and all ranks see it in the reduced gradient of that step.
    counts = {rank: {at: max(0.0, i - 90 - (rank != 2)) for i, at in enumerate(sorted(steps))} for rank in (0, 1, 2)}
    return [
        one
        for rank, bad in counts.items()
        for one in (
            series("train.step", "run-nan", steps, rank),
            series("train.nonfinite", "run-nan", bad, rank, what="loss"),
        )
    ]


def spiking(now: float) -> list[Series]:
    healthy = every(0.1, now - 90, now - 3.1, noisy(2.0))
    return [
        series("train.loss", "run-spike", healthy | every(0.1, now - 3, now + 3, noisy(4.8)), rank) for rank in (0, 1)
    ]


def stopped(now: float, run: str = "run-stopped", **labels: str) -> list[Series]:
    return [
        one
        for rank in (0, 1)
        for one in (
            series("train.step", run, every(0.2, now - 60, now - 20, lambda i: float(i)), rank, **labels),
            series("train.step.duration", run, every(0.2, now - 60, now - 20, lambda _: 0.2), rank, **labels),
            series("train.heartbeat", run, {at: at for at in every(5, now - 60, now + 60, float)}, rank, **labels),
        )
    ]


def lost(now: float) -> list[Series]:
    return [
        series("train.heartbeat", "run-lost", {at: at for at in every(5, now - 60, now + 30, float)}, 0),
        series("train.heartbeat", "run-lost", {at: at for at in every(5, now - 60, now - 20, float)}, 3),
    ]


def failed(now: float) -> list[Series]:
    how = {"exit_state": "failed", "error_type": "RuntimeError"}
    return [series("train.attempt.end", "run-failed", {now - 2 + rank: now - 2 + rank}, rank, **how) for rank in (1, 0)]


def crashed(now: float) -> list[Series]:
    """Rank 1 fails; the launcher stops rank 0 with SIGTERM, which leaves no mark. The next attempt of the run hangs."""
    how = {"exit_state": "failed", "error_type": "ValueError"}
    return [
        series("train.attempt.end", "run-crashed", {now - 10: now - 10}, 1, **how),
        series("train.heartbeat", "run-crashed", every(5, now - 60, now - 10, lambda i: now - 60 + 5 * i), 0),
        *stopped(now, "run-crashed", run_attempt="1"),
    ]


def waiting(now: float) -> list[Series]:
    fast, slow = every(0.2, now - 90, now - 41, lambda _: 0.2), every(4, now - 40, now + 20, lambda _: 4.2)
    data = {at: 0.01 for at in fast} | {at: 4.0 for at in slow}
    return [
        series("train.step.duration", "run-waiting", fast | slow),
        series("train.phase.duration", "run-waiting", data, phase="data"),
    ]


def late(now: float) -> list[Series]:
    return [series("train.telemetry.lag", "run-late", every(5, now - 20, now + 30, lambda _: 60.0))]


def dropping(now: float) -> list[Series]:
    counts = every(5, now - 30, now, lambda i: 7.0 if i > 4 else 0.0)
    causes = {"drop_class": "layers", "drop_reason": "quota"}
    return [series("train.telemetry.drops", "run-dropping", counts, **causes)]


def healthy(now: float) -> list[Series]:
    """A run that trains well, skips a step once under loss scaling and ends."""
    run, end = "run-healthy", now - 1
    steps = every(0.2, now - 90, end, lambda i: float(i))
    values = [
        ("train.step", steps, {}),
        ("train.loss", {at: 2 + math.exp(-i / 200) + noisy(0)(i) for i, at in enumerate(sorted(steps))}, {}),
        ("train.step.duration", {at: 0.2 for at in steps}, {}),
        ("train.phase.duration", {at: 0.02 for at in steps}, {"phase": "data"}),
        ("train.nonfinite", {at: 0.0 for at in steps}, {"what": "loss"}),
        ("train.nonfinite", {at: float(i > 200) for i, at in enumerate(sorted(steps))}, {"what": "grad"}),
        ("train.heartbeat", {at: at for at in every(5, now - 90, end, float)}, {}),
        ("train.telemetry.lag", {at: 0.4 for at in every(5, now - 90, end, float)}, {}),
    ]
    return [series(name, run, points, rank, **labels) for name, points, labels in values for rank in (0, 1)]


def ends(samples: list[Series], now: float) -> bytes:
    """The marks that a clean end leaves (NoRecordedValue); the line format of VictoriaMetrics cannot carry them."""
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    for one in samples:
        metric = scope.metrics.add(name=one.labels["__name__"])
        point = metric.gauge.data_points.add(time_unix_nano=round(now * 1e9), flags=1)
        for key, value in one.labels.items():
            if key != "__name__":
                point.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


@dataclass(frozen=True)
class Incident:
    """What is written, and the alert that must come of it."""

    alert: str
    samples: Callable[[float], list[Series]]
    labels: Labels
    says: str


INCIDENTS = {
    "run-nan": Incident("TrainNonFinite", not_finite, {"severity": "critical", "dist_rank": "2"}, "first on rank 2"),
    "run-spike": Incident("TrainLossSpike", spiking, {"severity": "warning"}, "Highest on rank"),
    "run-stopped": Incident("TrainNoProgress", stopped, {"severity": "critical", "dist_rank": "0"}, "since step 200"),
    "run-failed": Incident(
        "TrainFailed", failed, {"dist_rank": "0", "error_type": "RuntimeError"}, "rank 0 was the first"
    ),
    "run-crashed": Incident("TrainFailed", crashed, {"dist_rank": "1", "error_type": "ValueError"}, "with ValueError"),
    "run-lost": Incident("TrainLostContact", lost, {"severity": "critical", "dist_rank": "3"}, "rank 3 was last heard"),
    "run-waiting": Incident("TrainDataStall", waiting, {"severity": "warning"}, "Longest wait on rank 0"),
    "run-late": Incident("TelemetryLag", late, {"severity": "warning"}, "1m 0s old. Most on rank 0"),
    "run-dropping": Incident("TelemetryDrops", dropping, {"drop_class": "layers", "drop_reason": "quota"}, "7 layers"),
}


def eventually(look: Callable[[], list[Any]]) -> list[Any]:
    """The first answer that is not empty; an empty one once the deadline has passed."""
    deadline = time.time() + DEADLINE_S
    while not (found := look()) and time.time() < deadline:
        time.sleep(0.2)
    return found


def told(server: str) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server}/api/alerts", timeout=10).json()
    return answer


@pytest.fixture(scope="module")
def arrived(stack: Any) -> dict[str, Any]:
    """Every alert of the incidents' runs as the server lists it, once all have come or the deadline has passed."""
    now = time.time()
    with Victoria(stack.live) as live:
        live.import_lines([one for incident in INCIDENTS.values() for one in incident.samples(now)] + healthy(now))
        live.write_otlp(ends(healthy(now), now))
    found: dict[str, Any] = {}
    while time.time() < now + DEADLINE_S and len(found) < len(INCIDENTS):
        for alert in told(stack.server)["alerts"]:
            run, name = alert["labels"].get("run_id", ""), alert["labels"]["alertname"]
            if run in INCIDENTS and name == INCIDENTS[run].alert and run not in found:
                found[run] = alert
                print(f"{name}: {time.time() - now:.1f} s after its samples were written")
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("run", INCIDENTS)
def test_the_incident_reaches_the_webhook(run: str, arrived: dict[str, Any]) -> None:
    assert run in arrived, f"{INCIDENTS[run].alert} did not arrive within {DEADLINE_S:g} s"
    alert, wanted = arrived[run], INCIDENTS[run]
    assert {key: alert["labels"].get(key) for key in wanted.labels} == wanted.labels
    assert wanted.says in alert["annotations"]["description"]


@pytest.mark.parametrize("run", INCIDENTS)
def test_its_links_open_on_this_server(run: str, arrived: dict[str, Any], stack: Any) -> None:
    annotations = arrived[run]["annotations"]
    assert annotations["runbook_url"].startswith(f"{stack.server}/runbooks/")
    name = INCIDENTS[run].alert
    page = httpx.get(f"{stack.server}/api/runbooks/{name}", timeout=10)
    assert (page.status_code, page.text.splitlines()[0]) == (200, f"# {name}")


def test_a_run_is_one_alert_and_not_one_per_rank(arrived: dict[str, Any], stack: Any) -> None:
    assert arrived
    firing = [alert for alert in told(stack.server)["alerts"] if alert["status"] == "firing"]
    keys = [(alert["labels"]["alertname"], alert["labels"].get("run_id")) for alert in firing]
    assert len(keys) == len(set(keys))


def test_a_healthy_run_that_ends_stays_silent(arrived: dict[str, Any], stack: Any) -> None:
    # The others had time to fire on samples that were written together with these.
    assert len(arrived) == len(INCIDENTS)
    assert [alert for alert in told(stack.server)["alerts"] if alert["labels"].get("run_id") == "run-healthy"] == []


def test_a_rank_that_was_stopped_with_the_failed_one_is_no_second_page(arrived: dict[str, Any], stack: Any) -> None:
    failure = arrived["run-crashed"]
    with Alertmanager(stack.alertmanager) as alertmanager:
        lost = eventually(lambda: alertmanager.alerts(['alertname="TrainLostContact"', 'run_id="run-crashed"']))
    assert [(one.labels["dist_rank"], one.state, one.inhibited_by) for one in lost] == [
        ("0", "suppressed", (failure["fingerprint"],))
    ]
    assert "TrainLostContact" not in {
        alert["labels"]["alertname"]
        for alert in told(stack.server)["alerts"]
        if alert["labels"].get("run_id") == "run-crashed"
    }


def test_a_failure_does_not_mute_the_next_attempt(arrived: dict[str, Any], stack: Any) -> None:
    assert arrived
    hang = eventually(
        lambda: [
            alert
            for alert in told(stack.server)["alerts"]
            if alert["labels"]["alertname"] == "TrainNoProgress" and alert["labels"].get("run_id") == "run-crashed"
        ]
    )
    assert [alert["labels"]["run_attempt"] for alert in hang] == ["1"]


def commands() -> list[tuple[str, str]]:
    """(alert, command) of every command in a runbook that asks a program of the stack."""
    pages = sorted((Path(str(stack_root())) / "alerts" / "runbooks").glob("*.md"))
    return [
        (page.stem, line.strip())
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        if line.strip().startswith(("curl ", "amtool "))
    ]


def here(command: str, stack: Any) -> list[str]:
    """The words of a runbook's command, for the run that hangs and the ports of this stack."""
    text = command.replace("RUN", "run-stopped")
    for port in fields(Ports):
        text = text.replace(f"{Ports().url(port.name)}/", f"{stack.ports.url(port.name)}/")
        text = text.replace(f"{Ports().url(port.name)} ", f"{stack.ports.url(port.name)} ")
    return shlex.split(text)


CURL = [(alert, command) for alert, command in commands() if command.startswith("curl ")]
AMTOOL = [(alert, command) for alert, command in commands() if command.startswith("amtool ")]


@pytest.mark.parametrize(("alert", "command"), CURL, ids=[f"{alert}-{i}" for i, (alert, _) in enumerate(CURL)])
def test_a_command_of_a_runbook_is_answered(alert: str, command: str, stack: Any) -> None:
    program, option, url, *data = here(command, stack)
    assert (program, option, data[:1]) in [("curl", "-s", []), ("curl", "-sG", ["--data-urlencode"])], alert
    answer = httpx.get(url, params=dict([data[1].split("=", 1)]) if data else None, timeout=10)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("alert", ["TrainLossSpike", "TrainNoProgress", "TrainDataStall"])
def test_the_first_query_of_a_runbook_shows_the_incident(alert: str, arrived: dict[str, Any], stack: Any) -> None:
    run = next(run for run, incident in INCIDENTS.items() if incident.alert == alert and run in arrived)
    command = next(command for name, command in CURL if name == alert)
    _, _, url, _, data = here(command.replace("RUN", run), stack)
    assert httpx.get(url, params=dict([data.split("=", 1)]), timeout=10).json()["data"]["result"]


@pytest.mark.parametrize(("alert", "command"), AMTOOL, ids=[alert for alert, _ in AMTOOL])
def test_the_way_to_silence_an_alert_works(alert: str, command: str, stack: Any) -> None:
    amtool = str(ensure(recipe("amtool"), stack.home))
    made = subprocess.run([amtool, *here(command, stack)[1:]], capture_output=True, text=True, timeout=30, check=False)
    assert made.returncode == 0, made.stderr
    with Alertmanager(stack.alertmanager) as alertmanager:
        silence = next(one for one in alertmanager.silences() if one.silence_id == made.stdout.strip())
        alertmanager.expire_silence(silence.silence_id)
    matched = {matcher.name: matcher.value for matcher in silence.matchers}
    assert matched.pop("alertname") == alert
    assert matched == ({} if alert == "CollectorDown" else {"run_id": "run-stopped"})


def test_the_watchdog_arrives_and_a_missing_collector_is_noticed(private_stack: Any) -> None:
    blind = private_stack("live", "vmalert", "alertmanager", "server")
    deadline = time.time() + DEADLINE_S
    while time.time() < deadline:
        state = told(blind.server)
        names = {alert["labels"]["alertname"] for alert in state["alerts"]}
        if state["watchdog"]["healthy"] and "CollectorDown" in names:
            return
        time.sleep(0.1)
    pytest.fail(f"watchdog {state['watchdog']}, alerts {sorted(names)}")
