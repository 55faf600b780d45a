# SPDX-License-Identifier: Apache-2.0
"""The VictoriaMetrics client against the real program."""

from __future__ import annotations

import gzip
import itertools
import math
import socket
import time
from collections.abc import Iterator

import pytest
import zstandard
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from glideslope.errors import StoreError
from glideslope.store.victoria import Series, Victoria, quote

_NUMBERS = itertools.count()
HOSTILE = 'quote " backslash \\ newline \n brace {x="y"} snow ☃'


@pytest.fixture
def victoria(victoria_url: str) -> Iterator[Victoria]:
    with Victoria(victoria_url, timeout_s=10) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"test_metric_{next(_NUMBERS)}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_what_is_imported_is_exported_as_it_was(victoria: Victoria, name: str) -> None:
    start = now_ms() - 60_000
    values = (1.5, -2.25, 0.0, math.inf, -math.inf, 1234.56789, 3.0)
    series = Series({"__name__": name, "run_id": HOSTILE}, tuple(start + i for i in range(len(values))), values)
    assert victoria.import_lines([series]) == len(values)
    victoria.flush()
    (stored,) = victoria.export(name)
    assert stored == series


def test_nan_is_stored_as_a_staleness_marker_or_not_at_all(victoria: Victoria, name: str) -> None:
    start = now_ms() - 10_000
    victoria.import_lines([Series({"__name__": name}, (start, start + 1, start + 2), (1.0, math.nan, 2.0))])
    victoria.flush()
    (stored,) = victoria.export(name)
    assert [value for value in stored.values if not math.isnan(value)] == [1.0, 2.0]


def test_a_large_series_comes_in_pieces_and_whole(victoria: Victoria, name: str) -> None:
    start = now_ms() - 200_000
    total = 50_000
    series = Series({"__name__": name}, tuple(range(start, start + total)), tuple(float(i) for i in range(total)))
    assert victoria.import_lines([series]) == total
    victoria.flush()
    pieces = list(victoria.export(name, max_rows_per_line=7_000))
    assert len(pieces) > 1
    assert [value for piece in pieces for value in piece.values] == list(series.values)
    halfway = next(iter(victoria.export(name, max_rows_per_line=7_000)))
    assert len(halfway) <= 7_000


