# SPDX-License-Identifier: Apache-2.0
"""The Jaeger client against the real program."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from glideslope.errors import StoreError
from glideslope.store.traces import Jaeger

TRACE = "ab" * 16


@pytest.fixture(scope="module")
def start_ns() -> int:
    return time.time_ns() // 1000 * 1000


@pytest.fixture(scope="module")
def jaeger(jaeger_urls: tuple[str, str], start_ns: int) -> Iterator[Jaeger]:
    """A client of a store that holds one trace: a root of rank 0 and a step of each of two ranks."""
    message = ExportTraceServiceRequest()
    for rank in (0, 1):
        group = message.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = "gpt"
        group.resource.attributes.add(key="dist.rank").value.int_value = rank
        spans = group.scope_spans.add().spans
        if rank == 0:
            spans.add(
                name="train.step.root",
                trace_id=bytes.fromhex(TRACE),
                span_id=b"\x01" * 8,
                start_time_unix_nano=start_ns,
                end_time_unix_nano=start_ns + 10_000_000,
            )
        step = spans.add(
            name="train.step",
            trace_id=bytes.fromhex(TRACE),
            span_id=bytes([2 + rank]) * 8,
            parent_span_id=b"\x01" * 8,
            start_time_unix_nano=start_ns + (1 + rank) * 1_000_000,
            end_time_unix_nano=start_ns + 9_000_000,
        )
        step.attributes.add(key="train.step").value.int_value = 12
    query, otlp = jaeger_urls
    httpx.post(
        f"{otlp}/v1/traces", content=message.SerializeToString(), headers={"Content-Type": "application/x-protobuf"}
    ).raise_for_status()
    with Jaeger(query, timeout_s=10) as client:
        deadline = time.monotonic() + 10
        while client.trace(TRACE) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        yield client


def test_a_trace_holds_the_spans_of_both_ranks(jaeger: Jaeger, start_ns: int) -> None:
    trace = jaeger.trace(TRACE)
    assert trace is not None
    root, first, second = trace.spans
    assert (root.name, root.parent_id, root.start_us, root.duration_us) == (
        "train.step.root",
        "",
        start_ns // 1000,
        10_000,
    )
    assert [span.parent_id for span in (first, second)] == [root.span_id] * 2
    assert [span.resource["dist.rank"] for span in (first, second)] == [0, 1]
    assert (first.service, first.tags["train.step"]) == ("gpt", 12)


def test_services_are_listed(jaeger: Jaeger) -> None:
    assert jaeger.services() == ["gpt"]


def test_traces_are_found_by_tag(jaeger: Jaeger) -> None:
    found = jaeger.find("gpt", tags={"train.step": "12"}, start_us=0, end_us=time.time_ns() // 1000 + 1_000_000)
    assert [trace.trace_id for trace in found] == [TRACE]
    assert jaeger.find("gpt", tags={"train.step": "13"}, start_us=0, end_us=time.time_ns() // 1000) == []


def test_an_unknown_trace_is_none(jaeger: Jaeger) -> None:
    assert jaeger.trace("cd" * 16) is None


@pytest.mark.parametrize("trace_id", ["", "../services", "xyz", "a" * 33])
def test_what_is_no_trace_id_is_refused(jaeger: Jaeger, trace_id: str) -> None:
    with pytest.raises(StoreError, match="no trace id"):
        jaeger.trace(trace_id)


def test_health_is_true_for_a_healthy_server(jaeger: Jaeger) -> None:
    assert jaeger.health()
