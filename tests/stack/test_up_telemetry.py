# SPDX-License-Identifier: Apache-2.0
"""What goes into the collector comes out of the stores: under the promised names, and after outages too."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from waiting import until

from glideslope.semconv import metric, metric_names, prometheus_label, promoted_resource_attributes
from glideslope.stack.state import read_state

Private = Callable[..., Any]
GPU = "GPU-11111111-2222-3333-4444-555555555555"
PAGE = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{GPU}",device="nvidia0",modelName="NVIDIA H100",Hostname="old-exporter"}} 71
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="{GPU}x",device="nvidia1",modelName="NVIDIA H100",hostname="new-exporter"}} 72
# HELP DCGM_FI_DEV_NVLINK_BANDWIDTH_L0 link bandwidth.
# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_L0 gauge
DCGM_FI_DEV_NVLINK_BANDWIDTH_L0{{nvlink="0",gpu="0",gpu_uuid="{GPU}",hostname="new-exporter"}} 3
"""


def attribute(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))


def resource(run: str) -> list[KeyValue]:
    values = {"run.id": run, "run.attempt": "0", "dist.rank": "3", "service.name": "training", "service.version": "9"}
    return [attribute(name, value) for name, value in values.items()]


def post(url: str, message: Any) -> None:
    answer = httpx.post(url, content=message.SerializeToString(), headers={"Content-Type": "application/x-protobuf"})
    assert answer.status_code == 200, answer.text


def gauges(run: str, name: str, values: list[float], first_ns: int) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    block = request.resource_metrics.add()
    block.resource.attributes.extend(resource(run))
    series = block.scope_metrics.add().metrics.add(name=name)
    for number, value in enumerate(values):
        series.gauge.data_points.add(as_double=value, time_unix_nano=first_ns + number * 1_000_000)
    return request


