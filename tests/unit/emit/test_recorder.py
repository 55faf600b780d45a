# SPDX-License-Identifier: Apache-2.0
"""Events become the series, spans and logs that the registry names, with exact values and times."""

import math
import os
import threading
import time

import numpy as np
import pytest

from glideslope import semconv
from glideslope.emit import EventWriter, KeepRule
from glideslope.emit.ids import chosen, trace_id
from glideslope.errors import ConfigError, SemconvError
from glideslope.events import (
    ConfigLogged,
    Happened,
    Heartbeat,
    HistogramLogged,
    LayerStats,
    MetricsLogged,
    Phase,
    Severity,
    StepDone,
    TagsChanged,
    TextLogged,
)

START = 1_800_000_000_000_000_000
MS = 1_000_000


def logged(time_ns, step, values, **more):
    return MetricsLogged(time_ns, step, tuple(values), tuple(values.values()), **more)


def everything(kit, step):
    phases = (Phase("data", START, START + 10), Phase("forward", START + 10, START + 30))
    memory = {"train.memory.allocated": 5, "train.memory.retries": 2, "process.memory.usage": 9}
    for number in range(1, 6):
        kit.write(
            step(
                number,
                lrs=(0.1, 0.2),
                grad_norm=2.0,
                grad_norm_clipped=1.0,
                tokens=10,
                samples=2,
                phases=phases,
                memory=memory,
            )
        )
    kit.write(
        LayerStats(5, START, "grad", ("a.weight", "b.weight"), ("norm", "max"), np.array([[1.0, 2.0], [3.0, 4.0]]))
    )
    kit.write(logged(START, 2.5, {"eval/loss": 0.25}))
    kit.write(logged(START, 2.5, {"eval/loss": 0.5}, preview=0.25))
    for edges in ([0.0, 1.0], [0.0, 2.0]):
        kit.write(HistogramLogged(START, 3.0, "w", np.array(edges), np.array([4.0]), 1.0, nonfinite=1))
    kit.write(TextLogged(START, 1, "samples", "Once upon a time"))
    kit.write(ConfigLogged(START, {"model/width": 8}))
    kit.write(TagsChanged(START, ("baseline",), ("old",)))
    kit.write(Heartbeat(START, 5, 1, 0.5, 7, 3, 0.01, {("layers", "quota"): 4}, {"hook": 2}))
    kit.write(Happened("train.run.start", START, "begun", step=1, attributes={"dist.world_size": 2}))


def test_every_name_and_attribute_on_the_wire_is_in_the_registry(kit, step):
    everything(kit, step)
    seen = kit.points()
    assert len({p.name for p in seen}) > 20
    for point in seen:
        entry = semconv.metric(point.name)
        assert set(point.attributes) <= set(entry.attributes)
        assert point.kind == {"gauge": "gauge", "counter": "sum", "histogram": "histogram"}[entry.instrument]
        assert set(point.resource) == {"service.name", "run.id", "run.attempt", "dist.rank", "host.name"}
    assert {span.name for span in kit.spans()} <= set(semconv.registry()["spans"])
    assert {record.event_name for record in kit.records()} <= set(semconv.event_names())
    assert {pair.key for record in kit.records() for pair in record.attributes} <= set(semconv.attribute_names())


def test_each_step_s_values_come_back_with_the_step_s_own_time(kit, step):
    for number in range(1, 101):
        kit.write(step(number, lrs=(1e-3 * number,), grad_norm=number / 3))
    loss = kit.points("train.loss")
    assert [p.value for p in loss] == [1.0 / n for n in range(1, 101)]
    assert [p.time_ns for p in loss] == [START + n * 100 * MS for n in range(1, 101)]
    assert kit.series("train.lr", optim_group=0) == [1e-3 * n for n in range(1, 101)]
    assert kit.series("train.step") == list(range(1, 101))
    assert kit.series("train.grad.norm") == [n / 3 for n in range(1, 101)]
    assert kit.series("train.grad.norm.clipped") == []


