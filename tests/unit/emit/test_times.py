# SPDX-License-Identifier: Apache-2.0
"""Every value of a series has a millisecond of its own, and nobody is pushed around."""

import random

import numpy as np
import pytest

from glideslope.emit.times import SeriesTimes
from glideslope.events import MetricsLogged

MS = 1_000_000
START_MS = 1_700_000_000_000
START = START_MS * MS


def times(series=10):
    made = SeriesTimes()
    made.grow(series)
    return made


def taken(made, column, ms):
    return made.taken(column, (START_MS + ms) * MS) - START_MS


def given(made, column, ms):
    return [(at - START_MS, part) for at, part in made.given(column, (START_MS + ms) * MS)]


def logged(time_ns, step, values, **more):
    return MetricsLogged(time_ns, step, tuple(values), tuple(values.values()), **more)


def test_a_row_takes_the_first_millisecond_at_or_after_its_time():
    made = times()
    assert made.taken(0, START) == START_MS
    assert made.taken(1, START + 1) == START_MS + 1


def test_values_of_one_millisecond_follow_one_another_within_a_series_only():
    made = times(1000)
    assert [taken(made, 0, 0) for _ in range(3)] == [0, 1, 2]
    assert {taken(made, column, 0) for column in range(1, 1000)} == {0}
    assert taken(made, slice(0, 2), 0) == 3
    assert taken(made, np.array([1, 5]), 0) == 4
    assert taken(made, 5, 0) == 5


def test_a_late_value_keeps_its_time_and_pushes_nothing():
    made = times()
    assert [taken(made, 0, ms) for ms in (0, 10, 20)] == [0, 10, 20]
    assert taken(made, 0, 5) == 5
    assert taken(made, 0, 5) == 6
    assert taken(made, 0, 10) == 11
    assert taken(made, 0, 9) == 9
    assert taken(made, 0, 21) == 21
    assert taken(made, slice(0, 3), 20) == 22
    assert taken(made, 1, 20) == 23
    assert taken(made, 9, 20) == 20


def test_a_clock_that_jumps_back_further_than_is_remembered_goes_behind_the_last(monkeypatch):
    monkeypatch.setattr("glideslope.emit.times._REMEMBERED_MS", 100)
    made = times()
    for ms in range(1000):
        taken(made, 0, ms)
    assert [taken(made, 0, -3_600_000 + n) for n in range(3)] == [1000, 1001, 1002]
    assert taken(made, 0, 950) == 1003  # 950 is taken, and so is all up to 1002
    assert taken(made, 0, 5000) == 5000


@pytest.mark.parametrize("seed", range(30))
def test_no_series_ever_has_two_values_in_one_millisecond(seed, monkeypatch):
    monkeypatch.setattr("glideslope.emit.times._REMEMBERED_MS", 40)
    choose, made, used, clock = random.Random(seed), times(200), {}, 0
    for _ in range(2000):
        clock += choose.choice([0, 0, 0, 1, 2, 50])
        late = choose.choice([0, 0, 0, 1, 3, 30, 3000])
        columns = choose.choice(
            [choose.randrange(200), slice(0, 70), slice(3, 9), np.array([1, 7, 150]), np.arange(90)]
        )
        at = made.taken(columns, START + (clock - late) * MS)
        for column in [columns] if isinstance(columns, int) else np.arange(200)[columns].tolist():
            assert at not in used.setdefault(column, set())
            used[column].add(at)
        assert at - START_MS >= clock - late


def test_a_given_time_stands_to_the_millisecond():
    made = times()
    assert made.given(0, START + 999_999)[0] == (START_MS, None)
    assert given(made, 0, -86_400_000) == [(-86_400_000, None)]
    assert given(made, 0, 500) == [(500, None)]


def test_many_given_values_of_one_second_all_find_a_place():
    made = times()
    found = [given(made, 0, second * 1000)[0][0] for second in range(3) for _ in range(1500)]
    assert len(set(found)) == 4500
    assert found == sorted(found)


def test_the_same_upload_gives_the_same_times_in_another_process_and_in_this_one():
    calls = sorted(random.Random(5).choices(range(5000), k=300))
    first, second = times(), times()
    once = [given(first, 0, ms) for ms in calls]
    assert [given(second, 0, ms) for ms in calls] == once
    assert [given(first, 0, ms) for ms in calls] == once


def test_given_times_depend_on_the_series_alone():
    made = times()
    given(made, 0, 7)
    pieces = [(at, part.tolist()) for at, part in given(made, slice(0, 3), 7)]
    assert pieces == [(7, [False, True, True]), (8, [True, False, False])]


def test_a_given_time_gives_way_to_a_value_without_one_and_the_other_way_round():
    made = times()
    assert taken(made, 0, 5) == 5
    assert given(made, 0, 5) == [(6, None)]
    assert taken(made, 0, 6) == 7
    assert given(made, 1, 5) == [(5, None)]


def test_a_given_time_in_the_future_carries_nobody_along(kit):
    kit.write(logged(START, 1, {"x": 1.0}))
    kit.write(logged(4_000_000_000_000_000_000, 2, {"x": 2.0}, timed=True))
    kit.write(logged(START + 10 * MS, 3, {"x": 3.0}))
    assert [p.time_ns for p in kit.points("train.metric") if p.value != 2.0] == [START, START + 10 * MS]


def test_a_thousand_names_in_one_millisecond_do_not_drift(kit):
    for number in range(1000):
        kit.write(logged(START, 1, {f"m{number}": 1.0}))
    assert {p.time_ns for p in kit.points("train.metric")} == {START}


def test_steps_in_any_order_keep_their_own_times(kit):
    order = random.Random(1).sample(range(500), 500)
    for step in order:
        kit.write(logged(START + step * MS, step / 2, {"x": float(step)}))
    assert {p.time_ns: p.value for p in kit.points("train.metric")} == {START + n * MS: float(n) for n in range(500)}


def test_memory_for_late_values_is_bounded():
    made = times(300)
    for number in range(6_000):
        made.taken(np.arange(300), START + number * MS)
        made.taken(number % 300, START)
    assert len(made._rows) <= 4096
    assert all(len(rows) <= 16 for rows in made._rows.values())