def query(store: str, expression: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{store}/api/v1/query", params={"query": expression})
    if answer.status_code >= 500:
        return []
    found: list[dict[str, Any]] = answer.json()["data"]["result"]
    return found


def stored(store: str, run: str, name: str) -> list[float]:
    try:
        answer = httpx.get(f"{store}/api/v1/export", params={"match[]": f'{name}{{run_id="{run}"}}'})
    except httpx.TransportError:
        return []
    return [value for line in answer.text.splitlines() for value in httpx.Response(200, text=line).json()["values"]]


@pytest.fixture
def exporter_page(stack: Any) -> Iterator[Callable[[str], None]]:
    """Serve a page where the collector scrapes GPU exporters."""
    pages = [""]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(pages[-1].encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", stack.ports.gpu_exporter), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield pages.append
        server.shutdown()
        thread.join()


class BusyStore(ThreadingHTTPServer):
    """A store that answers 503 to everything; it runs until it is closed."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_error(503)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            return

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), self.Handler)
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


def busy_store(port: int) -> BusyStore | None:
    try:
        return BusyStore(port)
    except OSError:
        return None


@pytest.fixture(scope="module")
def every_metric(stack: Any) -> str:
    """One point of every metric of the registry, sent through the collector; returns the run's id."""
    run = "every-metric"
    request = ExportMetricsServiceRequest()
    block = request.resource_metrics.add()
    block.resource.attributes.extend(resource(run))
    scope = block.scope_metrics.add()
    scope.scope.name = "glideslope"
    for name in metric_names():
        known = metric(name)
        series = scope.metrics.add(name=name, unit=known.unit, description=known.description)
        data = series.gauge
        if known.instrument == "counter":
            series.sum.is_monotonic = True
            series.sum.aggregation_temporality = 2
            data = series.sum
        point = data.data_points.add(as_double=1.5, time_unix_nano=time.time_ns())
        point.attributes.extend(attribute(key, "x") for key in known.attributes)
    post(f"{stack.otlp_http}/v1/metrics", request)
    sent = f'{{run_id="{run}", service_name="training"}}'
    until(lambda: len(query(stack.live, sent)) >= len(metric_names()), "every metric of the registry")
    return run


@pytest.mark.parametrize("name", metric_names())
def test_the_store_holds_each_metric_under_its_promised_name_and_labels(
    name: str, stack: Any, every_metric: str
) -> None:
    known = metric(name)
    found = query(stack.live, f'{{run_id="{every_metric}", __name__="{known.stored_name}"}}')
    assert len(found) == 1
    own = {prometheus_label(attribute): "x" for attribute in known.attributes}
    promoted = {"run_id": every_metric, "run_attempt": "0", "dist_rank": "3", "service_name": "training"}
    assert found[0]["metric"] == {"__name__": known.stored_name} | promoted | own


def test_the_store_holds_nothing_under_other_names(stack: Any, every_metric: str) -> None:
    # Rules add series of their own, without the rank's service name.
    sent = f'{{run_id="{every_metric}", service_name="training"}}'
    found = {series["metric"]["__name__"] for series in query(stack.live, sent)}
    assert found == {metric(name).stored_name for name in metric_names()}


def test_only_attributes_of_the_registry_become_labels() -> None:
    assert "service.version" not in promoted_resource_attributes()


def test_every_step_s_value_keeps_its_own_timestamp(stack: Any) -> None:
    first = time.time_ns() // 1_000_000 * 1_000_000 - 10**9
    values = [math.sin(number) for number in range(500)]
    post(f"{stack.otlp_http}/v1/metrics", gauges("steps", "train.loss", values, first))
    found = until(lambda: stored(stack.live, "steps", "train_loss"), "the run's values")
    # VictoriaMetrics keeps about 12 significant digits.
    assert found == pytest.approx(values, rel=1e-11)


def test_a_new_series_is_seen_soon_although_someone_asked_for_it_before(stack: Any) -> None:
    assert query(stack.live, 'train_loss{run_id="awaited"}') == []
    post(f"{stack.otlp_http}/v1/metrics", gauges("awaited", "train.loss", [1.0], time.time_ns()))
    # Alerts must be out within 5 s; unrefreshed, the store takes 8 to 10.
    until(lambda: query(stack.live, 'train_loss{run_id="awaited"}'), "the new series", timeout_s=5)


def test_infinity_is_kept_and_nan_is_not(stack: Any) -> None:
    post(f"{stack.otlp_http}/v1/metrics", gauges("odd", "train.loss", [1.0, math.nan, math.inf], time.time_ns()))
    found = until(lambda: stored(stack.live, "odd", "train_loss"), "the run's values")
    assert [float(value) for value in found] == [1.0, math.inf]


def test_logs_arrive_in_streams_of_run_attempt_and_rank(stack: Any) -> None:
    request = ExportLogsServiceRequest()
    block = request.resource_logs.add()
    block.resource.attributes.extend(resource("logged"))
    record = block.scope_logs.add().log_records.add(time_unix_nano=time.time_ns(), severity_text="INFO")
    record.body.string_value = "an attempt began"
    post(f"{stack.otlp_http}/v1/logs", request)

    def ask() -> str:
        return httpx.get(f"{stack.logs}/select/logsql/query", params={"query": '{run.id="logged"}'}).text.strip()

    line = httpx.Response(200, text=until(ask, "the log record")).json()
    assert line["_msg"] == "an attempt began"
    for part in ('run.id="logged"', 'run.attempt="0"', 'dist.rank="3"', 'service.name="training"'):
        assert part in line["_stream"]


def test_spans_of_two_ranks_meet_in_one_trace(stack: Any) -> None:
    trace = bytes(range(1, 17))
    for rank in (0, 1):
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        block.resource.attributes.extend([attribute("service.name", "traced"), attribute("dist.rank", str(rank))])
        span = block.scope_spans.add().spans.add(name="train.step", trace_id=trace, span_id=bytes([rank + 1] * 8))
        span.start_time_unix_nano, span.end_time_unix_nano = time.time_ns() - 10**8, time.time_ns()
        post(f"{stack.otlp_http}/v1/traces", request)

    def ask() -> list[Any]:
        answer = httpx.get(f"{stack.traces}/api/traces/{trace.hex()}")
        spans = answer.json()["data"][0]["spans"] if answer.status_code == 200 else []
        return spans if len(spans) == 2 else []

    assert len(until(ask, "both spans")) == 2


def test_the_stack_measures_itself(stack: Any) -> None:
    for expression in (
        'vm_rows{program="live"}',
        'vm_rows_ignored_total{program="live"}',
        'otelcol_exporter_queue_size{program="collector"}',
        'vmalert_alerts_firing{program="vmalert"}',
        "system_memory_usage_bytes",
        'up{program="logs"} == 1',
    ):
        until(lambda expression=expression: query(stack.live, expression), expression)


def test_gpu_pages_of_old_and_new_exporters_get_the_join_label(
    stack: Any, exporter_page: Callable[[str], None]
) -> None:
    exporter_page(PAGE)
    found = until(lambda: query(stack.live, f'{{__name__=~"DCGM_.+", hw_id=~"{GPU}.*"}}'), "the scraped page")
    by_value = {series["value"][1]: series["metric"] for series in found}
    assert {value: (labels["hw_id"], labels["hostname"]) for value, labels in by_value.items()} == {
        "71": (GPU, "old-exporter"),
        "72": (f"{GPU}x", "new-exporter"),
        "3": (GPU, "new-exporter"),
    }
    for labels in by_value.values():
        assert not labels.keys() & {"UUID", "gpu_uuid", "Hostname"}
        assert labels["service_name"] == "dcgm"
        assert labels["host_name"] == socket.gethostname()


def test_the_collector_s_queue_outlives_the_store_and_the_collector(private_stack: Private) -> None:
    stack = private_stack("live", "collector")
    state = read_state(stack.home)
    assert state is not None
    os.kill(state.programs["live"].pid, signal.SIGKILL)
    # Whoever takes its port keeps the supervisor from restarting the store.
    with closing(until(lambda: busy_store(stack.ports.live), "the store's port")):
        first = time.time_ns() // 1_000_000 * 1_000_000
        for part in range(10):
            values = [float(part * 100 + number) for number in range(100)]
            request = gauges("queued", "train.loss", values, first + part * 10**9)
            # JSON takes the pipeline; protobuf, which ranks send, is handed to the store or refused.
            answer = httpx.post(
                f"{stack.otlp_http}/v1/metrics",
                content=json_format.MessageToJson(request),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code == 200, answer.text
        os.kill(state.programs["collector"].pid, signal.SIGKILL)
        until(lambda: (now := read_state(stack.home)) and now.programs["collector"].restarts == 1, "restart")
        taken = f"port {stack.ports.live} is taken by pid {os.getpid()}"
        until(lambda: (now := read_state(stack.home)) and taken in now.programs["live"].detail, "the reason")
    until(lambda: len(stored(stack.live, "queued", "train_loss")) >= 1000, "the queued values", timeout_s=60)
    assert stored(stack.live, "queued", "train_loss") == [float(number) for number in range(1000)]
