# SPDX-License-Identifier: Apache-2.0
"""What a value costs on disk, in the spool and in the store, beside other trackers; writes docs/benchmarks.md.

    .venv/bin/python tests/bench/disk.py [--curves FILE] [--quick] [--print] [--check]

`--curves` names a CSV file with the columns run, step, loss (gzip or not); without it curves are generated (see
`curves.py`). VictoriaMetrics is started privately, stopped so that everything reaches its files, merged, and measured;
the number of values that it holds is counted first. The other tools write the same values in environments of their own.
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from glideslope.config import Home
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import LayerStats, MetricsLogged, Phase, StepDone
from glideslope.ship.spool import SpoolWriter
from glideslope.store.connection import StoreError
from glideslope.store.victoria import Victoria

sys.path.append(str(Path(__file__).with_name("logging")))

import document
from curves import Shape, by_layer, by_name, curves, one_step
from peers import interpreter, make_environments, version
from processes import Job, run

COMMAND = ".venv/bin/python tests/bench/disk.py"
OUTPUT = Path(__file__).parents[1] / "output"
OTHERS = ("tensorboard-batched", "neptune-scale")
DIGITS = 4
COLUMNS = [
    [
        "shape",
        "values",
        "spool",
        "VictoriaMetrics",
        f"VictoriaMetrics, layers to {DIGITS} digits",
        "tensorboard",
        "neptune-scale",
    ]
]
_RESOURCE = {"service.name": "bench", "run.id": "disk", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
_STEPS = {"full": (2000, 2000, 200), "quick": (50, 20, 3)}


def events(shape: Shape) -> Iterator[StepDone | MetricsLogged | LayerStats]:
    """The events that carry a shape."""
    start = int(shape.times_ns[0]) - 10**9
    for number, (end, row) in enumerate(zip(shape.times_ns.tolist(), shape.values, strict=True), 1):
        if shape.kind == "step":
            loss, norm, clipped, _, _, tokens, samples, *_ = row.tolist()
            seconds = dict(zip(shape.names, row.tolist(), strict=True))
            phases, at = [], start
            for name in ("data", "forward", "backward", "optimizer"):
                phases.append(Phase(name, at, at := at + round(seconds[f"phase/{name}"] * 1e9)))
            names = ("train.memory.allocated", "train.memory.reserved", "process.memory.usage")
            memory = dict(zip(names, map(int, row[-3:]), strict=True))
            more = {"tokens": 524_288, "samples": 512, "phases": tuple(phases), "memory": memory}
            yield StepDone(number, start, end, loss, 1, (seconds["lr"],), norm, clipped, **more)
            start = end
        elif shape.kind == "named":
            yield MetricsLogged(end, number, shape.names, row)
        else:
            yield LayerStats(number * 10, end, "grad", shape.names, ("norm",), row[:, None])


def spooled(shape: Shape, digits: int | None) -> tuple[float, list[tuple[int, bytes]]]:
    """(bytes of segments, frames)."""
    frames: list[tuple[int, bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        spool = SpoolWriter(Path(folder, "spool"), quota_bytes=8 << 30)

        def append(kind: int, payload: bytes) -> None:
            frames.append((kind, payload))
            spool.append(kind, payload)

        writer = EventWriter(_RESOURCE, append, layer_digits=digits, start_ns=int(shape.times_ns[0]))
        for event in events(shape):
            writer.write(event)
        spool.close()
        assert not spool.dropped
        return sum(path.stat().st_size for path in Path(folder).rglob("*.seg")), frames


@contextmanager
def a_store(folder: Path) -> Iterator[tuple[str, Victoria]]:
    """VictoriaMetrics on `folder`; when it is left all values are in its files. Gives its version and a client."""
    built = sorted(Home.from_env().bin.glob("victoria-metrics-*"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise SystemExit("no VictoriaMetrics: run `glideslope build victoria-metrics` once")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(built[-1]), f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}", "-loggerLevel=ERROR"]
    command += ["-opentelemetry.usePrometheusNaming", "-dedup.minScrapeInterval=1ms", "-retentionPeriod=10y"]
    said = subprocess.run([built[-1], "--version"], capture_output=True, text=True, check=True).stdout
    process = subprocess.Popen(command)
    try:
        with Victoria(f"http://127.0.0.1:{port}") as store:
            _until(lambda: _healthy(store), "VictoriaMetrics did not start")
            yield said.strip().replace("victoria-metrics-", "VictoriaMetrics "), store
    finally:
        process.terminate()
        process.wait()


def _healthy(store: Victoria) -> bool:
    try:
        return store.health()
    except StoreError:
        return False


def _until(true: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(complaint)
        time.sleep(0.1)


def stored(shape: Shape, frames: list[tuple[int, bytes]]) -> tuple[float, str]:
    """(bytes of data and index after a merge, version of VictoriaMetrics)."""
    with tempfile.TemporaryDirectory() as folder:
        encode, sent = RequestEncoder(), 0
        with a_store(Path(folder)) as (name, store):
            for first in range(0, len(frames), 100):
                for request in encode(frames[first : first + 100]):
                    if request.signal == "metrics":
                        store.write_otlp(request.body)
                        sent += request.points
            store.flush()
            _until(lambda: _held(store) == sent, f"VictoriaMetrics does not hold the {sent:,} values of {shape.title}")
        with a_store(Path(folder)) as (name, store):
            httpx.get(f"{store.url}/internal/force_merge").raise_for_status()
            idle = "vm_active_force_merges 0"
            _until(lambda: idle in httpx.get(f"{store.url}/metrics").text, "VictoriaMetrics does not finish its merge")
        kept = [path for part in ("data", "indexdb") for path in Path(folder, part).rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in kept), name


def _held(store: Victoria) -> float:
    found = store.query('sum(count_over_time({run_id="disk"}[10y]))', time_s=time.time() + 60)
    return found[0].value if found else 0


def written(shape: Shape, tool: str, venvs: Path) -> float:
    """Bytes that another tool writes for the same values."""
    steps, count = shape.values.shape
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "values")
        np.ascontiguousarray(shape.values, np.float64).tofile(told)
        told.with_suffix(".names").write_text("\n".join(shape.names))
        job = Job(tool, count, steps, 0.0, warm=0, limit_s=600, replay=str(told))
        return run(job, interpreter(tool, venvs)).disk_bytes


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", type=Path, help="CSV file with the columns run, step, loss")
    parser.add_argument("--quick", action="store_true", help="few steps and no other tools; prints instead of writing")
    parser.add_argument("--venvs", type=Path, default=OUTPUT / "bench-venvs", help="where the environments are kept")
    parser.add_argument("--print", action="store_true", dest="printed", help="print instead of writing")
    parser.add_argument("--check", action="store_true", help="tell what is wrong with the document")
    chosen = parser.parse_args()
    if chosen.check:
        wrong = document.faults("disk", COLUMNS, ["VictoriaMetrics v", *map(version, OTHERS)])
        print("\n".join(wrong) or "the document is of the program's form")
        return 1 if wrong else 0
    if not chosen.quick:
        make_environments(list(OTHERS), chosen.venvs)
    rng = np.random.default_rng(0)
    losses = curves(chosen.curves, rng)
    steps = _STEPS["quick" if chosen.quick else "full"]
    rows, name = [], ""
    for make, count in zip((one_step, by_name, by_layer), steps, strict=True):
        shape = make(losses, count, rng)
        size, frames = spooled(shape, None)
        kept, name = stored(shape, frames)
        cells = [size, kept]
        cells.append(stored(shape, spooled(shape, DIGITS)[1])[0] if make is by_layer else -1)
        cells += [-1 if chosen.quick else written(shape, tool, chosen.venvs) for tool in OTHERS]
        told = ["–" if size < 0 else f"{size / shape.values.size:.2f}" for size in cells]
        rows.append([shape.title, f"{shape.values.size:,}", *told])
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    told = "losses of recorded runs" if chosen.curves else "generated losses"
    versions = ", ".join((version("glideslope"), name, *map(version, OTHERS)))
    text = (
        f"Machine: {document.machine()}. Command: `{COMMAND}`, {told}. Versions: {versions}. tensorboard gets one "
        "`Event` a step, whose values are float32; the others keep float64.\n\nBytes per value:\n\n"
    ) + document.table(COLUMNS[0], rows)
    if chosen.quick or chosen.printed:
        print(text)
    else:
        document.write("disk", COMMAND, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
