# SPDX-License-Identifier: Apache-2.0
"""Whatever the receiver does, the training goes on at once, and afterwards what is stored = what was logged - declared.

GLIDESLOPE_OUTAGE_S is how long the receiver stays away (default 8 s; a full run takes 600).
"""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_proxy import FaultProxy
from waiting import until

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder, frames
from glideslope.events import LayerStats, MetricsLogged, StepDone
from glideslope.ship import Shipper, open_shipper
from glideslope.store.victoria import Victoria
from glideslope.testing import OtlpReceiver

OUTAGE_S = float(os.environ.get("GLIDESLOPE_OUTAGE_S", "8"))
NAMES = ("loss/train", "acc", "tokens per second")
LAYERS = tuple(f"blocks.{index}.weight" for index in range(20))
RESOURCE = {"service.name": "t", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}


class Training:
    """Logs steps, layer statistics and metrics, and keeps a record of its own."""

    def __init__(self, folder: Path, endpoint: str, run: str = "r") -> None:
        self.run = run
        self.shipper: Shipper = open_shipper(
            folder / "spool", RequestEncoder(), Export(endpoint=endpoint), segment_bytes=50_000
        )
        self.writer = EventWriter(RESOURCE | {"run.id": run}, self.shipper.append)
        self.rng = np.random.default_rng(7)
        self.losses: list[float] = []
        self.logged: list[np.ndarray[Any, Any]] = []
        self.layers: list[np.ndarray[Any, Any]] = []

    def steps(self, count: int, pause_s: float = 0.0) -> None:
        for _ in range(count):
            number, now = len(self.losses) + 1, time.time_ns()
            self.losses.append(float(self.rng.uniform(1, 9)))
            self.logged.append(self.rng.uniform(1, 9, len(NAMES)))
            self.layers.append(self.rng.uniform(1, 9, len(LAYERS)))
            self.writer.write(StepDone(number, now - 1_000_000, now, loss=self.losses[-1]))
            self.writer.write(LayerStats(number, now, "grad", LAYERS, ("norm",), self.layers[-1][:, None]))
            self.writer.write(MetricsLogged(now, number, NAMES, self.logged[-1]))
            if pause_s:
                time.sleep(pause_s)

    def train_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.steps(1, 0.01)

    @property
    def points(self) -> int:
        """Points of the three kinds above that were logged."""
        return len(self.losses) * (1 + len(NAMES) + len(LAYERS))

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """Declared drops, but for traces and logs, which a store of metrics does not take."""
        return {cause: n for cause, n in self.shipper.stats().dropped.items() if cause[0] not in ("traces", "logs")}


@pytest.fixture
def live(private_stack: Callable[..., Any]) -> str:
    return str(private_stack("live").live)


@pytest.fixture
def proxy(live: str) -> Iterator[FaultProxy]:
    with FaultProxy(int(live.rpartition(":")[2])) as running:
        yield running


@pytest.fixture
def training(tmp_path: Path, proxy: FaultProxy) -> Iterator[Training]:
    made = Training(tmp_path, f"{proxy.url}/opentelemetry")
    yield made
    proxy.fault("pass")
    made.shipper.close(10)


def stored(live: str, training: Training) -> None:
    """Everything is in the store, each value once and with its place in the order."""
    with Victoria(live) as store:
        store.flush()
        run = f'run_id="{training.run}"'
        (loss,) = store.export(f"train_loss{{{run}}}")
        np.testing.assert_allclose(loss.values, training.losses, rtol=1e-11)
        assert all(a < b for a, b in zip(loss.timestamps_ms, loss.timestamps_ms[1:], strict=False))
        for metric, label, names, rows in (
            ("train_layer", "layer_name", LAYERS, training.layers),
            ("train_metric", "metric_name", NAMES, training.logged),
        ):
            series = {one.labels[label]: one for one in store.export(f"{metric}{{{run}}}")}
            assert set(series) == set(names)
            for index, name in enumerate(names):
                np.testing.assert_allclose(series[name].values, np.array(rows)[:, index], rtol=1e-11)
        everything = f'{{__name__=~"train_loss|train_layer|train_metric",{run}}}'
        (count,) = store.query(f"sum(count_over_time({everything}[1d]))", time_s=time.time() + 60)
        assert count.value == training.points
        assert store.rows_ignored() == {}