def test_the_export_keeps_to_the_time_range(victoria: Victoria, name: str) -> None:
    start = (now_ms() // 1000 - 100) * 1000
    victoria.import_lines([Series({"__name__": name}, tuple(start + 1000 * i for i in range(5)), (0.0, 1, 2, 3, 4))])
    victoria.flush()
    (stored,) = victoria.export(name, start_s=start / 1000 + 1, end_s=start / 1000 + 3)
    assert stored.values == (1.0, 2.0, 3.0)


def test_the_export_holds_the_newest_sample_at_once(victoria: Victoria, name: str) -> None:
    # The last millisecond of a second: an end that is cut to whole seconds would lie before it.
    at = now_ms() // 1000 * 1000 + 999
    victoria.import_lines([Series({"__name__": name}, (at,), (1.0,))])
    victoria.flush()
    assert [series.timestamps_ms for series in victoria.export(name)] == [(at,)]


def test_an_instant_query_sees_the_newest_sample_at_once(victoria: Victoria, name: str) -> None:
    at = now_ms() - 100
    victoria.import_lines([Series({"__name__": name, "rank": "0"}, (at,), (42.5,))])
    victoria.flush()
    (sample,) = victoria.query(f'{name}{{rank="0"}}')
    assert (sample.value, sample.labels) == (42.5, {"__name__": name, "rank": "0"})
    assert victoria.query(f"{name} > 100") == []


def test_scalars_come_without_labels(victoria: Victoria) -> None:
    (sample,) = victoria.query("1 + 1", time_s=1_700_000_000.0)
    assert (sample.labels, sample.time_s, sample.value) == ({}, 1_700_000_000.0, 2.0)


def test_a_range_query_returns_one_point_for_each_step(victoria: Victoria, name: str) -> None:
    start = now_ms() // 1000 - 100
    stamps = tuple(1000 * (start + i) for i in range(10))
    victoria.import_lines([Series({"__name__": name}, stamps, tuple(float(i) for i in range(10)))])
    victoria.flush()
    (series,) = victoria.query_range(name, start, start + 9, 1)
    assert (series.timestamps_ms, series.values) == (stamps, tuple(float(i) for i in range(10)))


def test_series_labels_and_values_are_listed(victoria: Victoria, name: str) -> None:
    at = now_ms() - 1000
    victoria.import_lines([Series({"__name__": name, "layer": layer}, (at,), (1.0,)) for layer in ("a", "b")])
    victoria.flush()
    assert sorted(labels["layer"] for labels in victoria.series(name)) == ["a", "b"]
    assert victoria.label_values("layer", name) == ["a", "b"]
    assert victoria.labels(name) == ["__name__", "layer"]
    assert len(victoria.series([f'{name}{{layer="a"}}', f'{name}{{layer="b"}}'], limit=1)) == 1


def test_quoting_makes_any_label_value_safe(victoria: Victoria, name: str) -> None:
    victoria.import_lines([Series({"__name__": name, "run_id": HOSTILE}, (now_ms(),), (7.0,))])
    victoria.flush()
    (sample,) = victoria.query(f"{name}{{run_id={quote(HOSTILE)}}}")
    assert sample.labels["run_id"] == HOSTILE


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("identity", bytes), ("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_an_otlp_body_is_stored_under_its_prometheus_name(victoria: Victoria, encoding: str, pack: type[bytes]) -> None:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name=f"otlp.{encoding}.time", unit="s")
    metric.gauge.data_points.add(time_unix_nano=time.time_ns(), as_double=0.5)
    victoria.write_otlp(pack(message.SerializeToString()), encoding=encoding)
    victoria.flush()
    (sample,) = victoria.query(f"otlp_{encoding}_time_seconds")
    assert sample.value == 0.5


def test_a_malformed_otlp_body_is_refused(victoria: Victoria) -> None:
    with pytest.raises(StoreError, match="status 400"):
        victoria.write_otlp(b"\xff\xff not protobuf")


def test_deleted_series_are_gone(victoria: Victoria, name: str) -> None:
    at = now_ms() - 1000
    victoria.import_lines([Series({"__name__": name, "run_id": run}, (at,), (1.0,)) for run in ("keep", "drop")])
    victoria.flush()
    victoria.delete_series(f'{name}{{run_id="drop"}}')
    assert [series.labels["run_id"] for series in victoria.export(name)] == ["keep"]


@pytest.mark.parametrize("selector", ["", "  ", "{}", []])
def test_deleting_everything_is_refused(victoria: Victoria, selector: str | list[str]) -> None:
    with pytest.raises(StoreError, match="which series"):
        victoria.delete_series(selector)


def test_samples_that_were_silently_ignored_are_counted(victoria: Victoria, name: str) -> None:
    before = victoria.rows_ignored().get("big_timestamp", 0)
    victoria.import_lines([Series({"__name__": name}, (now_ms() + 10 * 86_400_000,), (1.0,))])
    deadline = time.monotonic() + 10
    while victoria.rows_ignored().get("big_timestamp", 0) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert victoria.rows_ignored()["big_timestamp"] == before + 1


def test_a_bad_expression_says_what_is_wrong(victoria: Victoria) -> None:
    with pytest.raises(StoreError, match=r"status 4\d\d.*train_loss"):
        victoria.query("train_loss{")


def test_a_series_without_a_name_is_refused_before_it_is_sent(victoria: Victoria) -> None:
    with pytest.raises(StoreError, match="__name__"):
        victoria.import_lines([Series({"run_id": "r"}, (1,), (1.0,))])


def test_unequal_numbers_of_values_and_timestamps_are_refused(victoria: Victoria, name: str) -> None:
    with pytest.raises(StoreError, match="1 values, 2 timestamps"):
        victoria.import_lines([Series({"__name__": name}, (1, 2), (1.0,))])


def test_health_is_true_for_a_healthy_server(victoria: Victoria) -> None:
    assert victoria.health()


def test_a_server_that_is_down_gives_the_command_that_starts_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Victoria(f"http://127.0.0.1:{port}") as client, pytest.raises(StoreError, match="glideslope up"):
        client.health()


def test_a_server_that_never_answers_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Victoria(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
        with client, pytest.raises(StoreError, match="in time"):
            client.query("up")


def test_a_url_without_scheme_is_refused() -> None:
    with pytest.raises(StoreError, match="no URL"):
        Victoria("localhost:8428")


def test_another_program_on_the_port_is_recognised(logs_url: str) -> None:
    with Victoria(logs_url) as client, pytest.raises(StoreError):
        client.query("up")
