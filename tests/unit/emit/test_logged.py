# SPDX-License-Identifier: Apache-2.0
"""What people log by name: N values in are N values out, whatever the names, the numbers and the budget."""

import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from glideslope.emit import RequestEncoder, frames
from glideslope.events import Heartbeat, LayerStats, MetricsLogged

START = 1_800_000_000_000_000_000
MS = 1_000_000


def logged(time_ns, step, values, **more):
    return MetricsLogged(time_ns, step, tuple(values), tuple(values.values()), **more)


def test_logged_metrics_keep_hostile_names_apart(kit):
    names = ["eval/loss", "a\nb", "a\x00b", "x" * 20_000, "", 'q"{}', "\ud800"]
    kit.write(logged(START, 1.0, {name: float(i) for i, name in enumerate(names)}))
    kit.write(logged(START, 2.0, {"eval/loss": 9.0}))
    found = kit.points("train.metric")
    assert len({p.attributes["metric.name"] for p in found}) == len(names)
    assert kit.series("train.metric", metric_name="eval/loss") == [0.0, 9.0]
    assert sorted(p.value for p in found) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0]


def test_a_non_finite_logged_value_is_counted_and_named_once(kit, step):
    for number in range(3):
        kit.write(logged(START, number, {"a": math.nan, "b": 1.0}))
    kit.write(logged(START, 3, {"a": 1.0}))
    kit.write(logged(START, 4, {"a": math.inf}))
    kit.write(step(1))
    assert [r.body.string_value for r in kit.records()] == ["not finite at step 0: a", "not finite at step 4: a"]
    assert kit.series("train.nonfinite", what="metric") == [0, 1, 2, 3, 4]
    assert kit.series("train.metric", metric_name="a") == [1.0]


def test_series_beyond_the_budget_are_counted(make_kit):
    kit = make_kit(series_budget=10)
    kit.write(LayerStats(1, START, "grad", tuple("abcdefgh"), ("norm",), np.ones((8, 1))))
    for number in range(2):
        kit.write(logged(START, number, {"p": 1.0, "q": 1.0, "r": 1.0}))
    assert len(kit.points()) == 8 + 4
    assert kit.writer.dropped == {("metrics", "budget"): 2}


@pytest.mark.parametrize("count", [1, 5, 63, 64, 500])
@pytest.mark.parametrize("make", [tuple, list, np.array])
@pytest.mark.parametrize("timed", [False, True])
def test_lists_and_arrays_of_any_length_come_back(kit, count, make, timed):
    names = tuple(f"m{i}" for i in range(count))
    kit.write(logged(START, 0, {"other": 1.0}))
    for number in range(3):
        values = make([number + i / 3 for i in range(count)])
        kit.write(MetricsLogged(START + number * MS, number, names, values, timed))
    for i in (0, count // 2, count - 1):
        assert kit.series("train.metric", metric_name=f"m{i}") == [number + i / 3 for number in range(3)]
    assert {p.time_ns for p in kit.points("train.metric")} == {START, START + MS, START + 2 * MS}


def test_sets_of_names_are_found_by_identity_and_by_equality(kit):
    names = ("a", "b")
    for number in range(300):
        kit.write(MetricsLogged(START + number * MS, number, names, (1.0, float(number))))
        kit.write(MetricsLogged(START + number * MS, number, tuple("ab"), (2.0, 0.0)))
        kit.write(MetricsLogged(START + number * MS, number, (f"c{number % 100}",), (3.0,)))
    assert len(kit.series("train.metric", metric_name="b")) == 600
    assert len(kit.points("train.metric")) == 1500
    assert len({p.attributes["metric.name"] for p in kit.points("train.metric")}) == 102
    assert len(kit.writer._logged._by_identity) == len(kit.writer._logged._sets) == 101


def test_a_name_that_occurs_twice_in_a_set_keeps_both_values(kit):
    kit.write(MetricsLogged(START, 1, ("a", "b", "a"), (1.0, 2.0, 3.0)))
    assert kit.series("train.metric", metric_name="a") == [1.0, 3.0]
    assert len({p.time_ns for p in kit.points() if p.attributes["metric.name"] == "a"}) == 2


def test_values_that_do_not_fit_the_names_are_refused(kit):
    with pytest.raises(ValueError, match="one value per name"):
        kit.write(MetricsLogged(START, 1, ("a", "b"), (1.0,)))


def test_a_preview_is_not_a_committed_value(kit):
    kit.write(logged(START, 1, {"acc": 0.5, "f1": 0.25}, preview=0.5))
    kit.write(logged(START + MS, 1, {"acc": 0.6, "f1": math.nan}, preview=1.0))
    kit.write(logged(START + 2 * MS, 1, {"acc": 0.7}))
    assert kit.series("train.metric.preview", metric_name="acc") == [0.5, 0.6]
    assert kit.series("train.metric.preview", metric_name="f1") == [0.25]
    assert kit.series("train.metric.preview.completion", metric_name="acc") == [0.5, 1.0]
    assert kit.series("train.metric.preview.completion", metric_name="f1") == [0.5]
    assert kit.series("train.metric") == [0.7]


def test_the_same_names_may_be_committed_and_previewed_by_turns(kit):
    names = ("acc",)
    for number in range(3):
        kit.write(MetricsLogged(START + number * MS, number, names, (0.5,), preview=0.1))
        kit.write(MetricsLogged(START + number * MS, number, names, (0.75,)))
    assert kit.series("train.metric") == [0.75] * 3
    assert kit.series("train.metric.preview") == [0.5] * 3


@pytest.mark.parametrize("values", [(math.nan, 1.0), (math.inf, -math.inf), (1e308, 1e308)])
@pytest.mark.parametrize("make", [tuple, np.array])
def test_no_non_finite_value_slips_through_and_no_large_one_is_taken_for_one(kit, values, make):
    kit.write(MetricsLogged(START, 1, ("a", "b"), make(values)))
    good = [value for value in values if math.isfinite(value)]
    assert kit.series("train.metric") == good
    assert len(kit.records()) == (len(good) < 2)


@pytest.mark.parametrize(("step", "carried"), [(2.5, 2.5), (7.0, 7), (3, 3), (-1.25, -1.25)])
def test_the_event_of_a_non_finite_value_names_metric_and_step(kit, step, carried):
    kit.write(logged(START, step, {"eval/loss": math.nan, "b": 1.0}))
    (record,) = kit.records()
    marks = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in record.attributes}
    assert marks == {"what": "metric", "metric.name": "eval/loss", "train.step": carried}
    assert type(marks["train.step"]) is type(carried)
    assert bool(record.trace_id) == isinstance(carried, int)
    assert record.body.string_value == f"not finite at step {step:g}: eval/loss"
    # A process that completes no step sends the count all the same, at once and with each heartbeat.
    kit.write(Heartbeat(START + 100 * MS, 0))
    assert kit.series("train.nonfinite", what="metric") == [0, 1, 1]


