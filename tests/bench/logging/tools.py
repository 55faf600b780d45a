# SPDX-License-Identifier: Apache-2.0
"""How each tool logs one step: the one place that knows the tools' own calls.

In: a folder, the names of the values, the address of an OTLP receiver. Out: objects with `log(step, values)`, which is
what is timed, and `close()`. Runs in the environment of the tool, so every import is inside its class; imports nothing
else. Each tool is set up as its documentation tells for a run without a server: offline or local, defaults otherwise.
"""

# ruff: noqa: PLC0415

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Values = dict[str, float]


class Glideslope:
    """`run.log_metrics(dict, step)`; nobody listens at the endpoint, so everything stays in the spool."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        os.environ["GLIDESLOPE_HOME"] = str(folder)
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        import glideslope

        self._run = glideslope.init(name="bench")
        self.log = self._log
        self.close = self._run.close

    def _log(self, step: int, values: Values) -> None:
        self._run.log_metrics(values, step)


class GlideslopeArray(Glideslope):
    """`run.log_metrics(array, step, names=names)` with a float64 array."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        super().__init__(folder, names, endpoint)
        self._names = tuple(names)

    def _log(self, step: int, values: Any) -> None:
        self._run.log_metrics(values, step, names=self._names)


class NeptuneScale:
    """`Run(mode="offline").log_metrics(dict, step)`."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        from neptune_scale import Run

        self._run = Run(project="bench/bench", run_id="bench", mode="offline", log_directory=folder)
        self.close = self._run.close

    def log(self, step: int, values: Values) -> None:
        self._run.log_metrics(values, step=step)


class Wandb:
    """`wandb.init(mode="offline").log(dict, step)`."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        os.environ["WANDB_SILENT"] = "true"
        import wandb

        self._run = wandb.init(project="bench", mode="offline", dir=str(folder))
        self.close = self._run.finish

    def log(self, step: int, values: Values) -> None:
        self._run.log(values, step=step)


class Trackio:
    """`trackio.init().log(dict, step)` without a dashboard or a remote space."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        os.environ["TRACKIO_DIR"] = str(folder)
        os.environ["HF_HUB_OFFLINE"] = "1"
        import trackio

        self._run = trackio.init(project="bench", name="bench", embed=False)
        self.close = trackio.finish

    def log(self, step: int, values: Values) -> None:
        self._run.log(values, step=step)


class TensorboardX:
    """`SummaryWriter.add_scalar` once for each value."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder))
        self.close = self._writer.close

    def log(self, step: int, values: Values) -> None:
        add = self._writer.add_scalar
        for name, value in values.items():
            add(name, value, step)


class TensorboardBatched:
    """One `Event` that holds all values of the step, given to tensorboard's `EventFileWriter`."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))
        self.close = self._writer.close

    def log(self, step: int, values: Values) -> None:
        value = self._summary.Value
        summary = self._summary(value=[value(tag=name, simple_value=number) for name, number in values.items()])
        self._writer.add_event(self._event(step=step, summary=summary))


class Mlflow:
    """`mlflow.log_metrics(dict, step)` into SQLite."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        experiment = mlflow.create_experiment("bench", artifact_location=str(folder / "artifacts"))
        mlflow.start_run(experiment_id=experiment)
        self._log_metrics = mlflow.log_metrics
        self.close = mlflow.end_run

    def log(self, step: int, values: Values) -> None:
        self._log_metrics(values, step=step)


class OtelGauge:
    """One synchronous gauge of the metrics SDK for each name, exported once a second over OTLP/HTTP."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        exporter = OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics")
        provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=1000)])
        meter = provider.get_meter("bench")
        self._gauges = {name: meter.create_gauge(name.replace("/", ".")) for name in names}
        self.close = provider.shutdown

    def log(self, step: int, values: Values) -> None:
        gauges = self._gauges
        for name, value in values.items():
            gauges[name].set(value)


class Control:
    """Logs nothing: what the same loop, the timer and the machine do to a call that only computes."""

    def __init__(self, folder: Path, names: Sequence[str], endpoint: str) -> None:
        self.close = lambda: None

    def log(self, step: int, values: Values) -> None:
        sum(values.values())


TOOLS: dict[str, type] = {
    "glideslope": Glideslope,
    "glideslope-array": GlideslopeArray,
    "glideslope-sending": Glideslope,
    "neptune-scale": NeptuneScale,
    "wandb": Wandb,
    "trackio": Trackio,
    "tensorboard-batched": TensorboardBatched,
    "tensorboardX": TensorboardX,
    "mlflow": Mlflow,
    "otel-gauge": OtelGauge,
    "control": Control,
}
