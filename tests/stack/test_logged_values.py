# SPDX-License-Identifier: Apache-2.0
"""What people log, as a real VictoriaMetrics stores it: values, times, previews, histograms, tags, rounding."""

import math
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import numpy as np
import pytest

from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import Heartbeat, HistogramLogged, LayerStats, MetricsLogged, TagsChanged
from glideslope.store.victoria import Victoria, quote

MS = 1_000_000
RUNS = count()


class Logger:
    """A writer whose frames go to VictoriaMetrics as requests of many steps."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.url, self.run = url, f"run-{next(RUNS)}"
        resource = {"service.name": "t", "run.id": self.run, "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
        self.frames: list[tuple[int, bytes]] = []
        self.writer = EventWriter(resource, lambda kind, payload: self.frames.append((kind, payload)), **settings)
        self.write, self.end = self.writer.write, self.writer.end

    def send(self, times: int = 1) -> None:
        requests = [r for r in RequestEncoder()(self.frames) if r.signal == "metrics"]
        for request in requests * times:
            answer = httpx.post(
                f"{self.url}/opentelemetry/v1/metrics",
                content=request.body,
                headers={"Content-Type": "application/x-protobuf"},
            )
            assert answer.status_code // 100 == 2, answer.text
        with Victoria(self.url) as store:
            store.flush()

    def stored(self, selector: str) -> dict[str, list[tuple[int, float]]]:
        """(ms, value) by the labels that tell the series of the selector apart."""
        start = time.time() - 3600
        with Victoria(self.url) as store:
            found = list(store.export(selector.replace("{", f"{{run_id={quote(self.run)},"), start_s=start))
        return {
            ",".join(
                f"{key}={value}"
                for key, value in sorted(one.labels.items())
                if key in ("le", "metric_name", "histogram_edges", "run_tag", "layer_name")
            ): list(zip(one.timestamps_ms, one.values, strict=True))
            for one in found
        }


@pytest.fixture
def logger(private_stack: Callable[..., Any]) -> Callable[..., Logger]:
    live = private_stack("live").live
    return lambda **settings: Logger(live, **settings)


def test_histograms_of_several_steps_are_stored_exactly_and_can_be_queried(logger: Callable[..., Logger]) -> None:
    log, now = logger(), time.time_ns() // MS * MS - 60_000 * MS
    edges = np.array([-1.0, 0.0, 0.5, 2.0])
    for step in range(5):
        log.write(HistogramLogged(now + step * MS, step, "w", edges, np.array([1.0, 2.0, 3.0 + step]), 4.5 + step))
    log.write(HistogramLogged(now + 5 * MS, 5, "w", edges, np.array([1.0, 1.0, 1.0]), math.nan))
    log.send(times=2)
    at = [now // MS + step for step in range(6)]
    buckets = log.stored("train_histogram_bucket{}")
    last = [6.0, 7.0, 8.0, 9.0, 10.0, 3.0]
    expected = {"-1": [0.0] * 6, "0": [1.0] * 6, "0.5": [3.0] * 5 + [2.0], "2": last, "+Inf": last}
    assert buckets == {f"le={le},metric_name=w": list(zip(at, want, strict=True)) for le, want in expected.items()}
    assert log.stored("train_histogram_count{}") == {"metric_name=w": list(zip(at, last, strict=True))}
    # An unknown sum leaves a gap in the sum alone.
    assert log.stored("train_histogram_sum{}") == {"metric_name=w": [(at[i], 4.5 + i) for i in range(5)]}
    with Victoria(log.url) as store:
        query = f"histogram_quantile(0.5, train_histogram_bucket{{run_id={quote(log.run)}}})"
        (median,) = store.query(query, time_s=(now + 4 * MS) / 1e9)
    assert median.value == pytest.approx(0.5 + 1.5 * 2 / 7)


def test_another_set_of_edges_is_a_series_of_its_own_and_the_end_ends_both(logger: Callable[..., Logger]) -> None:
    log, now = logger(), time.time_ns() - 2_000 * MS
    for edges in ([0.0, 1.0], [0.0, 2.0]):
        log.write(HistogramLogged(now, 1, "w", np.array(edges), np.array([4.0]), 1.0))
    log.end(now + 100 * MS)
    log.send()
    counts = log.stored("train_histogram_count{}")
    assert set(counts) == {"metric_name=w", "histogram_edges=1,metric_name=w"}
    for samples in counts.values():
        assert samples[0][1] == 4.0
        assert math.isnan(samples[-1][1])
    with Victoria(log.url) as store:
        assert store.query(f"train_histogram_bucket{{run_id={quote(log.run)}}}") == []


def test_previews_stay_apart_from_committed_values(logger: Callable[..., Logger]) -> None:
    log, now = logger(), time.time_ns() // MS * MS - 5_000 * MS
    log.write(MetricsLogged(now, 1, ("eval/acc",), (0.5,), preview=0.25))
    log.write(MetricsLogged(now + MS, 1, ("eval/acc",), (0.75,)))
    log.send()
    assert log.stored("train_metric_preview{}") == {"metric_name=eval/acc": [(now // MS, 0.5)]}
    assert log.stored("train_metric_preview_completion{}") == {"metric_name=eval/acc": [(now // MS, 0.25)]}
    assert log.stored("train_metric{}") == {"metric_name=eval/acc": [(now // MS + 1, 0.75)]}


def test_many_given_values_of_one_second_are_all_stored_once_however_often_they_are_uploaded(
    logger: Callable[..., Logger],
) -> None:
    log, second = logger(), (time.time_ns() // 1_000_000_000 - 60) * 1_000_000_000
    for number in range(3000):
        log.write(MetricsLogged(second + number // 1500 * 1_000_000_000, number, ("x",), (float(number),), timed=True))
    log.send(times=2)
    ((_, samples),) = log.stored("train_metric{}").items()
    assert [value for _, value in samples] == [float(n) for n in range(3000)]
    assert samples[0][0] == second // MS


def test_a_tag_is_seen_until_it_is_removed(logger: Callable[..., Logger]) -> None:
    log, now = logger(), time.time_ns() - 10_000 * MS
    log.write(TagsChanged(now, ("a", "b")))
    log.write(Heartbeat(now, 1))
    log.write(TagsChanged(now + 1000 * MS, (), ("a",)))
    log.write(Heartbeat(now + 2000 * MS, 2))
    log.send()
    with Victoria(log.url) as store:
        found = store.query(f"train_run_tag{{run_id={quote(log.run)}}}")
    assert [(sample.labels["run_tag"], sample.value) for sample in found] == [("b", 1.0)]


def test_four_digits_of_layer_statistics_arrive_as_four_digits(logger: Callable[..., Logger]) -> None:
    log, now = logger(layer_digits=4), time.time_ns() // MS * MS - 5_000 * MS
    values = np.array([[1 / 3], [2e-7 / 3], [123456.0], [98765.4321]])
    log.write(LayerStats(1, now, "grad", ("a", "b", "c", "d"), ("norm",), values))
    log.send()
    stored = {name: samples[0][1] for name, samples in log.stored("train_layer{}").items()}
    assert stored == {"layer_name=a": 0.3333, "layer_name=b": 6.667e-8, "layer_name=c": 123456.0, "layer_name=d": 98770}
