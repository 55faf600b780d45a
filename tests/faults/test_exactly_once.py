# SPDX-License-Identifier: Apache-2.0
"""Into the real VictoriaMetrics: every value once, with its own time, whatever happens on the way."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, StepDone
from glideslope.ship import open_shipper, sync
from glideslope.store.victoria import Victoria

LAYERS = tuple(f"blocks.{index}.weight" for index in range(50))


class Trainer:
    """Writes steps and layer statistics, and remembers what it wrote."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.shipper = open_shipper(folder, RequestEncoder(), Export(endpoint=endpoint), segment_bytes=100_000)
        resource = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
        self.writer = EventWriter(resource, self.shipper.append)
        self.rng = np.random.default_rng(1)
        self.losses: list[float] = []
        self.layers: list[Any] = []

    def steps(self, count: int) -> None:
        for _ in range(count):
            number, now = len(self.losses) + 1, time.time_ns()
            self.losses.append(float(self.rng.uniform(1, 9)))
            self.writer.write(StepDone(number, now - 1_000_000, now, loss=self.losses[-1], lrs=(1e-3,), tokens=7))
            self.layers.append(self.rng.uniform(1, 9, len(LAYERS)))
            self.writer.write(LayerStats(number, now, "grad", LAYERS, ("norm",), self.layers[-1][:, None]))


def check(store: Victoria, trainer: Trainer) -> None:
    store.flush()
    steps = len(trainer.losses)
    (loss,) = store.export('train_loss{run_id="r"}')
    np.testing.assert_allclose(loss.values, trainer.losses, rtol=1e-11)
    assert all(a < b for a, b in zip(loss.timestamps_ms, loss.timestamps_ms[1:], strict=False))
    (number,) = store.export('train_step{run_id="r"}')
    assert list(number.values) == list(range(1, steps + 1))
    assert number.timestamps_ms == loss.timestamps_ms
    (tokens,) = store.export('train_tokens_total{run_id="r"}')
    assert list(tokens.values) == [7.0 * n for n in range(steps + 1)]
    assert set(loss.labels) == {"__name__", "service_name", "run_id", "run_attempt", "dist_rank", "host_name"}
    layers = {series.labels["layer_name"]: series for series in store.export('train_layer{run_id="r"}')}
    assert set(layers) == set(LAYERS)
    expected = np.array(trainer.layers)
    for index, name in enumerate(LAYERS):
        np.testing.assert_allclose(layers[name].values, expected[:, index], rtol=1e-11)
    assert store.rows_ignored() == {}


def test_a_quiet_run_arrives_exactly(private_stack: Callable[..., Any], tmp_path: Path) -> None:
    stack = private_stack("live")
    trainer = Trainer(tmp_path / "spool", f"{stack.live}/opentelemetry")
    trainer.steps(2000)
    assert trainer.shipper.close(60)
    with Victoria(stack.live) as store:
        check(store, trainer)


def test_ended_series_leave_instant_queries_at_once(private_stack: Callable[..., Any], tmp_path: Path) -> None:
    stack = private_stack("live")
    trainer = Trainer(tmp_path / "spool", f"{stack.live}/opentelemetry")
    trainer.steps(20)
    assert trainer.shipper.flush(30)
    with Victoria(stack.live) as store:
        store.flush()
        assert len(store.query('train_loss{run_id="r"}', time_s=time.time() + 1, latency_offset_s=0)) == 1
        trainer.writer.end()
        assert trainer.shipper.close(30)
        store.flush()
        assert store.query('train_loss{run_id="r"}', time_s=time.time() + 1, latency_offset_s=0) == []


def test_a_store_that_restarts_during_the_run_misses_and_doubles_nothing(
    private_stack: Callable[..., Any], tmp_path: Path
) -> None:
    stack = private_stack("live")
    trainer = Trainer(tmp_path / "spool", f"{stack.live}/opentelemetry")
    done = threading.Event()

    def train() -> None:
        while not done.is_set():
            trainer.steps(10)
            time.sleep(0.005)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(2):
            time.sleep(0.5)
            stack.stack.stop()
            time.sleep(0.5)
            stack.stack.start(("live",))
    finally:
        done.set()
        thread.join()
    assert trainer.shipper.flush(60)
    with Victoria(stack.live) as store:
        check(store, trainer)
    # This receiver takes metrics only.
    assert set(trainer.shipper.stats().dropped) <= {("traces", "rejected")}
    trainer.shipper.close(10)


def test_what_was_sent_twice_is_stored_once(private_stack: Callable[..., Any], tmp_path: Path) -> None:
    stack = private_stack("live")
    folder = tmp_path / "spool"
    export = Export(endpoint=f"{stack.live}/opentelemetry")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        trainer = Trainer(folder, export.endpoint)
        trainer.steps(500)
        trainer.shipper.flush(30)
        os.write(write, b"x")
        os._exit(0)
    os.read(read, 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (folder / "cursor.json").unlink()
    report = sync(folder, RequestEncoder, export, retain_s=3600)
    assert report.remaining_bytes == 0
    # The same generator makes the same values.
    again = Trainer(tmp_path / "unused", export.endpoint)
    again.writer.write = lambda event: None  # type: ignore[method-assign]
    again.steps(500)
    assert report.sent_points > 500 * len(LAYERS)
    with Victoria(stack.live) as store:
        check(store, again)
    again.shipper.close(5)
