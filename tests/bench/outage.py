# SPDX-License-Identifier: Apache-2.0
"""What a training notices of a receiver in trouble: step times with and without each fault, interleaved in one process.

    .venv/bin/python tests/bench/outage.py [--steps 150] [--rounds 6] [--step-ms 20] [--cpu]

A small model trains in torch; every step writes its step event, 100 metrics and 1,000 layer statistics to a spool,
whose sender posts to a VictoriaMetrics through a proxy with a fault. Each round has one stretch per row, in an order
that is drawn anew; what was held up is sent between the stretches. `off` writes nothing; `healthy` stands there twice,
so that its second row says what the machine can resolve; `--cpu` counts the CPU time of the training thread instead of
time, for a machine that others use. Then the memory: resident size before and after 400 MB were
written while nobody listened. At the end the store is asked whether it has every point once.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, MetricsLogged, StepDone
from glideslope.ship import Shipper, open_shipper
from glideslope.store.victoria import Victoria

sys.path.append(str(Path(__file__).parent / "ingest"))
sys.path.append(str(Path(__file__).parents[1] / "support"))

from chain import running
from fault_proxy import FaultProxy

ROWS = ("off", "healthy", "healthy again", "refuse", "silent", "half_open", "slow", "reset", "drop_reply")
METRICS = tuple(f"metric/{index}" for index in range(100))
LAYERS = tuple(f"blocks.{index // 40}.w{index % 40}" for index in range(1_000))
MANY = tuple(f"blocks.{index // 40}.w{index % 40}" for index in range(10_000))


class Training:
    """A perceptron whose width makes a step take about as long as wanted."""

    def __init__(self, step_ms: float) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.batch = torch.randn(64, 512)
        for width in range(256, 20_000, 128):
            self.model = torch.nn.Sequential(torch.nn.Linear(512, width), torch.nn.ReLU(), torch.nn.Linear(width, 512))
            self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4)
            if np.median([self.step()[0] for _ in range(5)]) * 1e3 >= step_ms:
                return

    def step(self) -> tuple[float, float]:
        """(seconds, loss)."""
        begun = time.perf_counter()
        self.optimizer.zero_grad()
        loss = ((self.model(self.batch) - self.batch) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return time.perf_counter() - begun, loss.item()


def resident() -> float:
    """MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--cpu", action="store_true", help="CPU time of the training thread, for a shared machine")
    chosen = parser.parse_args()
    clock = time.thread_time if chosen.cpu else time.perf_counter
    training, rng = Training(chosen.step_ms), np.random.default_rng(0)
    metrics, layers = rng.standard_normal(100), rng.standard_normal((1_000, 1)).astype(np.float32).astype(np.float64)
    run, points, number = f"outage-{time.time_ns()}", 0, 0
    took: dict[str, list[float]] = {row: [] for row in ROWS}
    wrote: dict[str, list[float]] = {row: [] for row in ROWS}
    with (
        tempfile.TemporaryDirectory() as folder,
        running("relay") as chain,
        FaultProxy(int(chain.live.rpartition(":")[2])) as proxy,
    ):
        shipper = open_shipper(Path(folder, "spool"), RequestEncoder(), Export(endpoint=f"{proxy.url}/opentelemetry"))
        resource = {"service.name": "bench", "run.id": run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
        writer = EventWriter(resource, shipper.append)
        for _ in range(chosen.rounds):
            for row in random.sample(ROWS, len(ROWS)):
                proxy.fault("pass" if row.startswith(("off", "healthy")) else row, after=300)
                for _ in range(chosen.steps):
                    begun = clock()
                    _, loss = training.step()
                    middle = clock()
                    if row != "off":
                        number, now = number + 1, time.time_ns()
                        writer.write(StepDone(number, now - 1_000, now, loss=loss))
                        writer.write(MetricsLogged(now, number, METRICS, metrics))
                        writer.write(LayerStats(number, now, "grad", LAYERS, ("norm",), layers))
                        points += 1 + 100 + 1_000
                    took[row].append(clock() - begun)
                    wrote[row].append(clock() - middle)
                proxy.fault("pass")
                assert shipper.flush(120), f"not everything arrived within two minutes after {row}"
        base = {q: float(np.quantile(took["healthy"], q)) for q in (0.5, 0.99)}
        print(f"{chosen.rounds} rounds of {chosen.steps} steps, 1,101 points a step")
        print(f"{'':<15}{'step p50 ms':>12}{'p99 ms':>9}{'p50 x':>8}{'p99 x':>8}", end="")
        print(f"{'write p50 µs':>14}{'p99 µs':>9}{'max ms':>8}")
        for row in ROWS:
            half, most = np.quantile(took[row], 0.5), np.quantile(took[row], 0.99)
            own = np.array(wrote[row])
            print(
                f"{row:<15}{half * 1e3:>12.2f}{most * 1e3:>9.2f}{half / base[0.5]:>8.3f}{most / base[0.99]:>8.3f}"
                f"{np.median(own) * 1e6:>14.0f}{np.quantile(own, 0.99) * 1e6:>9.0f}{own.max() * 1e3:>8.1f}"
            )
        with Victoria(chain.live) as store:
            store.flush()
            query = f'sum(count_over_time({{__name__=~"train_loss|train_metric|train_layer",run_id="{run}"}}[1h]))'
            stored = int(store.query(query, time_s=time.time() + 60)[0].value)
        print(f"{points:,} points written, {stored:,} in the store; drops {shipper.stats().dropped}")
        memory(proxy, writer, shipper)
        shipper.close(5)


def memory(proxy: FaultProxy, writer: EventWriter, shipper: Shipper) -> None:
    """Resident size over an outage at the highest rate."""
    many = np.random.default_rng(1).standard_normal((len(MANY), 1)).astype(np.float32).astype(np.float64)

    def write(count: int) -> None:
        for number in range(count):
            writer.write(LayerStats(number, time.time_ns(), "param", MANY, ("norm",), many))

    write(50)
    assert shipper.flush(60)
    before = resident()
    proxy.fault("refuse")
    line = [f"{before:.0f} MiB before"]
    for count in (100, 900, 9_000):
        write(count)
        time.sleep(1)
        stats = shipper.stats()
        line.append(f"{resident():.0f} MiB with {stats.queue_bytes / 2**20:,.0f} MiB waiting on disk")
    print("memory: " + ", ".join(line))
    proxy.fault("pass")


if __name__ == "__main__":
    main()
