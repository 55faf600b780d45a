# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, the served viewer over real stores with made-up data, and dashboards opened to their end.

`open_dashboard(base_url, path, name)` works against any server: it returns the panels' states and saves a screenshot.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Request, Response, sync_playwright

from glideslope.config import Home, Ports
from glideslope.server.app import create_app
from glideslope.server.settings import Settings
from glideslope.stack.supervisor import Stack

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "tests" / "output" / "browser"
TOKEN = "correct-horse-battery-staple"
HOSTILE = '<img src=x onerror="window.__hacked=1">&var-x=1'
TRACE_ID = "0123456789abcdef0123456789abcdef"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The tallest dashboard at 38 px a grid row; a page that fits its window lays out and shoots in one piece.
WINDOW = {"width": 1600, "height": 1000}
TALLEST = 4000


@dataclass(frozen=True)
class PanelState:
    """What one panel said of itself."""

    id: str
    type: str
    title: str
    state: str
    error: str | None
    no_value: bool


OpenDashboard = Callable[..., list[PanelState]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless Chromium for the session, with a fresh profile: the system's, else playwright's own."""
    with sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome")
        found = next(filter(None, map(shutil.which, names)), playwright.chromium.executable_path)
        if not Path(found).exists():
            pytest.fail("The browser tests need Chromium: install the package `chromium`, or run `make browser`.")
        launched = playwright.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def browser_page(browser: Browser) -> Iterator[Page]:
    """A fresh page; fails the test when the page threw an error of its own or asked anything but the server."""
    context = browser.new_context(viewport=WINDOW, timezone_id="UTC", locale="en-US")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"page error: {error}"))

    def asked(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            problems.append(f"foreign request: {request.url}")

    def answered(response: Response) -> None:
        if response.status == 404 and "/api/" not in response.url:
            problems.append(f"missing file: {response.url}")

    page.on("request", asked)
    page.on("response", answered)
    yield page
    context.close()
    assert not problems, problems


@pytest.fixture
def open_dashboard(browser_page: Page) -> OpenDashboard:
    """Open a dashboard, wait until no panel is loading, save a screenshot of all of it, return the panels' states."""

    def opened(base_url: str, path: str, name: str, timeout_s: float = 30.0) -> list[PanelState]:
        browser_page.goto(base_url + path)
        return settle(browser_page, name, timeout_s)

    return opened


def settle(page: Page, name: str, timeout_s: float = 30.0) -> list[PanelState]:
    """Wait until every panel has left `loading`, save `tests/output/browser/<name>.png`, return the states."""
    page.wait_for_selector('[data-testid="panel"]', timeout=timeout_s * 1000)
    # Panels off the screen load too, but draw into a canvas of the right size only once: make the window as tall.
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": WINDOW["width"], "height": max(WINDOW["height"], min(TALLEST, height))})
    page.wait_for_function(
        "() => { const all = [...document.querySelectorAll('[data-testid=panel]')];"
        " return all.length > 0 && all.every(p => p.dataset.state !== 'loading') }",
        timeout=timeout_s * 1000,
    )
    # Two frames: one for the state, one for what the charts draw.
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=OUTPUT / f"{name}.png", full_page=True)
    return states(page)


def states(page: Page) -> list[PanelState]:
    """The panels' states as they are now."""
    found = page.eval_on_selector_all('[data-testid="panel"]', "all => all.map(p => ({...p.dataset}))")
    return [
        PanelState(
            id=data["panelId"],
            type=data["panelType"],
            title=data["panelTitle"],
            state=data["state"],
            error=data.get("error"),
            no_value=data.get("novalue") == "true",
        )
        for data in found
    ]


