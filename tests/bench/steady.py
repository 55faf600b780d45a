# SPDX-License-Identifier: Apache-2.0
"""Ten thousand series in every step for a thousand steps: memory, cost per step, bytes, and as many series out as in.

    .venv/bin/python tests/bench/steady.py [--series 10000] [--steps 1000] [--pause-ms 50]

Two ways in, each in a process of its own: layer statistics (float32 values), and logged metrics by name (float64). The
values go through spool, sender and the collector into a VictoriaMetrics; the steps are `--pause-ms` apart.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, MetricsLogged
from glideslope.ship import open_shipper
from glideslope.store.victoria import Victoria

sys.path.append(str(Path(__file__).parent / "ingest"))

from chain import running

WAYS = ("layer statistics", "logged metrics")
FIRST_MARKS = (1, 100, 250, 500, 750, 1_000)


def resident() -> float:
    """MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def train(way: str, endpoint: str, run: str, series: int, steps: int, pause_s: float) -> dict[str, object]:
    """Write everything, in this process; returns the figures."""
    rng = np.random.default_rng(0)
    layers = way == WAYS[0]
    names = tuple(f"blocks.{index // 40}.w{index % 40}" for index in range(series))
    some = [rng.standard_normal(series) for _ in range(10)]
    if layers:
        some = [values.astype(np.float32).astype(np.float64)[:, None] for values in some]
    sizes, took, cpu = {}, np.empty(steps), np.empty(steps)
    with tempfile.TemporaryDirectory() as folder:
        shipper = open_shipper(Path(folder, "spool"), RequestEncoder(), Export(endpoint=endpoint))
        resource = {"service.name": "bench", "run.id": run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
        writer = EventWriter(resource, shipper.append)
        began, process_cpu = time.perf_counter(), time.process_time()
        for number in range(1, steps + 1):
            now, values = time.time_ns(), some[number % 10]
            event = (
                LayerStats(number, now, "grad", names, ("norm",), values)
                if layers
                else MetricsLogged(now, number, names, values)
            )
            before, before_cpu = time.perf_counter(), time.thread_time()
            writer.write(event)
            took[number - 1], cpu[number - 1] = time.perf_counter() - before, time.thread_time() - before_cpu
            if number in FIRST_MARKS or number % 1_000 == 0:
                sizes[number] = round(resident())
            time.sleep(max(0.0, began + number * pause_s - time.perf_counter()))
        written = time.perf_counter() - began
        if not shipper.flush(600):
            raise SystemExit("not everything was acknowledged")
        spent = time.process_time() - process_cpu
        stats = shipper.stats()
        shipper.close(5)
        return {
            "rss": sizes,
            "first_ms": took[0] * 1e3,
            "median_us": float(np.median(took[1:])) * 1e6,
            "p99_us": float(np.quantile(took[1:], 0.99)) * 1e6,
            "cpu_us": float(np.mean(cpu[1:])) * 1e6,
            "cpu_s": spent,
            "written_s": written,
            "lag_s": time.perf_counter() - began - written,
            "bytes": shipper._writer.written_bytes / (series * steps),
            "dropped": {f"{kind} {why}": n for (kind, why), n in stats.dropped.items()},
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--pause-ms", type=float, default=50)
    parser.add_argument("--child", nargs=3, metavar=("WAY", "ENDPOINT", "RUN"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(train(*chosen.child, chosen.series, chosen.steps, chosen.pause_ms / 1e3)))
        return
    points = chosen.series * chosen.steps
    print(f"{chosen.series:,} series x {chosen.steps:,} steps, {chosen.pause_ms:g} ms apart")
    with running("relay") as chain:
        for way in WAYS:
            run = f"steady-{time.time_ns()}"
            command = [sys.executable, __file__, "--series", str(chosen.series), "--steps", str(chosen.steps)]
            command += ["--pause-ms", str(chosen.pause_ms), "--child", way, chain.otlp, run]
            before = chain.cpu()
            seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            other = {name: spent - before[name] for name, spent in chain.cpu().items()}
            stored = chain.stored(run, points)
            with Victoria(chain.live) as store:
                series = int(
                    store.query(f'count(count_over_time({{run_id="{run}"}}[1h]))', time_s=time.time() + 600)[0].value
                )
            print(f"\n{way}")
            print(
                f"  per step on the training thread   median {seen['median_us']:.0f} µs, p99 {seen['p99_us']:.0f} µs,"
            )
            print(
                f"                                    CPU {seen['cpu_us']:.0f} µs; the first {seen['first_ms']:.0f} ms"
            )
            print(f"  resident MiB at step              {seen['rss']}")
            print(f"  CPU of the process                {seen['cpu_s']:.1f} s in {seen['written_s']:.0f} s of training")
            print(f"  CPU of the others                 {', '.join(f'{n} {s:.1f} s' for n, s in other.items())}")
            print(f"  behind at the end                 {seen['lag_s']:.2f} s; drops {seen['dropped']}")
            print(f"  spool                             {seen['bytes']:.2f} bytes a value")
            print(f"  series                            {chosen.series:,} in, {series:,} out")
            print(f"  values                            {points:,} in, {stored:,} out", flush=True)


if __name__ == "__main__":
    main()