def test_a_receiver_that_is_away_costs_nothing_but_time(proxy: FaultProxy, live: str, training: Training) -> None:
    training.steps(100)
    assert training.shipper.flush(30)
    proxy.fault("refuse")
    training.train_for(OUTAGE_S)
    waiting = training.shipper.stats()
    assert waiting.queue_bytes > 0
    assert waiting.lag_s > OUTAGE_S * 0.9
    proxy.fault("pass")
    training.steps(100)
    assert training.shipper.flush(120), "catching up takes no more than two minutes"
    assert training.shipper.stats().queue_bytes == 0
    assert training.dropped == {}
    stored(live, training)


@pytest.mark.parametrize("fault", ["silent", "half_open", "slow", "reset", "drop_reply"])
def test_a_bad_connection_loses_and_doubles_nothing(
    proxy: FaultProxy, live: str, training: Training, fault: str
) -> None:
    training.steps(50)
    assert training.shipper.flush(30)
    proxy.fault(fault, after=300)
    before = proxy.accepted
    # These steps are over while the fault lasts: nothing of it reaches the training thread.
    training.steps(1000, 0.001)
    assert not training.shipper.flush(0.5)
    if fault == "drop_reply":
        until(lambda: proxy.lost_replies >= 3, "three replies are lost")
        # What was stored without an acknowledgement is already there and must not be there twice.
    elif fault == "reset":
        until(lambda: proxy.accepted - before >= 3, "three connections are reset")
    elif fault != "slow":
        until(lambda: proxy.accepted > before, "the sender gives a dead connection up and tries another")
    training.steps(100)
    proxy.fault("pass")
    assert training.shipper.flush(120)
    assert training.dropped == {}
    stored(live, training)


def test_a_receiver_that_comes_and_goes_gets_everything_once(proxy: FaultProxy, live: str, training: Training) -> None:
    for fault in ("refuse", "pass", "reset", "drop_reply", "pass", "refuse", "drop_reply", "pass"):
        proxy.fault(fault)
        training.steps(200, 0.001)
    assert training.shipper.flush(120)
    assert training.dropped == {}
    stored(live, training)


def received(receiver: OtlpReceiver, *, repeats: bool = False) -> dict[tuple[str, str], list[float]]:
    """Values by (metric, attributes) in the order of their times.

    Fails when a series has two values for one time, or, unless `repeats`, the same value twice.
    """
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for point in receiver.metrics():
        key = (point.name, str(sorted(point.attributes.items())))
        series.setdefault(key, []).append((point.time_ns, point.value))
    for name, points in series.items():
        once = sorted(set(points))
        assert len({moment for moment, _ in once}) == len(once), f"{name} has two values for one time"
        assert repeats or len(once) == len(points), f"{name} was received twice"
        series[name] = once
    return {name: [value for _, value in points] for name, points in series.items()}


def arrived(receiver: OtlpReceiver, training: Training, *, repeats: bool = False) -> None:
    found = received(receiver, repeats=repeats)
    assert found["train.loss", "[]"] == training.losses
    for metric, names, rows in (("train.metric", NAMES, training.logged), ("train.layer", LAYERS, training.layers)):
        for index, name in enumerate(names):
            (values,) = (v for (kind, labels), v in found.items() if kind == metric and repr(name) in labels)
            assert values == np.array(rows)[:, index].tolist()


@pytest.fixture
def told(tmp_path: Path, receiver: OtlpReceiver) -> Iterator[Training]:
    made = Training(tmp_path, receiver.endpoint)
    yield made
    receiver.answer(200)
    made.shipper.close(10)


def posts(receiver: OtlpReceiver, status: int) -> int:
    return sum(request.status == status and request.path == "/v1/metrics" for request in receiver.requests)