def test_overflow_is_said_once_for_each_first_part_of_a_name(make_kit):
    told: list[str] = []
    kit = make_kit(series_budget=3, say=told.append)
    kit.write(logged(START, 1, {"a": 1.0, "b": 1.0, "c": 1.0}))
    for number in range(1000):
        kit.write(logged(START, 1, {f"eval/sample{number}": 1.0, "a": float(number)}))
        kit.write(logged(START, 1, {f"debug/{number}": 1.0}))
    kit.write(LayerStats(1, START, "grad", ("x",), ("norm",), np.ones((1, 1))))
    said = [
        {a.key: a.value.string_value for a in record.attributes}
        for record in kit.records()
        if record.event_name == "train.telemetry.overflow"
    ]
    assert said == [
        {"drop.class": "metrics", "metric.name": "eval/sample0"},
        {"drop.class": "metrics", "metric.name": "debug/0"},
        {"drop.class": "layers", "metric.name": "train.layer/grad"},
    ]
    assert "GLIDESLOPE_SERIES_BUDGET" in kit.records()[0].body.string_value
    # To people once in all.
    assert len(told) == 1
    assert "eval/sample0 found no room" in told[0]
    assert kit.writer.dropped == {("metrics", "budget"): 2000, ("layers", "budget"): 1}
    assert len(kit.series("train.metric", metric_name="a")) == 1001
    # What glideslope says about itself is not part of the budget.
    kit.write(Heartbeat(START, 1))
    assert kit.series("train.telemetry.drops", drop_class="metrics", drop_reason="budget") == [0, 2000]


def test_a_million_random_names_cost_no_memory(make_kit):
    kit = make_kit(series_budget=100)
    kept = kit.frames
    for number in range(2000):
        kit.write(logged(START, 1, {f"{number:x}": 1.0}))
    written = len(kept)

    def log(first, last):
        for number in range(first, last):
            kit.write(MetricsLogged(START, 1, (f"{number * 2654435761 % 2**32:x}/x",), (1.0,)))

    log(0, 900_000)
    # Tracing makes each call ten times slower; what leaks, leaks in the last ones too.
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    log(900_000, 1_000_000)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000
    assert peak - before < 200_000
    assert kit.writer.dropped["metrics", "budget"] == 1_000_000 + 1900
    assert len([k for k, _ in kept[written:] if frames.frame_type(k) == frames.RECORDS]) <= 16


