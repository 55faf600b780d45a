# SPDX-License-Identifier: Apache-2.0
"""What a training script calls: values arrive as logged, bad ones are counted and said, nothing is ever raised."""

from __future__ import annotations

import dataclasses
import logging
import math
import pickle
import time
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import glideslope
from glideslope import InvalidValueError, Run
from glideslope.capture.distributions import EDGES
from glideslope.capture.pending import Copied
from glideslope.events import ConfigLogged, Happened, HistogramLogged, MetricsLogged, TagsChanged, TextLogged
from glideslope.run import current
from glideslope.testing import OtlpReceiver


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if type(event) is kind]


def metrics(events: list[Any]) -> list[tuple[float, dict[str, float]]]:
    """(step, values by name) of every call that was recorded."""
    return [
        (event.step, dict(zip(event.names, map(float, event.values), strict=True)))
        for event in of(events, MetricsLogged)
    ]


def dropped(run: Run) -> dict[tuple[str, str], int]:
    """What the next heartbeat says; the event of each cause counts for one."""
    assert run._session is not None
    return {cause: count + 1 for cause, count in run._session._dropped.items()}


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "glideslope")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_dict_and_an_array_are_recorded_with_step_and_time(run: Run, events: list[Any]) -> None:
    before = time.time_ns()
    run.log_metrics({"a": 1, "b": 2.5}, step=3)
    run.log_metrics(np.array([1.0, 2.0]), 3.5, names=("x", "y"))
    run.log_metrics({}, 4)
    assert metrics(events) == [(3, {"a": 1.0, "b": 2.5}), (3.5, {"x": 1.0, "y": 2.0})]
    first = of(events, MetricsLogged)[0]
    assert before <= first.time_ns <= time.time_ns()
    assert (first.timed, first.preview) == (False, None)


def test_steps_may_come_in_any_order_and_the_names_stay_one_object(run: Run, events: list[Any]) -> None:
    for step in (5, 1, 2.5):
        run.log_metrics({"loss": 1.0, "acc": step}, step)
    assert [step for step, _ in metrics(events)] == [5, 1, 2.5]
    assert len({id(event.names) for event in of(events, MetricsLogged)}) == 1


def test_values_arrive_at_the_receiver_under_their_names(run: Run, receiver: OtlpReceiver) -> None:
    run.log_metrics({"eval/loss": 2.31, "train/loss": torch.tensor(0.5)}, step=1200)
    assert run.flush(30)
    found = {point.attributes["metric.name"]: point.value for point in receiver.metrics("train.metric")}
    assert found == {"eval/loss": 2.31, "train/loss": 0.5}
    assert receiver.metrics("train.metric")[0].resource["run.id"] == run.run_id


def test_bad_values_are_counted_and_each_name_and_cause_is_said_once(
    run: Run, events: list[Any], warnings: Any
) -> None:
    for _ in range(3):
        run.log_metrics({"a": None, "b": "x", "c": 1.0, "d": None}, step=1)
    assert metrics(events) == [(1, {"c": 1.0})] * 3
    assert dropped(run) == {("metrics", "bad_value"): 9}
    assert [event.attributes["drop.reason"] for event in of(events, Happened) if "dropped" in event.name] == [
        "bad_value"
    ]
    said = warnings()
    assert len(said) == 3
    assert "'a' is not logged: it is None: leave the name out" in said[0]
    assert "'b' is not logged: it is text: convert it with float()" in said[1]
    assert "'d' is not logged: it is None" in said[2]


def test_flush_tells_once_that_the_disk_refused_values(run: Run, receiver: OtlpReceiver) -> None:
    run.log_metrics({"a": 1.0}, step=1)
    assert run.flush(30) is True
    assert run._session is not None and run._session._shipper is not None
    run._session._shipper._writer.dropped["metrics", "disk"] = 3
    assert run.flush(30) is False
    assert run.flush(30) is True


def test_a_call_without_a_step_is_told_and_raises_nothing(run: Run, warnings: Any) -> None:
    run.log_metrics({"a": 1.0})
    assert dropped(run) == {("metrics", "bad_value"): 1}
    assert "no step was given" in warnings()[0]


def test_drops_travel_with_the_heartbeat(run: Run, receiver: OtlpReceiver) -> None:
    run.log_metrics({"a": None, "b": None}, step=1)
    run.close()
    counts = [
        point.value
        for point in receiver.metrics("train.telemetry.drops")
        if point.attributes == {"drop.class": "metrics", "drop.reason": "bad_value"}
    ]
    assert max(counts) == 2.0


