# SPDX-License-Identifier: Apache-2.0
"""Histograms come back from OTLP as they were logged, several steps in one request."""

import math

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA

from glideslope.emit import RequestEncoder
from glideslope.emit.frames import Definition
from glideslope.emit.histogram_block import HistogramBlock
from glideslope.emit.histograms import SETS_PER_NAME
from glideslope.events import HistogramLogged

START = 1_800_000_000_000_000_000
MS = 1_000_000


def histogram(step, name="w", edges=(0.0, 1.0, 2.0), counts=(1.0, 2.0), total=3.0, **more):
    time_ns = more.pop("time_ns", START + int(step) * MS)
    return HistogramLogged(time_ns, step, name, np.array(edges), np.array(counts), total, **more)


def histograms(kit, **bounds):
    """(attributes, point) of all histograms, and the number of requests."""
    found, requests = [], [r for r in kit.requests(**bounds) if r.signal == "metrics"]
    for request in requests:
        message = ExportMetricsServiceRequest.FromString(request.body)
        metrics = [m for r in message.resource_metrics for s in r.scope_metrics for m in s.metrics]
        drawn = [m for m in metrics if m.WhichOneof("data") == "histogram"]
        assert all(m.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA for m in drawn)
        points = [p for m in drawn for p in m.histogram.data_points]
        if len(drawn) == len(metrics):
            assert len(points) == request.points
        for point in points:
            values = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in point.attributes}
            found.append((values, point))
    return found, len(requests)


@pytest.mark.parametrize("seed", range(10))
def test_random_histograms_of_many_steps_come_back_exactly(seed, make_kit):
    rng, kit = np.random.default_rng(seed), make_kit()
    expected = {}
    for number in range(int(rng.integers(1, 5))):
        buckets = int(rng.integers(1, 130))
        edges = np.cumsum(rng.random(buckets + 1) + 1e-6) * 10.0 ** rng.integers(-300, 200) - 3
        edges = np.unique(edges)
        for step in range(int(rng.integers(1, 30))):
            largest = 2 ** int(rng.integers(1, 50))
            counts = rng.integers(0, largest, edges.size - 1).astype(float)
            total = float(rng.standard_normal())
            if edges.size > 1:
                kit.write(histogram(step, f"name{number}", edges, counts, total))
                expected[f"name{number}", START + step * MS] = (edges.tolist(), [0, *counts.tolist(), 0], total)
    bounds = {"max_points": int(rng.integers(1, 50)), "max_bytes": int(rng.integers(500, 50_000))}
    found, _ = histograms(kit, **bounds)
    made = {
        (attributes["metric.name"], p.time_unix_nano): (list(p.explicit_bounds), list(p.bucket_counts), p.sum)
        for attributes, p in found
    }
    assert len(found) == len(made)
    assert made == expected
    assert all(p.count == sum(p.bucket_counts) and not p.flags for _, p in found)


def test_several_steps_share_a_request(kit):
    for step in range(100):
        kit.write(histogram(step))
    found, requests = histograms(kit)
    assert (len(found), requests) == (100, 1)


def test_an_unknown_sum_travels_as_nan_so_that_the_buckets_are_kept(kit):
    kit.write(histogram(1, total=math.nan))
    ((_, point),), _ = histograms(kit)
    assert point.HasField("sum")
    assert math.isnan(point.sum)


def test_a_name_keeps_its_first_edges_and_others_are_series_of_their_own(kit):
    for step in range(3):
        kit.write(histogram(step))
        kit.write(histogram(step, edges=(0.0, 5.0, 9.0)))
    found, _ = histograms(kit)
    assert [a for a, p in found if 5.0 in p.explicit_bounds] == [{"metric.name": "w", "histogram.edges": 1}] * 3
    assert [a for a, p in found if 5.0 not in p.explicit_bounds] == [{"metric.name": "w"}] * 3


def test_more_sets_of_edges_than_eight_are_dropped_counted_and_said_once(kit):
    for number in range(SETS_PER_NAME + 5):
        kit.write(histogram(1, edges=(0.0, 1.0, 2.0 + number)))
    found, _ = histograms(kit)
    assert len(found) == SETS_PER_NAME
    assert kit.writer.dropped == {("metrics", "budget"): 5}
    (record,) = kit.records()
    assert record.event_name == "train.telemetry.overflow"


def test_histograms_use_up_the_series_budget_that_their_buckets_cost(make_kit):
    kit = make_kit(series_budget=10)
    kit.write(histogram(1, "a"))  # three edges, the bucket above all, count and sum
    kit.write(histogram(1, "b"))
    found, _ = histograms(kit)
    assert [attributes["metric.name"] for attributes, _ in found] == ["a"]
    assert kit.writer.dropped == {("metrics", "budget"): 1}


def test_non_finite_values_are_counted_apart_and_said_once_a_streak(kit):
    for step in range(4):
        kit.write(histogram(step, nonfinite=2 if step != 2 else 0))
    assert kit.series("train.nonfinite", what="metric") == [0, 2, 4, 6]
    said = [(r.body.string_value, {a.key for a in r.attributes}) for r in kit.records()]
    keys = {"what", "metric.name", "train.step"}
    assert said == [(f"2 values of w are not finite at step {n}", keys) for n in (0, 3)]


def test_two_histograms_of_one_millisecond_stay_apart_and_given_times_stand(kit):
    for _ in range(3):
        kit.write(histogram(1))
    kit.write(histogram(9, "v", time_ns=START - 5000 * MS, timed=True))
    found, _ = histograms(kit)
    assert [(p.time_unix_nano - START) // MS for _, p in found] == [1, 2, 3, -5000]


def test_the_end_marks_every_histogram_after_its_last_value(kit):
    kit.write(histogram(5))
    kit.write(histogram(5, "v"))
    kit.end(START)
    found, _ = histograms(kit)
    ended = [(a["metric.name"], p.time_unix_nano) for a, p in found if p.flags == 1]
    assert ended == [("w", START + 6 * MS), ("v", START + 6 * MS)]
    kit.write(histogram(6))
    assert len(histograms(kit)[0]) == 4


@pytest.mark.parametrize(
    ("edges", "counts", "message"),
    [
        ((0.0, 1.0), (1.0, 2.0), "one more edge"),
        ((0.0,), (), "one more edge"),
        ((0.0, 0.0), (1.0,), "strictly increase"),
        ((0.0, math.inf), (1.0,), "finite"),
        ((0.0, 1.0), (-1.0,), "0 or more"),
        ((0.0, 1.0), (math.nan,), "finite"),
        ((0.0, 1.0), (2.0**64,), "2\\^63"),
    ],
)
def test_what_is_no_histogram_is_refused(kit, edges, counts, message):
    with pytest.raises(ValueError, match=message):
        kit.write(histogram(1, edges=edges, counts=counts))
    assert histograms(kit)[0] == []


def test_definitions_may_repeat_and_grow(kit):
    kit.write(histogram(1))
    kit.write(histogram(2, "v"))
    encoder = RequestEncoder()
    for _ in range(2):
        requests = [r for r in encoder(kit.frames) if r.signal == "metrics"]
        assert sum(r.points for r in requests) == 2
    (block,) = encoder._histograms.values()
    assert len(block) == 2


def test_a_definition_that_leaves_a_gap_is_refused():
    with pytest.raises(ValueError, match="lacks 1 series before series 1"):
        HistogramBlock(Definition(5, 0, {}, START, ())).extend(Definition(5, 1, {}, START, ()))
