# SPDX-License-Identifier: Apache-2.0
"""How fast values go from the training thread to the store; run it as a script, it prints one table.

    .venv/bin/python tests/bench/ingest.py [--series 10000] [--steps 300] [--store URL] [--collector URL]

`--store` is a VictoriaMetrics base URL (default: one is started), `--collector` an OTLP/HTTP endpoint (default: none).
CPU seconds are those of this process.
"""

import argparse
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import zstandard

from glideslope.config import Export, Home
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, MetricsLogged, Phase, StepDone
from glideslope.ship import open_shipper
from glideslope.ship.spool import SpoolWriter
from glideslope.store.victoria import Victoria

RESOURCE = {"service.name": "bench", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}


def resource(name: str) -> dict[str, str | int]:
    return RESOURCE | {"run.id": f"{name}-{time.time_ns()}"}


def layers(count: int, step: int, names: tuple[str, ...], rng: np.random.Generator) -> LayerStats:
    values = rng.standard_normal((count, 1)).astype(np.float32).astype(np.float64)
    return LayerStats(step, time.time_ns(), "grad", names, ("norm",), values)


def step_done(number: int) -> StepDone:
    now = time.time_ns()
    phases = tuple(Phase(name, now - 5000, now) for name in ("data", "forward", "backward", "optimizer"))
    memory = {"train.memory.allocated": 10, "process.memory.usage": 20}
    return StepDone(number, now - 10_000_000, now, 1.0, 1, (1e-3,), 0.5, 0.5, 10, 2, (), phases, memory)


def quantiles(action: Callable[[int], None], count: int) -> tuple[float, float, float]:
    """(median, p99, max) in µs."""
    spent = np.empty(count)
    for number in range(count):
        before = time.perf_counter()
        action(number + 1)
        spent[number] = time.perf_counter() - before
    return tuple(float(q) * 1e6 for q in (np.median(spent), np.quantile(spent, 0.99), spent.max()))  # type: ignore[return-value]


def report(name: str, points: int, wall: float, cpu: float, size: float | None = None) -> None:
    more = "" if size is None else f"  {size / points:6.1f} B/point"
    print(
        f"{name:<38} {points / wall / 1e6:7.2f} M points/s  {cpu / points * 1e6:6.2f} CPU-s per M points{more}",
        flush=True,
    )


def caller(series: int) -> None:
    """Time on the training thread: event in, record in page cache."""
    rng, names = np.random.default_rng(0), tuple(f"blocks.{i // 40}.attn.w{i % 40}" for i in range(series))
    with tempfile.TemporaryDirectory() as folder:
        spool = SpoolWriter(Path(folder) / "spool", quota_bytes=8 << 30)
        writer = EventWriter(resource("caller"), spool.append)
        some = [layers(series, n, names, rng) for n in range(10)]
        many, whole = tuple(f"metric/{i}" for i in range(series)), [float(i) for i in range(series)]
        cases: list[tuple[str, Callable[[int], None], int]] = [
            ("one step (18 series)", lambda n: writer.write(step_done(n)), 20_000),
            ("1 value by name", lambda n: writer.write(MetricsLogged(time.time_ns(), n, ("loss",), (1.0,))), 20_000),
            (f"{series:,} values from an array", lambda n: writer.write(some[n % 10]), 500),
            (f"{series:,} values by name", lambda n: writer.write(MetricsLogged(time.time_ns(), n, many, whole)), 200),
        ]
        for name, action, count in cases:
            action(0)
            before = spool.written_bytes
            median, p99, most = quantiles(action, count)
            size = (spool.written_bytes - before) / count
            print(f"{name:<38} median {median:8.1f} µs  p99 {p99:8.1f} µs  max {most:8.1f} µs  {size:9.0f} B on disk")
        assert not spool.dropped
        spool.close()


