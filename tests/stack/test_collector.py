# SPDX-License-Identifier: Apache-2.0
"""The collector hands metric bodies to the store, gives the store's own answer, and says when the store restarted."""

import gzip
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import zstandard
from waiting import until

from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import MetricsLogged
from glideslope.store.victoria import Victoria

EPOCH = "Glideslope-Store-Epoch"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def body(run: str, values: int = 3) -> bytes:
    """A metrics request with `values` points."""
    frames: list[tuple[int, bytes]] = []
    resource = {"service.name": "t", "run.id": run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
    writer = EventWriter(resource, lambda kind, payload: frames.append((kind, payload)))
    for number in range(values):
        writer.write(MetricsLogged(time.time_ns(), float(number), ("x",), [float(number)]))
    (request,) = [found for found in RequestEncoder()(frames) if found.signal == "metrics"]
    return request.body


def kill(stack: Any, name: str) -> Callable[[], Any]:
    """SIGKILL one program of a private stack; returns the question whether its supervisor has it running again."""
    before = stack.stack.status().programs[name].pid
    os.kill(before, signal.SIGKILL)

    def back() -> bool:
        now = stack.stack.status().programs[name]
        return bool(now.ready) and now.pid != before

    return back


def post(stack: Any, content: bytes, **headers: str) -> httpx.Response:
    return httpx.post(f"{stack.otlp_http}/v1/metrics", content=content, headers={**PROTOBUF, **headers}, timeout=10)


def stored(stack: Any, run: str) -> list[float]:
    with Victoria(stack.live) as store:
        store.flush()
        return [value for series in store.export(f'train_metric{{run_id="{run}"}}') for value in series.values]


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_an_acknowledged_body_is_in_the_store_whatever_its_encoding(stack: Any, encoding: str) -> None:
    run = f"relay-{encoding or 'plain'}-{time.time_ns()}"
    packed = {"": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}[encoding](body(run))
    answer = post(stack, packed, **({"Content-Encoding": encoding} if encoding else {}))
    assert answer.is_success
    assert answer.headers[EPOCH]
    # No waiting: the acknowledgement is the store's own.
    assert stored(stack, run) == [0.0, 1.0, 2.0]


def test_json_takes_the_pipeline_and_every_signal_carries_the_epoch(stack: Any) -> None:
    point = {"timeUnixNano": str(time.time_ns()), "asDouble": 4.5}
    run = f"json-{time.time_ns()}"
    message = {
        "resourceMetrics": [
            {
                "resource": {"attributes": [{"key": "run.id", "value": {"stringValue": run}}]},
                "scopeMetrics": [{"metrics": [{"name": "train.metric", "gauge": {"dataPoints": [point]}}]}],
            }
        ]
    }
    answer = httpx.post(f"{stack.otlp_http}/v1/metrics", json=message)
    assert answer.is_success
    until(lambda: stored(stack, run) == [4.5], "the JSON point in the store")
    for signal_name in ("traces", "logs"):
        other = httpx.post(f"{stack.otlp_http}/v1/{signal_name}", content=b"", headers=PROTOBUF)
        assert other.is_success
        assert other.headers[EPOCH] == answer.headers[EPOCH]


def test_what_the_store_refuses_for_good_is_refused_to_the_sender(stack: Any) -> None:
    answer = post(stack, b"\xff\xff no protobuf")
    assert answer.status_code == 400
    assert answer.text


def test_a_body_beyond_the_limit_is_answered_with_413_or_400_and_nothing_is_stored(stack: Any) -> None:
    bomb = zstandard.compress(bytes(80 << 20))
    assert post(stack, bomb, **{"Content-Encoding": "zstd"}).status_code in (400, 413)


def test_many_senders_at_once_all_get_an_answer(stack: Any) -> None:
    runs = [f"many-{number}-{time.time_ns()}" for number in range(40)]
    with ThreadPoolExecutor(40) as threads:
        answers = list(threads.map(lambda run: post(stack, body(run)).status_code, runs))
    assert set(answers) <= {200, 204, 503}
    assert [stored(stack, run) for run, code in zip(runs, answers, strict=True) if code != 503]


def test_the_epoch_changes_with_a_killed_store_and_an_absent_store_is_said(
    private_stack: Callable[..., Any],
) -> None:
    stack = private_stack("live", "collector")
    before = post(stack, body("r"))
    assert before.is_success
    assert post(stack, body("r")).headers[EPOCH] == before.headers[EPOCH]
    back = kill(stack, "live")
    away = post(stack, body("r"))
    assert away.status_code == 503
    assert away.headers["Retry-After"]
    assert "does not answer" in away.text
    until(back, "the store runs again")
    after = post(stack, body("r"))
    assert after.is_success
    assert after.headers[EPOCH] != before.headers[EPOCH]


def test_a_second_collector_names_the_same_epoch(private_stack: Callable[..., Any]) -> None:
    stack = private_stack("live", "collector")
    before = post(stack, body("r")).headers[EPOCH]
    until(kill(stack, "collector"), "the collector runs again")
    assert post(stack, body("r")).headers[EPOCH] == before


def test_relayed_requests_are_counted_by_status(stack: Any) -> None:
    post(stack, body(f"counted-{time.time_ns()}"))
    page = httpx.get(f"{stack.ports.url('collector_metrics')}/metrics").text
    lines = [line for line in page.splitlines() if line.startswith("otelcol_store_relay_requests")]
    assert any('http_response_status_code="2' in line for line in lines), page[:500]
    assert any(line.startswith("otelcol_store_relay_bytes") for line in page.splitlines())