@pytest.mark.parametrize("step", [None, -1, math.nan, math.inf, 2e12, "3", [1]])
def test_a_bad_step_costs_the_values_of_the_call(run: Run, events: list[Any], warnings: Any, step: Any) -> None:
    run.log_metrics({"a": 1.0, "b": 2.0}, step)
    assert metrics(events) == []
    assert dropped(run) == {("metrics", "bad_value"): 2}
    assert "step" in warnings()[0]


@pytest.mark.parametrize(
    "timestamp",
    [1_700_000_000, 1_700_000_000.0, datetime.fromtimestamp(1_700_000_000, UTC), datetime.fromtimestamp(1_700_000_000)],
)
def test_a_time_may_be_given_as_datetime_or_seconds(run: Run, events: list[Any], timestamp: Any) -> None:
    run.log_metrics({"a": 1.0}, 1, timestamp=timestamp)
    (event,) = of(events, MetricsLogged)
    assert (event.time_ns, event.timed) == (1_700_000_000_000_000_000, True)


@pytest.mark.parametrize(
    "timestamp",
    ["yesterday", math.nan, -5, 10, time.time() * 1e3, time.time_ns(), object(), datetime.now() + timedelta(days=3)],
)
def test_a_time_that_the_store_would_drop_is_refused(
    run: Run, events: list[Any], warnings: Any, timestamp: Any
) -> None:
    run.log_metrics({"a": 1.0}, 1, timestamp=timestamp)
    assert metrics(events) == []
    assert "timestamp" in warnings()[0]
    run.log_metrics({"a": 1.0}, 1, timestamp=datetime.now() + timedelta(days=1))
    assert len(metrics(events)) == 1


def test_previews_carry_their_completion(run: Run, events: list[Any], warnings: Any) -> None:
    run.log_metrics({"a": 1.0}, 1, preview=True)
    run.log_metrics({"a": 1.0}, 1, preview=True, preview_completion=0.5)
    assert [event.preview for event in of(events, MetricsLogged)] == [0.0, 0.5]
    for wrong in ({"preview": True, "preview_completion": 2}, {"preview_completion": 0.5}, {"preview": "yes"}):
        run.log_metrics({"a": 1.0}, 1, **wrong)
    assert len(metrics(events)) == 2
    assert dropped(run) == {("metrics", "bad_value"): 3}


def test_strict_mode_raises_and_records_nothing_of_the_call(environment: dict[str, str], events: list[Any]) -> None:
    with glideslope.init(strict=True) as run:
        with pytest.raises(InvalidValueError, match="'b' is not logged: it is None: leave the name out"):
            run.log_metrics({"a": 1.0, "b": None}, 1)
        with pytest.raises(InvalidValueError, match="step"):
            run.log_metrics({"a": 1.0}, -1)
        for call in (
            lambda: run.log_histogram("h", "text", 1),
            lambda: run.log_histograms([1], 1),  # type: ignore[arg-type]
            lambda: run.log_text("t", 5),  # type: ignore[arg-type]
            lambda: run.log_configs(5),
            lambda: run.add_tags([5]),  # type: ignore[list-item]
        ):
            with pytest.raises(InvalidValueError):
                call()
        run.log_metrics({"a": 1.0}, 1)
    assert metrics(events) == [(1, {"a": 1.0})]