def test_steps_within_one_millisecond_stay_apart(kit, step):
    for number in range(1, 11):
        kit.write(step(number, end_ns=START + number))
    assert [p.time_ns // MS for p in kit.points("train.loss")] == [START // MS + n for n in range(10)]
    assert all(p.time_ns % MS == 0 for p in kit.points())


def test_a_clock_that_jumps_back_doubles_no_sample(kit, step):
    for number in range(1, 5):
        kit.write(step(number, end_ns=START - number * 3600 * 1000 * MS))
    times = [p.time_ns for p in kit.points("train.loss")]
    assert times == sorted(set(times))
    assert len(times) == 4


def test_the_first_non_finite_step_is_visible_to_increase(kit, step):
    kit.write(step(1, loss=math.nan))
    kit.write(step(2))
    assert kit.series("train.nonfinite", what="loss") == [0, 1, 1]
    assert kit.series("train.nonfinite", what="grad.norm") == [0, 0]
    assert kit.series("train.loss") == [0.5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_values_are_counted_and_said_once_a_streak(kit, step, value):
    for number in range(1, 8):
        kit.write(step(number, loss=value if number in (3, 4, 6) else 1.0))
    assert kit.series("train.nonfinite", what="loss")[-1] == 3
    said = [(r.event_name, r.body.string_value) for r in kit.records()]
    assert said == [("train.nonfinite", f"loss is {value} at step {n}") for n in (3, 6)]
    assert len(kit.series("train.loss")) == 4


def test_tokens_and_samples_add_up(kit, step):
    for number in range(1, 4):
        kit.write(step(number, tokens=10, samples=2))
    # A counter is born at zero, one millisecond before its first value.
    assert kit.series("train.tokens") == [0, 10, 20, 30]
    assert kit.series("train.samples") == [0, 2, 4, 6]
    assert {p.start_ns for p in kit.points("train.tokens")} == {START}


def test_a_phase_that_occurs_twice_is_added_up(kit, step):
    kit.write(step(1, phases=(Phase("forward", 0, 10), Phase("backward", 10, 15), Phase("forward", 15, 35))))
    assert kit.series("train.phase.duration", phase="forward") == [30e-9]
    assert kit.series("train.phase.duration", phase="backward") == [5e-9]


def test_layer_statistics_come_back_by_layer_and_stat(kit):
    layers, values = tuple(f"blocks.{i}.w" for i in range(100)), np.random.default_rng(0).standard_normal((100, 2))
    for number in range(3):
        kit.write(LayerStats(number, START + number * MS, "grad", layers, ("norm", "max"), values + number))
    for index in (0, 57, 99):
        labels = {"layer_name": layers[index], "layer_index": index, "tensor_kind": "grad"}
        assert kit.series("train.layer", **labels, stat="norm") == [values[index, 0] + n for n in range(3)]
        assert kit.series("train.layer", **labels, stat="max") == [values[index, 1] + n for n in range(3)]


def test_layers_that_change_keep_their_series(kit):
    kit.write(LayerStats(1, START, "grad", ("a", "b"), ("norm",), np.array([[1.0], [2.0]])))
    kit.write(LayerStats(2, START, "grad", ("b", "c"), ("norm",), np.array([[3.0], [math.nan]])))
    kit.write(LayerStats(3, START, "param", ("a",), ("norm",), np.array([[9.0]])))
    assert kit.series("train.layer", layer_name="a", tensor_kind="grad") == [1.0]
    assert kit.series("train.layer", layer_name="b") == [2.0, 3.0]
    assert kit.series("train.layer", layer_name="c") == []
    assert kit.series("train.layer", tensor_kind="param") == [9.0]


def test_layer_values_of_the_wrong_shape_are_refused(kit):
    with pytest.raises(ValueError, match="2 layers x 1 stats"):
        kit.write(LayerStats(1, START, "grad", ("a", "b"), ("norm",), np.zeros((3, 1))))


def test_infinite_layer_values_are_counted(kit, step):
    kit.write(step(1))
    kit.write(LayerStats(1, START, "grad", ("a", "b"), ("norm",), np.array([[math.inf], [2.0]])))
    kit.write(step(2))
    assert kit.series("train.nonfinite", what="grad") == [0, 1]


def test_a_heartbeat_carries_info_and_self_telemetry(kit):
    kit.write(Heartbeat(START, 5, 11, 0.5, 7, 3, 0.01, {("layers", "quota"): 4}, {"hook": 2}))
    kit.write(Heartbeat(START + 5000 * MS, 5, 0, 0.0, 9, 3, 0.02, {("layers", "quota"): 4}, {"hook": 2}))
    assert kit.series("train.heartbeat") == [START / 1e9, START / 1e9 + 5]
    assert kit.series("train.telemetry.queue") == [11, 0]
    assert kit.series("train.telemetry.points") == [0, 7, 9]
    assert kit.series("train.telemetry.drops", drop_class="layers", drop_reason="quota") == [0, 4, 4]
    assert kit.series("train.telemetry.errors", callback="hook") == [0, 2, 2]
    assert kit.series("train.run.info", run_name="first") == [1, 1]
    assert [p.attributes for p in kit.points("train.attempt.info")] == [{"dist.world_size": 2}] * 2
    info = kit.points("train.rank.info")[0].attributes
    assert info == {"dist.local_rank": 0, "hw.id": "GPU-1", "process.pid": 7}


def test_a_gpu_that_is_known_later_than_the_rank_takes_over_its_info_series(kit):
    frames: list[tuple[int, bytes]] = []
    resource = {key: value for key, value in kit.resource.items() if key != "hw.id"}
    writer = EventWriter(resource, lambda kind, payload: frames.append((kind, payload)), start_ns=START)
    for number, gpu in enumerate(("", "GPU-7", "GPU-7")):
        writer.write(Heartbeat(START + number * 5000 * MS, 1, gpu=gpu))
    info = [p for p in kit.read(frames) if p.name == "train.rank.info"]
    assert [("hw.id" in p.attributes, p.ended) for p in sorted(info, key=lambda p: p.time_ns)] == [
        (False, False),
        (False, True),
        (True, False),
        (True, False),
    ]


def test_the_end_marks_every_series_and_stops_metrics_but_not_events(kit, step):
    everything(kit, step)
    before = {(p.name, tuple(sorted(p.attributes.items()))) for p in kit.points()}
    kit.end(START)
    kit.end(START)
    kit.write(step(9))
    kit.write(Heartbeat(START, 9))
    kit.write(Happened("train.run.end", START, "over"))
    ended = [(p.name, tuple(sorted(p.attributes.items()))) for p in kit.points() if p.ended]
    assert len(ended) == len(set(ended))
    assert set(ended) == before
    assert [r.event_name for r in kit.records()][-2:] == ["train.run.start", "train.run.end"]


def test_all_ranks_share_a_step_s_trace(make_kit, step):
    kits = [make_kit({"dist.rank": rank}) for rank in range(2)]
    for kit in kits:
        kit.write(step(7, phases=(Phase("data", START, START + 5), Phase("forward", START + 5, START + 9))))
    spans = [span for kit in kits for span in kit.spans()]
    assert {span.trace_id for span in spans} == {trace_id("r1", 0, 7)}
    assert len({span.span_id for span in spans}) == len(spans) == 7
    roots = [span for span in spans if span.name == "train.step.root"]
    steps = [span for span in spans if span.name == "train.step"]
    assert len(roots) == 1
    assert roots[0].parent_span_id == b""
    assert {span.parent_span_id for span in steps} == {roots[0].span_id}
    phases = [span for span in spans if span.name in ("data", "forward")]
    assert {span.parent_span_id for span in phases} == {span.span_id for span in steps}


def test_an_event_points_at_the_trace_of_its_step(kit):
    kit.write(Happened("train.run.end", START, "over\n", Severity.ERROR, 7, {"exit.state": "failed", "error.type": ""}))
    record = kit.records()[0]
    assert record.trace_id == trace_id("r1", 0, 7)
    assert (record.severity_text, record.body.string_value) == ("ERROR", "over\n")
    assert {pair.key: pair.value.WhichOneof("value") for pair in record.attributes} == {
        "exit.state": "string_value",
        "train.step": "int_value",
    }


def kept(kit):
    return [
        pair.value.int_value
        for s in kit.spans()
        if s.name == "train.step"
        for pair in s.attributes
        if pair.key == "train.step"
    ]


def test_first_sampled_slow_and_non_finite_steps_are_kept(make_kit, step):
    kit = make_kit(keep=KeepRule(first=3, every=50))
    for number in range(1, 400):
        more = {"loss": math.nan} if number == 300 else {}
        kit.write(step(number, took_ms=500 if number == 200 else 100 + number % 5, **more))
    sampled = {n for n in range(1, 400) if chosen("r1", 0, n, 50)}
    assert set(kept(kit)) == {1, 2, 3, 200, 297, 298, 299, 300} | sampled
    assert len(kept(kit)) == len(set(kept(kit)))
    assert 3 <= len(sampled) <= 20


def test_only_the_first_steps_are_kept_when_sampling_is_off(make_kit, step):
    kit = make_kit(keep=KeepRule(first=0, every=0))
    for number in range(1, 100):
        kit.write(step(number))
    assert kept(kit) == []


def test_names_that_the_registry_lacks_are_refused(kit):
    with pytest.raises(SemconvError, match="add it there first"):
        kit.write(Happened("train.unheard.of", START, ""))
    with pytest.raises(SemconvError, match="colour"):
        kit.write(Happened("train.run.start", START, "", attributes={"colour": "red"}))
    with pytest.raises(SemconvError, match="train.memory.unheard"):
        kit.write(StepDone(1, START, START + 1, memory={"train.memory.unheard": 1}))


def test_a_resource_without_a_rank_is_refused(make_kit):
    with pytest.raises(ConfigError, match="dist.rank"):
        type(make_kit().writer)({"service.name": "x", "run.id": "r", "run.attempt": 0, "host.name": "h"}, print)


def test_many_threads_lose_nothing(kit, step):
    def log(thread):
        for number in range(200):
            kit.write(logged(time.time_ns(), number, {f"t{thread}": float(number)}))

    threads = [threading.Thread(target=log, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for thread in range(4):
        assert kit.series("train.metric", metric_name=f"t{thread}") == [float(n) for n in range(200)]


def test_a_forked_child_writes_nothing(kit, step):
    pid = os.fork()
    if pid == 0:
        before = len(kit.frames)
        kit.write(step(1))
        kit.end()
        os._exit(len(kit.frames) - before)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_requests_stay_within_bounds_and_lose_nothing(kit, step, read_points):
    everything(kit, step)
    whole, requests = kit.points(), kit.requests(max_points=3, max_bytes=400)
    assert all(request.points <= 3 for request in requests)
    assert sorted(map(repr, read_points(requests))) == sorted(map(repr, whole))


def test_how_a_rank_ended_stays_visible_when_every_other_series_is_marked_as_ended(kit, step):
    kit.write(step(1))
    attributes = {"exit.state": "failed", "error.type": "RuntimeError"}
    kit.write(Happened("train.run.end", START + MS, "over", Severity.ERROR, 1, attributes))
    kit.end(START + 2 * MS)
    (ending,) = kit.points("train.attempt.end")
    assert ending.attributes == attributes
    assert (ending.value, ending.ended) == ((START + MS) / 1e9, False)
    assert {p.name for p in kit.points() if p.ended} >= {"train.loss", "train.step"}


def test_values_that_capture_dropped_are_counted_each_time_and_told_once(kit):
    attributes = {"drop.class": "metrics", "drop.reason": "backlog"}
    for number in range(3):
        kit.write(
            Happened("train.telemetry.dropped", START + number * MS, "gone", Severity.WARN, attributes=attributes)
        )
    kit.write(Heartbeat(START + 9 * MS, 0))
    assert kit.series("train.telemetry.drops", drop_class="metrics", drop_reason="backlog")[-1] == 3
    assert [record.event_name for record in kit.records()] == ["train.telemetry.dropped"]