def test_names_without_end_within_the_budget_come_back_one_by_one(kit):
    for number in range(5000):
        kit.write(logged(START, 1, {f"x{number}": float(number)}))
    found = {p.attributes["metric.name"]: p.value for p in kit.points("train.metric")}
    assert found == {f"x{number}": float(number) for number in range(5000)}


def test_names_that_look_like_the_safe_form_of_others_stay_apart(kit):
    kit.write(logged(START, 1, {"a\nb": 1.0}))
    (made,) = {p.attributes["metric.name"] for p in kit.points("train.metric")}
    kit.write(logged(START, 2, {made: 2.0, "(empty)": 3.0}))
    kit.write(logged(START, 3, {"": 4.0}))
    assert len({p.attributes["metric.name"] for p in kit.points("train.metric")}) == 4
    assert sorted(p.value for p in kit.points("train.metric")) == [1.0, 2.0, 3.0, 4.0]


LONG = "x" * 20_000
NASTY = ['q"', "a\nb", "a\x00b", "\u202eb", "\ud800", LONG, LONG + "y", "", "(empty)", "é" * 600, "\x7f"]
NAMES = some.one_of(
    some.sampled_from(NASTY),
    some.text(max_size=20),
    some.text(some.characters(categories=["Cc", "Cf", "Cs", "Zl", "Co"]), max_size=8),
    some.binary(max_size=8).map(lambda data: data.decode("utf-8", "surrogateescape")),
)
VALUES = some.one_of(
    some.floats(allow_nan=False, allow_infinity=False),
    some.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1.7976931348623157e308, 1e-45]),
    some.floats(width=32, allow_nan=False, allow_infinity=False),
)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(some.lists(some.dictionaries(NAMES, VALUES, min_size=1, max_size=20), min_size=1, max_size=5))
def test_any_names_and_values_come_back_bit_by_bit(make_kit_once, rows):
    kit = make_kit_once()
    for number, row in enumerate(rows):
        kit.write(logged(START + number * MS, number, row))
    found = [p for p in kit.points() if p.name == "train.metric"]
    names = {name for row in rows for name in row}
    assert len(found) == sum(map(len, rows))
    labels = {p.attributes["metric.name"] for p in found}
    assert len(labels) == len(names)
    for label in labels:
        assert len(label.encode()) <= 1024
        assert not set(label) & set("\n\r\t\x00\x7f\u202e\u2028")
    sent = sorted((number, struct.pack("<d", v)) for number, row in enumerate(rows) for v in row.values())
    assert sorted(((p.time_ns - START) // MS, struct.pack("<d", p.value)) for p in found) == sent
    by_label: dict[str, list[tuple[int, bytes]]] = {label: [] for label in labels}
    for p in found:
        by_label[p.attributes["metric.name"]].append(((p.time_ns - START) // MS, struct.pack("<d", p.value)))
    own = [[(number, struct.pack("<d", row[name])) for number, row in enumerate(rows) if name in row] for name in names]
    assert sorted(map(sorted, by_label.values())) == sorted(own)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(some.lists(NAMES, min_size=1, max_size=30, unique=True), some.integers(1, 29))
def test_a_block_grows_without_encoding_its_old_series_again(make_kit_once, names, first):
    kit, encoder = make_kit_once(), RequestEncoder()
    kit.write(MetricsLogged(START, 1, tuple(names[:first]), [1.0] * len(names[:first])))
    encoder(kit.frames)
    (block,) = [b for b in encoder._blocks.values() if len(b)]
    old = list(block._points)
    kit.write(MetricsLogged(START + MS, 2, tuple(names), [2.0] * len(names)))
    encoder(kit.frames)
    assert len(block) == len(names)
    assert all(one is other for one, other in zip(old, block._points, strict=False))


def test_ten_thousand_series_of_many_steps_come_back_exactly(make_kit, read_points):
    kit, rng = make_kit(), np.random.default_rng(0)
    names, steps = tuple(f"group{i % 7}/metric{i}" for i in range(10_000)), 12
    values = rng.standard_normal((steps, 10_000)) * 10.0 ** rng.integers(-300, 300, (steps, 10_000))
    values[::2] = rng.standard_normal((steps // 2, 10_000)).astype(np.float32)
    for step in range(steps):
        kit.write(MetricsLogged(START + step * MS, step, names, values[step].tolist() if step % 3 else values[step]))
    position, found = {name: i for i, name in enumerate(names)}, np.full((steps, 10_000), np.nan)
    encoder, total = RequestEncoder(), 0
    for frame in range(0, len(kit.frames), 5):
        for point in read_points(encoder(kit.frames[frame : frame + 5])):
            total += 1
            found[(point.time_ns - START) // MS, position[point.attributes["metric.name"]]] = point.value
    assert total == steps * 10_000
    assert (found.view(np.uint64) == values.view(np.uint64)).all()