def test_strictness_can_come_from_the_environment(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIDESLOPE_STRICT", "1")
    with glideslope.init() as run, pytest.raises(InvalidValueError):
        run.log_metrics({"a": None}, 1)


def test_device_values_come_later_with_the_step_and_time_of_their_call(
    run: Run, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Arrival:
        arrived = False

        def query(self) -> bool:
            return self.arrived

    tensors = pytest.importorskip("glideslope.capture.tensors")
    arrival, plain = Arrival(), tensors.scalar
    monkeypatch.setattr(tensors, "scalar", lambda one: one if one.dtype is torch.float16 else plain(one))
    assert run._session is not None
    run._session.pending._copy = lambda some: [Copied([0], np.array([float(some[0])]), [1], arrival)]
    before = time.time_ns()
    run.log_metrics({"host": 1.0, "device": torch.tensor(2.0, dtype=torch.float16)}, 7)
    after = time.time_ns()
    assert metrics(events) == [(7, {"host": 1.0})]
    arrival.arrived = True
    run.log_metrics({"host": 2.0}, 8)
    assert metrics(events) == [(7, {"host": 1.0}), (8, {"host": 2.0}), (7, {"device": 2.0})]
    assert before <= of(events, MetricsLogged)[2].time_ns <= after


def test_values_that_never_leave_the_device_are_counted_at_close(
    environment: dict[str, str], receiver: OtlpReceiver
) -> None:
    class Never:
        def query(self) -> bool:
            return False

    run = glideslope.init()
    assert run._session is not None
    run._session.pending._copy = lambda some: [Copied([0], np.zeros(1), [1], Never())]
    run._session.pending.add((torch.zeros(1),), lambda found: None)
    started = time.monotonic()
    assert not run.flush(0.01)
    run.close(1.0)
    assert time.monotonic() - started < 10
    drops = {p.attributes["drop.reason"]: p.value for p in receiver.metrics("train.telemetry.drops") if p.value}
    assert drops["exit"] == 1.0


def test_raw_values_are_counted_into_the_fixed_edges(run: Run, events: list[Any]) -> None:
    run.log_histogram("w", torch.tensor([0.0, 1.0, -1.0, math.nan, math.inf]), 3)
    run.log_histograms({"x": [1e-3, 2e300], "y": ([0, 1, 2], [3, 4])}, 4)
    first, second, third = of(events, HistogramLogged)
    assert (first.name, first.step, first.total, first.nonfinite) == ("w", 3, 0.0, 2)
    assert first.counts.sum() == 3 and np.array_equal(first.edges, EDGES)
    for value in (0.0, 1.0, -1.0):
        (inside,) = np.flatnonzero((EDGES[:-1] < value) & (value <= EDGES[1:]))
        assert first.counts[inside] == 1.0
    assert second.counts[-1] == 1.0
    assert third.edges.tolist() == [0, 1, 2] and third.counts.tolist() == [3, 4] and math.isnan(third.total)


@pytest.mark.parametrize(
    "arguments",
    [
        {"values": "text"},
        {"values": None},
        {"values": [1j]},
        {"values": [1], "edges": [0, 1], "counts": [1]},
        {"edges": [0, 1, 1], "counts": [1, 1]},
        {"edges": [0, math.inf], "counts": [1]},
        {"edges": [0, 1], "counts": [-1]},
        {"edges": [0, 1], "counts": [0.5]},
        {"edges": [0, 1], "counts": [1, 2]},
        {"edges": list(range(2000)), "counts": [1] * 1999},
        {"values": [1.0], "step": -1},
    ],
)
def test_a_histogram_that_cannot_be_is_refused(run: Run, events: list[Any], arguments: dict[str, Any]) -> None:
    run.log_histogram("h", **{"step": 1, **arguments})
    assert of(events, HistogramLogged) == []
    assert dropped(run) == {("metrics", "bad_value"): 1}


def test_texts_and_tags_are_recorded(run: Run, events: list[Any], warnings: Any) -> None:
    run.log_text("sample", "Once upon a time", step=5)
    run.log_text("note", "no step")
    run.add_tags(["a", "b", "a"])
    run.add_tags("one")
    run.remove_tags({"b"})
    run.add_tags(["good", ""])
    run.add_tags(5)  # type: ignore[arg-type]
    texts = of(events, TextLogged)
    assert [(text.name, text.text, text.step) for text in texts] == [
        ("sample", "Once upon a time", 5.0),
        ("note", "no step", None),
    ]
    assert [(tags.added, tags.removed) for tags in of(events, TagsChanged)] == [
        (("a", "b"), ()),
        (("one",), ()),
        ((), ("b",)),
        (("good",), ()),
    ]
    assert dropped(run) == {("metrics", "bad_value"): 2}
    assert len(warnings()) == 2


def test_configs_are_flat_and_redacted_before_they_reach_the_writer(run: Run, events: list[Any]) -> None:
    @dataclasses.dataclass
    class Model:
        width: int = 512
        api_key: str = "hunter2"

    run.log_configs({"model": Model(), "lr": 1e-3})
    run.log_configs(Namespace(seed=1))
    assert [dict(event.values) for event in of(events, ConfigLogged)] == [
        {"model/width": 512, "model/api_key": "[redacted]", "lr": 1e-3},
        {"seed": 1},
    ]


def test_a_config_without_end_is_cut_counted_and_said_once(run: Run, events: list[Any], warnings: Any) -> None:
    for _ in range(2):
        run.log_configs({f"k{i}": i for i in range(5_001)})
    assert len(of(events, ConfigLogged)[0].values) == 5_000
    assert dropped(run) == {("logs", "budget"): 2}
    assert len(warnings()) == 1


def test_after_close_calls_are_silent_and_init_begins_anew(
    environment: dict[str, str], events: list[Any], warnings: Any
) -> None:
    first = glideslope.init(run_id="again")
    assert glideslope.init() is first
    first.close()
    seen = len(events)
    first.log_metrics({"a": 1.0}, 1)
    first.log_text("t", "x")
    first.add_tags("t")
    first.log_configs({"a": 1})
    first.log_histogram("h", [1.0], 1)
    assert first.flush() is True
    first.close()
    assert len(events) == seen and warnings() == []
    second = glideslope.init(run_id="again")
    assert second is not first
    assert (first.attempt, second.attempt) == (0, 1)
    second.log_metrics({"a": 1.0}, 1)
    first.log_metrics({"a": 2.0}, 1)
    second.close()
    assert metrics(events) == [(1, {"a": 1.0})]


def test_init_says_when_it_cannot_change_the_run(run: Run, warnings: Any) -> None:
    assert glideslope.init("mine") is run
    assert warnings() == []
    assert glideslope.init("other", run_id="other") is run
    assert len(warnings()) == 2
    assert run.name == "mine"


def test_init_refuses_ids_that_cannot_be(environment: dict[str, str]) -> None:
    with pytest.raises(glideslope.ConfigError, match="run id"):
        glideslope.init(run_id="a/b")
    with pytest.raises(glideslope.ConfigError, match="pass a str"):
        glideslope.init(5)  # type: ignore[arg-type]


def test_a_bad_environment_turns_telemetry_off_with_one_warning(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, warnings: Any
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")
    run = glideslope.init()
    run.log_metrics({"a": 1.0}, 1)
    assert len(warnings()) == 1
    with pytest.raises(glideslope.ConfigError):
        glideslope.init(strict=True)


def test_a_switched_off_sdk_makes_everything_do_nothing(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, events: list[Any]
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    run = glideslope.init("x", config={"a": 1}, tags=["t"])
    run.log_metrics({"a": 1.0}, 1)
    run.log_metrics({"a": None}, -1)
    assert run.flush() is True
    run.close()
    assert (run.run_id, run.rank, events) == ("", 0, [])


def test_the_launcher_s_names_win(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, warnings: Any) -> None:
    monkeypatch.setenv("GLIDESLOPE_RUN_ID", "theirs")
    monkeypatch.setenv("GLIDESLOPE_RUN_ATTEMPT", "3")
    with glideslope.init("my name", run_id="mine") as run:
        assert (run.run_id, run.name, run.attempt) == ("theirs", "my name", 3)
    assert len(warnings()) == 1


def test_an_exception_inside_the_with_block_marks_the_attempt_as_failed(
    environment: dict[str, str], events: list[Any]
) -> None:
    with pytest.raises(ZeroDivisionError), glideslope.init():
        _ = 1 / 0
    (end,) = [event for event in of(events, Happened) if event.name == "train.run.end"]
    assert end.attributes == {"exit.state": "failed", "error.type": "ZeroDivisionError"}


def test_a_fault_of_ours_is_counted_and_said_but_not_raised(
    run: Run, monkeypatch: pytest.MonkeyPatch, warnings: Any
) -> None:
    assert current.process.session is not None

    def broken(event: Any) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(current.process.session, "_write", lambda writer, event: broken(event))
    for _ in range(3):
        run.log_metrics({"a": 1.0}, 1)
    assert current.process.session._errors == {"log": 3}
    assert warnings() == [
        "glideslope: log failed (OSError: disk on fire); training goes on, the value is missing",
    ]


def test_a_run_says_who_it_is(run: Run) -> None:
    assert repr(run) == f"<glideslope.Run {run.run_id} attempt 0 rank 0>"
    assert run.name == "mine"


class Hostile:
    """Raises wherever it is touched."""

    def __float__(self) -> float:
        raise RuntimeError("float")

    def __len__(self) -> int:
        return -1

    def __iter__(self) -> Any:
        raise RecursionError("iter")

    def __eq__(self, other: object) -> bool:
        raise ValueError("eq")

    def __hash__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        raise TypeError("bool")

    def __str__(self) -> str:
        raise OSError("str")

    __repr__ = __str__


class SlyDict(dict[Any, Any]):
    def items(self) -> Any:
        raise KeyError("items")

    def __len__(self) -> int:
        return 10**9


def recursive() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.complex_numbers()
    | st.datetimes()
    | st.builds(Hostile)
    | st.builds(lambda: SlyDict(a=1))
    | st.builds(recursive)
    | st.sampled_from([torch.zeros(2), np.zeros(3), np.array(object()), float, pickle, EDGES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=ANYTHING, b=ANYTHING, c=ANYTHING, d=ANYTHING)
def test_no_argument_makes_a_call_raise(run: Run, a: Any, b: Any, c: Any, d: Any) -> None:
    assert run._session is not None
    run._session._errors.clear()
    run.log_metrics(a, b)
    run.log_metrics({"x": a, "y": b}, 1)
    run.log_metrics(a, 1, names=b, timestamp=c, preview=d, preview_completion=a)
    run.log_histogram(a, b, c)
    run.log_histogram("h", step=1, edges=a, counts=b)
    run.log_histograms({"h": a, "i": b}, c)
    run.log_histograms(a, 1)
    run.log_text(a, b, c)
    run.log_configs(a)
    run.log_configs({"k": b})
    run.add_tags(a)
    run.remove_tags([b])
    assert run._session._errors == {}