def _free_offset() -> int:
    """An offset at which every port of the stack is free."""
    for _ in range(50):
        offset = random.randrange(20_000, 40_000)
        ports = Ports().shifted(offset)
        try:
            for port in (ports.live, ports.logs, ports.traces_query, ports.traces_query_grpc, ports.traces_otlp):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return offset
    pytest.fail("no free range of ports")


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """Real metrics, log and trace stores in a folder of their own, filled with a made-up training."""
    home = Home(tmp_path_factory.mktemp("home"))
    built = Home.from_env().bin
    built.mkdir(parents=True, exist_ok=True)
    home.bin.symlink_to(built)
    stack = Stack(home, Ports().shifted(_free_offset()))
    stack.start(("live", "logs", "traces"))
    try:
        _fill(stack.ports)
        yield stack.ports
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def viewer_url(stores: Ports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The served viewer with the sample dashboard `panels`, the real runbooks and the made-up training."""
    dist = ROOT / "dashboards" / "viewer" / "dist"
    if not (dist / "index.html").is_file():
        pytest.fail("The viewer is not built: run `cd dashboards/viewer && npm ci && npm run build`.")
    assets = tmp_path_factory.mktemp("assets")
    (assets / "dashboards" / "viewer").mkdir(parents=True)
    (assets / "dashboards" / "viewer" / "dist").symlink_to(dist)
    (assets / "dashboards" / "generated").mkdir()
    for name in ("panels.json", "big.json"):
        shutil.copy(Path(__file__).parent / name, assets / "dashboards" / "generated" / name)
    runbooks = assets / "alerts" / "runbooks"
    runbooks.mkdir(parents=True)
    (runbooks / "SampleAlert.md").write_text(
        "# Sample alert\n\nLook at **the loss**.\n\n| cause | do |\n| --- | --- |\n| bad data | skip it |\n\n"
        '<script>window.__hacked = 1</script><img src=x onerror="window.__hacked=1">\n\n[bad](javascript:alert(1))\n'
    )
    settings = Settings(assets=assets, state=tmp_path_factory.mktemp("state"), token=TOKEN, ports=stores)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(uvicorn.Config(create_app(settings), log_config=None, lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        _until(lambda: httpx.get(f"{url}/api/health").status_code == 200)
        yield url
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not end"


@pytest.fixture(scope="session")
def send_alert(viewer_url: str) -> Callable[..., None]:
    """Deliver one alert to the webhook, as Alertmanager would."""

    def send(name: str, status: str = "firing", **labels: str) -> None:
        alert = {
            "status": status,
            "labels": {"alertname": name, "severity": "critical", **labels},
            "annotations": {
                "summary": f"{name} fires.",
                "description": "Look at it.",
                "runbook_url": f"/runbooks/{name}",
            },
            "startsAt": "2026-01-01T00:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else "2026-01-01T00:05:00Z",
            "fingerprint": f"{abs(hash((name, *labels.values()))):016x}"[:16],
            "generatorURL": "",
        }
        body = {"version": "4", "status": status, "receiver": "glideslope", "alerts": [alert], "groupKey": "{}"}
        body |= {
            "groupLabels": {},
            "commonLabels": {},
            "commonAnnotations": {},
            "externalURL": "",
            "truncatedAlerts": 0,
        }
        headers = {"Authorization": f"Bearer {TOKEN}"}
        httpx.post(f"{viewer_url}/api/alerts/webhook", json=body, headers=headers).raise_for_status()

    return send


def _until(check: Callable[[], Any], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if check():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail("the condition did not come true in time")


def _fill(ports: Ports) -> None:
    now = int(time.time())
    times = list(range(now - 900, now, 5))
    _metrics(ports.url("live"), now, times)
    _logs(ports.url("logs"), now)
    _traces(ports, now)


def _metrics(url: str, now: int, times: list[int]) -> None:
    lines: list[str] = []
    noise = random.Random(1)

    def add(name: str, labels: dict[str, str], value: Callable[[int], float], since: int = 0) -> None:
        kept = times[since:]
        values = [value(i + since) for i in range(len(kept))]
        record = {"metric": {"__name__": name, **labels}, "values": values, "timestamps": [t * 1000 for t in kept]}
        lines.append(json.dumps(record))

    for run, since, rate in (("base", 0, 1.0), ("fork-lr2x", 70, 1.3), (HOSTILE, 110, 1.1)):
        label = {"run_id": run}
        add("train_run_info", label, lambda i: 1.0, since)
        add("train_loss", label, lambda i, k=rate: 2 + 9 * math.exp(-i * 10 * k / 700) + noise.random() * 0.08, since)
        add("train_step", label, lambda i: i * 10.0, since)
        add("train_grad_norm", label, lambda i: 1 + noise.random() * 0.2, since)
        if since:
            fork = {**label, "fork_parent": "base"}
            add("train_fork_time_seconds", fork, lambda i, t=times[since]: float(t), since)
    base = {"run_id": "base"}
    add("train_tokens_per_second", base, lambda i: 41_000 + 3000 * math.sin(i / 9) + noise.random() * 900)
    add("train_memory_share", base, lambda i: 0.72)
    for rank in range(4):
        ranked = {**base, "dist_rank": str(rank)}
        add("train_mfu", ranked, lambda i, r=rank: 0.32 + 0.03 * r + noise.random() * 0.01)
        add("train_rank_state", ranked, lambda i, r=rank: 2 if r == 3 and 80 < i < 95 else (1 if i % 60 < 4 else 0))
    for layer in range(24):
        name = {**base, "layer_name": f"transformer.blocks.{layer:02d}.attention.query.weight"}
        add(
            "train_layer", name, lambda i, k=layer: math.exp(-i / 120) * (1 + 0.15 * k) + 3 * (k == 9 and 120 < i < 135)
        )
    for step in (500, 1000, 1500):
        point = {**base, "checkpoint_uri": f"s3://ckpt/base/step-{step}", "trace_id": TRACE_ID}
        add("train_checkpoint", point, lambda i, s=step: float(s), len(times) - 20)
    for i in range(300):
        add("train_many", {"i": str(i)}, lambda t, k=i: math.sin(t / 20 + k))
    for layer in range(10_000):
        add("train_big", {"layer_index": str(layer)}, lambda i, k=layer: math.sin(i / 10 + k / 500), len(times) - 100)
    httpx.post(f"{url}/api/v1/import", content="\n".join(lines), timeout=60).raise_for_status()
    httpx.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
    found = {"query": "count(train_many)", "time": str(now - 10)}
    _until(lambda: httpx.get(f"{url}/api/v1/query", params=found).json()["data"]["result"])


def _logs(url: str, now: int) -> None:
    events = [
        ("INFO", "run started"),
        ("WARN", "loss spike at step 420: 9.1 is 14 sigma above the trend"),
        ("ERROR", "loss became non-finite at step 600 on rank 1"),
        ("INFO", HOSTILE),
    ]
    lines = [
        json.dumps(
            {
                "_time": f"{(now - 600 + 60 * i)}000",
                "_msg": text,
                "run.id": "base",
                "dist.rank": str(i % 2),
                "severity": level,
                "trace_id": TRACE_ID,
            }
        )
        for i, (level, text) in enumerate(events)
    ]
    params = {"_stream_fields": "run.id", "_time_field": "_time", "_msg_field": "_msg"}
    httpx.post(f"{url}/insert/jsonline", params=params, content="\n".join(lines)).raise_for_status()
    httpx.get(f"{url}/internal/force_flush").raise_for_status()
    _until(lambda: httpx.post(f"{url}/select/logsql/query", data={"query": "*"}).text.count("\n") >= len(events))


def _traces(ports: Ports, now: int) -> None:
    def span(
        rank: int, name: str, number: int, parent: int, start_ms: int, length_ms: int, bad: bool
    ) -> dict[str, Any]:
        began = (now - 300) * 10**9 + start_ms * 10**6
        return {
            "traceId": TRACE_ID,
            "spanId": f"{rank * 100 + number:016x}",
            "parentSpanId": f"{rank * 100 + parent:016x}" if parent else "",
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(began),
            "endTimeUnixNano": str(began + length_ms * 10**6),
            "attributes": [{"key": "train.step", "value": {"intValue": "600"}}],
            "status": {"code": 2} if bad else {},
        }

    phases = (("data", 0, 40), ("forward", 40, 130), ("backward", 170, 210), ("optimizer", 380, 30))
    resources = []
    for rank in (0, 1):
        spans = [span(rank, "step", 1, 0, rank * 8, 420, rank == 1)]
        spans += [
            span(rank, name, 2 + i, 1, start + rank * 8, length, False)
            for i, (name, start, length) in enumerate(phases)
        ]
        named = {"service.name": "train", "host.name": "node-1", "dist.rank": str(rank), "run.id": "base"}
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in named.items()]
        resources.append({"resource": {"attributes": attributes}, "scopeSpans": [{"scope": {}, "spans": spans}]})
    otlp = f"{ports.url('traces_otlp')}/v1/traces"
    httpx.post(otlp, json={"resourceSpans": resources}).raise_for_status()
    query = f"{ports.url('traces_query')}/api/traces/{TRACE_ID}"
    _until(lambda: len((httpx.get(query).json().get("data") or [{"spans": []}])[0]["spans"]) == 10)