def encoding(series: int, steps: int) -> None:
    """Frames to OTLP, and to compressed OTLP."""
    rng, names = np.random.default_rng(0), tuple(f"blocks.{i // 40}.attn.w{i % 40}" for i in range(series))
    frames: list[tuple[int, bytes]] = []
    writer = EventWriter(resource("encode"), lambda kind, payload: frames.append((kind, payload)))
    for number in range(steps):
        writer.write(layers(series, number, names, rng))
    narrow: list[tuple[int, bytes]] = []
    writer = EventWriter(resource("encode"), lambda kind, payload: narrow.append((kind, payload)))
    for number in range(1, 20_001):
        writer.write(step_done(number))
    packer = zstandard.ZstdCompressor(level=1)
    for title, batch, pieces in (("layers", frames, 20), ("steps of 18 series", narrow, 500)):
        for compress in (False, True):
            encoder = RequestEncoder()
            encoder(batch[:3])
            wall, cpu, points, size = time.perf_counter(), time.process_time(), 0, 0
            for first in range(0, len(batch), pieces):
                for request in encoder(batch[first : first + pieces]):
                    points += request.points
                    size += len(packer.compress(request.body) if compress else request.body)
            spent = time.perf_counter() - wall, time.process_time() - cpu
            report(f"encode{' + zstd' if compress else ''} ({title})", points, *spent, size)


def through(name: str, endpoint: str, store: str, series: int, steps: int) -> None:
    """From the event to the store: spool, encode, compress, post; then counted in the store."""
    rng, names = np.random.default_rng(0), tuple(f"blocks.{i // 40}.attn.w{i % 40}" for i in range(series))
    with tempfile.TemporaryDirectory() as folder:
        shipper = open_shipper(Path(folder) / "spool", RequestEncoder(), Export(endpoint=endpoint))
        identity = resource("through")
        writer = EventWriter(identity, shipper.append)
        some = [layers(series, n, names, rng) for n in range(10)]
        wall, cpu = time.perf_counter(), time.process_time()
        for number in range(steps):
            event = some[number % 10]
            writer.write(LayerStats(number, time.time_ns(), event.kind, names, event.stats, event.values))
        written = time.perf_counter() - wall
        assert shipper.flush(600), "not everything was acknowledged"
        spent = time.perf_counter() - wall, time.process_time() - cpu
        report(name, series * steps, *spent)
        print(f"{'':<38} written to the spool after {written:.2f} s, all acknowledged after {spent[0]:.2f} s")
        with Victoria(store) as victoria:
            query = f'sum(count_over_time(train_layer{{run_id="{identity["run.id"]}"}}[1h]))'
            deadline = time.monotonic() + 60
            while True:
                victoria.flush()
                found = victoria.query(query, time_s=time.time() + 60)
                stored = found[0].value if found else 0
                if stored >= series * steps or time.monotonic() > deadline:
                    break
                time.sleep(0.5)
            assert stored == series * steps, f"{stored:,.0f} of {series * steps:,} points are stored"
        shipper.close(5)


@contextmanager
def a_store() -> Iterator[str]:
    """A VictoriaMetrics of our own on a free port."""
    built = sorted(Home.from_env().bin.glob("victoria-metrics-*"), key=lambda path: path.stat().st_mtime)
    program = str(built[-1]) if built else shutil.which("victoria-metrics")
    if program is None:
        raise SystemExit("no VictoriaMetrics: run `glideslope up` once, or name one with --store")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}", "-loggerLevel=ERROR"]
        command += ["-opentelemetry.usePrometheusNaming", "-dedup.minScrapeInterval=1ms"]
        process = subprocess.Popen(command)
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).raise_for_status()
                    break
                except httpx.HTTPError:
                    if time.monotonic() > deadline or process.poll() is not None:
                        raise SystemExit("VictoriaMetrics did not start") from None
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--store", default="")
    parser.add_argument("--collector", default="")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, {chosen.series:,} series, {chosen.steps} steps")
    caller(chosen.series)
    encoding(chosen.series, chosen.steps)
    if chosen.store:
        through("to VictoriaMetrics", f"{chosen.store}/opentelemetry", chosen.store, chosen.series, chosen.steps)
        if chosen.collector:
            through("through the collector", chosen.collector, chosen.store, chosen.series, chosen.steps)
    else:
        with a_store() as store:
            through("to VictoriaMetrics", f"{store}/opentelemetry", store, chosen.series, chosen.steps)


if __name__ == "__main__":
    main()
