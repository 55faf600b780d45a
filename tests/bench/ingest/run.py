# SPDX-License-Identifier: Apache-2.0
"""How fast values go from the training process to the store, and whose CPU time it takes.

    .venv/bin/python tests/bench/ingest/run.py [--series 10000] [--steps 300] [--rounds 3] [--quick] [--check]

The ways take turns in every round; the figure is the best round, because on a shared machine the others measure who
else was there. CPU seconds are those of the same round. Writes the table into docs/benchmarks.md unless `--quick`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zstandard

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats
from glideslope.ship import open_shipper

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "logging"))

import document
from chain import FORMS, Chain, running
from peers import interpreter, make_environments

COMMAND = ".venv/bin/python tests/bench/ingest/run.py"
BARS = ("bar", "demanded", "measured", "met")
COLUMNS = ("way", "points/s", "trainer", "collector", "store", "bytes/point")
SDK = "OTel SDK → collector (pipeline and queue) → VictoriaMetrics"
DIRECT, RELAY = "glideslope → VictoriaMetrics", "glideslope → collector (relay) → VictoriaMetrics"
ENCODE = ("encode", "encode and compress (zstd)")
VENVS = Path(__file__).parents[2] / "output" / "bench-venvs"


class Row(NamedTuple):
    """One measurement of one way; CPU in seconds per million points."""

    rate: float
    trainer: float
    collector: float | None = None
    store: float | None = None
    size: float | None = None


class Load:
    """The same layer statistics for every way: one value per series and step, float32."""

    def __init__(self, series: int, steps: int) -> None:
        self.series, self.steps = series, steps
        self.names = tuple(f"blocks.{i // 40}.attn.w{i % 40}" for i in range(series))
        rng = np.random.default_rng(0)
        self._values = [rng.standard_normal((series, 1)).astype(np.float32).astype(np.float64) for _ in range(10)]

    @property
    def points(self) -> int:
        return self.series * self.steps

    def event(self, step: int) -> LayerStats:
        return LayerStats(step, time.time_ns(), "grad", self.names, ("norm",), self._values[step % 10])


def resource(run: str) -> dict[str, str | int]:
    return {"service.name": "bench", "run.id": run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"}


def encoding(load: Load, compress: bool) -> Row:
    """Frames to OTLP requests, in this thread."""
    frames: list[tuple[int, bytes]] = []
    writer = EventWriter(resource("encode"), lambda kind, payload: frames.append((kind, payload)))
    for step in range(load.steps):
        writer.write(load.event(step))
    packer, encoder = zstandard.ZstdCompressor(level=1), RequestEncoder()
    encoder(frames[:3])
    points = size = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for first in range(0, len(frames), 20):
        for request in encoder(frames[first : first + 20], 5_000):
            points += request.points
            size += len(packer.compress(request.body)) if compress else len(request.body)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Row(points / wall, cpu / points * 1e6, size=size / points)


def shipped(load: Load, chain: Chain, endpoint: str) -> Row:
    """From the event to the store: spool, encode, compress, post, until the store has taken all; then counted there."""
    run = f"ingest-{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        shipper = open_shipper(Path(folder, "spool"), RequestEncoder(), Export(endpoint=endpoint))
        writer = EventWriter(resource(run), shipper.append)
        rows, before, wall, cpu = chain.rows(), chain.cpu(), time.perf_counter(), time.process_time()
        for step in range(load.steps):
            writer.write(load.event(step))
        if not shipper.flush(600):
            raise SystemExit("not everything was acknowledged within 600 s")
        # A collector with a queue has acknowledged what is not stored yet.
        chain.arrived(rows + load.points)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = chain.cpu()
        shipper.close(5)
    return _row(chain, run, load.points, wall, cpu, before, after)


def through_sdk(load: Load, chain: Chain, python: Path) -> Row:
    """The OTel SDK; a tenth of the steps, since it is slow."""
    run, steps = f"sdk-{time.time_ns()}", max(3, load.steps // 10)
    rows, before = chain.rows(), chain.cpu()
    words = [python, Path(__file__).with_name("sdk.py"), chain.otlp, run, str(load.series), str(steps)]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    chain.arrived(rows + load.series * (steps + 1))
    return _row(chain, run, load.series * steps, told["wall"], told["cpu"], before, chain.cpu(), more=load.series)


def _row(
    chain: Chain,
    run: str,
    points: int,
    wall: float,
    cpu: float,
    before: dict[str, float],
    after: dict[str, float],
    more: int = 0,
) -> Row:
    stored = chain.stored(run, points + more)
    if stored < points:
        raise SystemExit(f"{stored:,} of {points:,} points are in the store")
    spent = {name: (after[name] - before[name]) / points * 1e6 for name in after}
    return Row(points / wall, cpu / points * 1e6, spent["collector"], spent["live"])


def measure(load: Load, rounds: int, python: Path | None) -> dict[str, Row]:
    """The best round of every way."""
    best: dict[str, Row] = {}

    def keep(way: str, row: Row) -> None:
        print(f"{way:<66} {row.rate / 1e3:>9,.0f} k points/s", file=sys.stderr, flush=True)
        if way not in best or row.rate > best[way].rate:
            best[way] = row

    for _ in range(rounds):
        for way, compress in zip(ENCODE, (False, True), strict=True):
            keep(way, encoding(load, compress))
        for form in FORMS:
            with running(form) as chain:
                if form == "relay":
                    keep(DIRECT, shipped(load, chain, f"{chain.live}/opentelemetry"))
                keep(f"glideslope → collector ({form}) → VictoriaMetrics", shipped(load, chain, chain.otlp))
                if python is not None and form == FORMS[-1]:
                    keep(SDK, through_sdk(load, chain, python))
    return best


def text(load: Load, rounds: int, best: dict[str, Row]) -> str:
    """The tables."""

    def number(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    rows = [
        [way, f"{row.rate:,.0f}", *(number(v, ".2f") for v in row[1:4]), number(row.size, ".1f")]
        for way, row in best.items()
    ]
    bars = [
        ("encoded by one process", best[ENCODE[1]].rate, 1e6, ",.0f"),
        ("through the collector, trainer, collector and store on the same cores", best[RELAY].rate, 4e5, ",.0f"),
    ]
    if SDK in best:
        bars.append(("end to end, times the OTel SDK", best[RELAY].rate / best[SDK].rate, 10, ",.1f"))
    told = [
        [what, f"≥ {bar:,.0f}", format(seen, form), "yes" if seen >= bar else "no"] for what, seen, bar, form in bars
    ]
    return "\n\n".join(
        (
            f"Machine: {document.machine()}. Command: `{COMMAND}`.",
            f"{load.series:,} series × {load.steps} steps, best of {rounds} rounds. "
            "Trainer, collector, store: CPU seconds per million points.",
            document.table(COLUMNS, rows),
            document.table(BARS, told),
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--venvs", type=Path, default=VENVS, help="folder with the environments of the peers")
    parser.add_argument("--quick", action="store_true", help="small, without the SDK; prints and writes nothing")
    parser.add_argument("--check", action="store_true", help="say whether the document's table is of this form")
    chosen = parser.parse_args()
    if chosen.check:
        print("\n".join(said := document.faults("ingest", [COLUMNS, BARS], [DIRECT, RELAY, SDK])))
        return 1 if said else 0
    if chosen.quick:
        load, rounds, python = Load(500, 20), 1, None
    else:
        make_environments(["otel-gauge"], chosen.venvs)
        load, rounds, python = Load(chosen.series, chosen.steps), chosen.rounds, interpreter("otel-gauge", chosen.venvs)
    body = text(load, rounds, measure(load, rounds, python and Path(python)))
    print(body)
    if not chosen.quick:
        document.write("ingest", COMMAND, body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
