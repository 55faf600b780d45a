# SPDX-License-Identifier: Apache-2.0
"""The same work through the OpenTelemetry metrics SDK: set every gauge, collect, export over OTLP/HTTP, step by step.

In: endpoint, run, series, steps. Out: one JSON line {"wall", "cpu"} in seconds. Runs in an environment of its own, so
it imports nothing of glideslope. The SDK keeps one value a series and collection, so a step is a collection.
"""

import json
import sys
import time

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource


def main(endpoint: str, run: str, series: int, steps: int) -> None:
    exporter = OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics")
    # Without the view the SDK keeps 2,000 series of an instrument.
    view = View(instrument_name="*", aggregation_cardinality_limit=2 * series)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    resource = Resource({"service.name": "bench", "run.id": run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"})
    provider = MeterProvider([reader], resource=resource, views=[view])
    gauge = provider.get_meter("glideslope").create_gauge("train.layer")
    marks = [
        {"layer.name": f"blocks.{i // 40}.attn.w{i % 40}", "layer.index": i, "stat": "norm", "tensor.kind": "grad"}
        for i in range(series)
    ]
    for mark in marks:
        gauge.set(0.0, mark)
    provider.force_flush()
    wall, cpu = time.perf_counter(), time.process_time()
    for step in range(steps):
        for mark in marks:
            gauge.set(step * 0.5, mark)
        provider.force_flush()
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}), flush=True)
    provider.shutdown()


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
