# SPDX-License-Identifier: Apache-2.0
"""What of a killed run is on disk: for each tool the steps that its own reader, or its file format, gives back.

In: the folder of a run whose every value was the number of its step. Out: {step: values found}. Runs in the environment
of the tool, so every import is inside its function. As a script: TOOL FOLDER VALUES-A-STEP, prints the whole steps.
"""

# ruff: noqa: PLC0415

import json
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Found = Iterator[tuple[float, float]]
"""(step, value) of each value found; where a tool keeps no step the value is given as step."""


def glideslope(folder: Path) -> Found:
    """What the sender would send: the spool, read and encoded as in `glideslope sync`; OTLP carries no step."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    from glideslope.emit import RequestEncoder
    from glideslope.ship.reader import SpoolReader

    for spool in {path.parent for path in folder.rglob("*.seg")}:
        reader, encode = SpoolReader(spool, live=lambda: False), RequestEncoder()
        while records := reader.read(4 << 20):
            for request in encode([(record.kind, record.payload) for record in records]):
                if request.signal == "metrics":
                    yield from _points(ExportMetricsServiceRequest.FromString(request.body), "train.metric")


def _points(request: Any, name: str = "") -> Found:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if name in ("", metric.name):
                    yield from ((point.as_double, point.as_double) for point in metric.gauge.data_points)


def neptune_scale(folder: Path) -> Found:
    from neptune_api.proto.neptune_pb.ingest.v1.common_pb2 import UpdateRunSnapshot

    for path in folder.rglob("*.sqlite3"):
        rows = sqlite3.connect(path).execute("SELECT operation FROM run_operations WHERE operation_type = 0")
        for (operation,) in rows:
            snapshot = UpdateRunSnapshot.FromString(operation)
            step = snapshot.step.whole + snapshot.step.micro / 1e6
            yield from ((step, value.float64) for value in snapshot.append.values())
            yield from ((step, entry.value.float64) for entry in getattr(snapshot, "append_entries", ()))


def wandb(folder: Path) -> Found:
    from wandb.proto.wandb_internal_pb2 import Record

    for path in folder.rglob("*.wandb"):
        for data in leveldb_records(path.read_bytes()):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "history":
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                step = float(items.pop("_step", record.history.step.num))
                yield from ((step, float(value)) for key, value in items.items() if not key.startswith("_"))


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """Records of wandb's file: 7 bytes of header, then LevelDB's log format in blocks of 32 KiB."""
    at, whole, size = 7, b"", 32768
    while at + 7 <= len(data):
        if size - at % size < 7:
            at += size - at % size
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        if kind == 0 or at + 7 + length > len(data):
            return
        piece, at = data[at + 7 : at + 7 + length], at + 7 + length
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):
            yield whole


def trackio(folder: Path) -> Found:
    for path in folder.glob("*.db"):
        for step, text in sqlite3.connect(path).execute("SELECT step, metrics FROM metrics"):
            yield from ((float(step), float(value)) for value in json.loads(text).values())


def tensorboard(folder: Path) -> Found:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in folder.glob("events.out.tfevents.*"):
        for event in LegacyEventFileLoader(str(path)).Load():
            yield from ((float(event.step), float(value.simple_value)) for value in event.summary.value)


def mlflow(folder: Path) -> Found:
    for path in folder.glob("*.db"):
        for step, value in sqlite3.connect(path).execute("SELECT step, value FROM metrics"):
            yield float(step), float(value)


def otel_gauge(folder: Path) -> Found:
    """What the receiver got; the SDK keeps nothing on disk, and a gauge has no step."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    for path in folder.glob("received/*"):
        yield from _points(ExportMetricsServiceRequest.FromString(path.read_bytes()))


READERS = {
    "glideslope": glideslope,
    "glideslope-array": glideslope,
    "neptune-scale": neptune_scale,
    "wandb": wandb,
    "trackio": trackio,
    "tensorboard-batched": tensorboard,
    "tensorboardX": tensorboard,
    "mlflow": mlflow,
    "otel-gauge": otel_gauge,
}


def whole_steps(tool: str, folder: Path, values: int) -> int:
    """Steps of which at least `values` values are there, each being the number of its step."""
    found = Counter(step for step, value in READERS[tool](folder) if step == value)
    return sum(count >= values for count in found.values())


if __name__ == "__main__":
    print(whole_steps(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