@pytest.mark.parametrize(
    ("status", "retry_after_s"), [(503, None), (503, 1), (429, None), (429, 2), (502, None), (504, None), (500, None)]
)
def test_a_receiver_that_wants_time_gets_everything_once(
    receiver: OtlpReceiver, told: Training, status: int, retry_after_s: int | None
) -> None:
    told.steps(20)
    assert told.shipper.flush(30)
    receiver.answer(status, retry_after_s=retry_after_s)
    told.steps(500, 0.001)
    until(lambda: posts(receiver, status) >= 2, "it is tried again")
    receiver.answer(200)
    assert told.shipper.flush(60)
    assert told.dropped == {}
    arrived(receiver, told)


@pytest.mark.parametrize("status", [401, 403])
def test_a_receiver_that_denies_gets_everything_once_it_is_told_right(
    receiver: OtlpReceiver, told: Training, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer(status)
    told.steps(500, 0.001)
    until(lambda: posts(receiver, status) >= 1, "it is tried")
    until(lambda: "OTEL_EXPORTER_OTLP_HEADERS" in caplog.text, "the log says what to do")
    receiver.answer(200)
    assert told.shipper.flush(60)
    assert told.dropped == {}
    arrived(receiver, told)


class Narrow(OtlpReceiver):
    """Answers 413 to every request of more than 2,000 bytes on the wire."""

    refused = 0

    def _receive(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        if length <= 2_000:
            super()._receive(handler)
            return
        self.refused += 1
        handler.rfile.read(length)
        handler.send_response(413)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


def test_requests_become_as_small_as_the_receiver_wants(tmp_path: Path) -> None:
    with Narrow() as receiver:
        training = Training(tmp_path, receiver.endpoint)
        training.steps(500, 0.001)
        assert training.shipper.flush(60)
        assert receiver.refused > 0
        assert training.shipper.stats().dropped == {}
        # A batch that is split begins anew: the store keeps one value for each time.
        arrived(receiver, training, repeats=True)
        training.shipper.close(10)


def test_what_is_refused_for_good_is_declared_kept_and_does_not_hold_up_the_rest(
    receiver: OtlpReceiver, told: Training, tmp_path: Path
) -> None:
    told.steps(20)
    assert told.shipper.flush(30)
    receiver.answer(400, times=2, paths=("/v1/metrics",))
    told.steps(500, 0.001)
    assert told.shipper.flush(60)
    assert set(told.dropped) == {("metrics", "rejected")}
    stored_points = sum(len(values) for values in received(receiver).values())
    assert stored_points + told.dropped["metrics", "rejected"] == points_of(told)
    kept = list((told.shipper.directory / "rejected").glob("*.json"))
    assert [json.loads(path.read_text())["points"] > 0 for path in kept] == [True, True]


def points_of(training: Training) -> int:
    """Points that these events make (a step has more series than its loss), as a second writer makes them."""
    made = 0

    def count(kind: int, payload: bytes) -> None:
        nonlocal made
        if frames.frame_type(kind) == frames.VALUES:
            made += int(np.isfinite(frames.unpack_row(payload).values).sum())

    again = Training.__new__(Training)
    again.losses, again.logged, again.layers, again.rng = [], [], [], np.random.default_rng(7)
    again.writer = EventWriter(RESOURCE | {"run.id": training.run}, count)
    again.steps(len(training.losses))
    return made


def test_memory_does_not_grow_with_what_waits(tmp_path: Path) -> None:
    """The wait lies on disk: eight times as much of it takes no more memory."""
    with OtlpReceiver() as receiver:
        receiver.answer(503)
        training = Training(tmp_path, receiver.endpoint)
        wide = tuple(f"layer.{index}" for index in range(2_000))

        def flood(count: int) -> None:
            for number in range(count):
                values = np.full((len(wide), 1), number + 0.1)
                training.writer.write(LayerStats(number, time.time_ns(), "param", wide, ("norm",), values))

        tracemalloc.start()
        try:
            flood(500)
            until(lambda: posts(receiver, 503) >= 3, "what the sender holds is in memory")
            first = tracemalloc.get_traced_memory()[0]
            flood(4_000)
            waiting = training.shipper.stats().queue_bytes
            grown = tracemalloc.get_traced_memory()[0] - first
        finally:
            tracemalloc.stop()
        assert waiting > 64 << 20
        # A batch that was just being encoded, at most.
        assert grown < 8 << 20
        receiver.stop()
        training.shipper.close(0.1)
