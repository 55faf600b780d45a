# SPDX-License-Identifier: Apache-2.0
"""When metrics count as durable, when they are sent again, what is deleted: rule by rule, with a clock of the test."""

import json

import pytest

from glideslope.ship.cursor import Cursor
from glideslope.ship.reader import START, Position, SpoolReader, bytes_behind


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_cursor(tmp_path, clock):
    """Open a cursor as the next process would; its wall clock goes with the clock."""
    return lambda retain_s=30.0: Cursor(tmp_path, retain_s, clock=clock, wall=lambda: clock.now + 1e9)


def at(number):
    return Position(number, 0)


def acknowledge(cursor, number, epoch="A"):
    """One batch that ends at segment `number` is acknowledged now; True when everything behind safe goes again."""
    again = cursor.hear(epoch, True)
    if not again:
        cursor.advance("metrics", cursor.acknowledged["metrics"], at(number), {epoch})
    return again


def test_an_acknowledgement_is_durable_when_the_same_epoch_acknowledges_later(open_cursor, clock):
    cursor = open_cursor()
    acknowledge(cursor, 1)
    clock.now += 29.9
    acknowledge(cursor, 2)
    assert cursor.safe == START
    clock.now += 0.2
    acknowledge(cursor, 3)
    assert cursor.safe == at(1)
    assert not cursor.durable


def test_during_an_outage_nothing_becomes_durable(open_cursor, clock):
    cursor = open_cursor()
    acknowledge(cursor, 1)
    clock.now += 10_000
    cursor.settle()
    cursor.hear("A", False)
    assert cursor.safe == START
    acknowledge(cursor, 2)
    assert cursor.safe == at(1)


def test_without_epochs_the_clock_decides(open_cursor, clock):
    cursor = open_cursor()
    acknowledge(cursor, 1, "")
    clock.now += 29
    cursor.settle()
    assert cursor.safe == START
    clock.now += 1
    cursor.settle()
    assert cursor.safe == at(1)
    assert cursor.durable


def test_a_new_epoch_takes_back_what_is_not_durable(open_cursor, clock):
    cursor = open_cursor()
    acknowledge(cursor, 1)
    clock.now += 31
    acknowledge(cursor, 5)
    clock.now += 1
    assert acknowledge(cursor, 6, "B")
    assert cursor.acknowledged["metrics"] == cursor.safe == at(1)
    assert not acknowledge(cursor, 6, "B")
    clock.now += 29
    acknowledge(cursor, 7, "B")
    assert cursor.safe == at(1)
    clock.now += 2
    acknowledge(cursor, 8, "B")
    assert cursor.safe == at(6)


def test_an_answer_that_acknowledges_nothing_tells_of_the_restart_too(open_cursor):
    cursor = open_cursor()
    acknowledge(cursor, 1)
    assert cursor.hear("B", False)
    assert cursor.acknowledged["metrics"] == START


def test_what_the_old_life_acknowledged_is_not_confirmed_by_the_new_one(open_cursor, clock):
    """Two restarts, the second during the replay."""
    cursor = open_cursor()
    acknowledge(cursor, 4)
    assert acknowledge(cursor, 5, "B")
    acknowledge(cursor, 2, "B")
    clock.now += 10
    assert acknowledge(cursor, 3, "C")
    assert cursor.acknowledged["metrics"] == START
    acknowledge(cursor, 5, "C")
    clock.now += 25
    acknowledge(cursor, 6, "C")
    assert cursor.safe == START, "35 s after the first replay, 25 s after the second"
    clock.now += 6
    acknowledge(cursor, 7, "C")
    assert cursor.safe == at(5)


def test_gateways_that_alternate_cause_one_replay(open_cursor, clock):
    cursor = open_cursor()
    again = 0
    for number in range(1, 41):
        clock.now += 1
        again += acknowledge(cursor, number, "AB"[number % 2])
    assert again == 1
    assert cursor.safe > START
    assert acknowledge(cursor, 50, "A2")
    assert not cursor.hear("B", True)


def test_a_batch_of_two_gateways_waits_for_both(open_cursor, clock):
    cursor = open_cursor()
    for epoch in "ABAB":
        cursor.hear(epoch, True)
    cursor.advance("metrics", START, at(1), {"A", "B"})
    clock.now += 31
    cursor.hear("A", True)
    assert cursor.safe == START
    cursor.hear("B", True)
    assert cursor.safe == at(1)


def test_what_a_vanished_gateway_took_is_sent_again_after_a_while(open_cursor, clock):
    cursor = open_cursor()
    for epoch in "ABAB":
        cursor.hear(epoch, True)
    acknowledge(cursor, 1, "A")
    for _ in range(29):
        clock.now += 10
        assert not cursor.hear("B", True)
    assert cursor.safe == START
    clock.now += 20
    assert cursor.hear("B", True)
    assert cursor.acknowledged["metrics"] == START
    acknowledge(cursor, 1, "B")
    clock.now += 31
    cursor.hear("B", True)
    assert cursor.safe == at(1)


def test_only_the_last_epochs_are_remembered(open_cursor):
    cursor = open_cursor()
    for number in range(100):
        cursor.hear(f"e{number}", True)
    assert not cursor.hear("e84", True)
    assert cursor.hear("e10", True)
    assert len(json.loads((cursor.directory / "cursor.json").read_text())["epochs"]) == 16


def test_the_first_epoch_of_a_spool_repeats_nothing_but_one_after_nameless_answers_does(open_cursor):
    cursor = open_cursor()
    assert not cursor.hear("A", True)
    cursor = open_cursor()
    assert not acknowledge(cursor, 1, "")
    assert cursor.hear("A", True)


def test_a_successor_continues_the_same_rules(open_cursor, clock):
    first = open_cursor()
    acknowledge(first, 1)
    clock.now += 31
    acknowledge(first, 3)
    second = open_cursor()
    assert (second.safe, second.acknowledged["metrics"], second.asks) == (at(1), at(3), True)
    assert second.last == at(1)
    clock.now += 20
    assert second.confirmable_in_s == pytest.approx(10)
    assert not second.hear("A", True)
    assert second.safe == at(1), "20 s after the acknowledgement"
    clock.now += 11
    second.hear("A", True)
    assert second.durable
    third = open_cursor()
    acknowledge(third, 4)
    assert open_cursor().hear("B", True)


def test_a_successor_that_dies_during_the_replay_leaves_a_true_cursor(open_cursor, clock):
    first = open_cursor()
    acknowledge(first, 5)
    second = open_cursor()
    assert second.hear("B", True)
    acknowledge(second, 2, "B")
    third = open_cursor()
    assert third.acknowledged["metrics"] == at(2)
    assert not third.hear("B", True)
    assert third.safe == START


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"segment": "x", "offset": 1}', '{"segment": 1, "offset": 0, "safe": 3}', "3"]
)
def test_a_broken_cursor_begins_at_the_start(tmp_path, open_cursor, text):
    (tmp_path / "cursor.json").write_text(text)
    cursor = open_cursor()
    assert cursor.acknowledged == {"metrics": START, "traces": START, "logs": START}


def test_an_old_cursor_knows_a_position_and_nothing_durable(tmp_path, open_cursor):
    (tmp_path / "cursor.json").write_text('{"segment": 3, "offset": 70}')
    cursor = open_cursor()
    assert set(cursor.acknowledged.values()) == {Position(3, 70)}
    assert cursor.safe == START
    assert cursor.hear("A", True)


def test_signals_have_their_own_places_and_only_metrics_go_back(open_cursor):
    cursor = open_cursor()
    cursor.hear("A", True)
    cursor.advance("metrics", START, at(3), {"A"})
    cursor.advance("traces", START, at(2), {"A"})
    cursor.hear("B", False)
    again = open_cursor()
    assert again.acknowledged == {"metrics": START, "traces": at(2), "logs": START}


def test_a_disk_that_takes_no_cursor_is_no_error(tmp_path, clock):
    cursor = Cursor(tmp_path / "gone", clock=clock)
    acknowledge(cursor, 1)
    assert cursor.acknowledged["metrics"] == at(1)


def test_segments_go_when_they_are_durable_and_when_it_is_crowded_when_they_are_acknowledged(kit, clock):
    writer = kit.writer(segment_bytes=300)
    for number in range(60):
        writer.append(kit.VALUES, kit.frame(number))
    count = len(kit.segments())
    cursor = Cursor(kit.folder, clock=clock)
    reader = SpoolReader(kit.folder, lambda: False)
    reader.read(500)
    assert cursor.forget() == cursor.forget(crowded=True) == 0
    cursor.hear("A", True)
    for signal in ("metrics", "traces", "logs"):
        cursor.advance(signal, START, reader.position, {"A"})
    assert cursor.forget() == 0
    clock.now += 31
    cursor.hear("A", True)
    size = sum(path.stat().st_size for path in kit.segments())
    freed = cursor.forget()
    assert 0 < len(kit.segments()) < count
    assert freed == size - sum(path.stat().st_size for path in kit.segments())
    reader.read(500)
    for signal in ("metrics", "traces", "logs"):
        cursor.advance(signal, START, reader.position, {"A"})
    assert cursor.forget() == 0
    assert cursor.forget(crowded=True) > 0
    assert kit.numbers()[-1] == 59


def test_the_bytes_behind_a_position_shrink_to_nothing(kit):
    writer = kit.writer(segment_bytes=300)
    for number in range(60):
        writer.append(kit.VALUES, kit.frame(number))
    before = bytes_behind(kit.folder, START)
    assert before == sum(path.stat().st_size - 8 for path in kit.segments())
    reader = kit.reader()
    reader.read(500)
    assert 0 < bytes_behind(kit.folder, reader.position) < before
    kit.numbers(reader)
    assert bytes_behind(kit.folder, reader.position) == 0


def test_a_reader_of_one_signal_still_hears_the_definitions(kit):
    writer = kit.writer()
    writer.append(kit.DEFINE, kit.frame(77))
    writer.append(kit.VALUES, kit.frame(1))
    writer.append(kit.TRACES, kit.frame(2))
    reader = SpoolReader(kit.folder, lambda: False, START, lambda kind: kind == kit.TRACES)
    assert [kit.number_of(record.payload) for record in reader.read(1 << 20)] == [77, 2]
    assert reader.sequence == 3


def test_damage_that_is_passed_twice_counts_once(kit):
    writer = kit.writer()
    for number in range(5):
        writer.append(kit.VALUES, kit.frame(number))
    path = kit.segments()[0]
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    reader = kit.reader()
    for _ in range(2):
        reader.seek(START)
        reader.read(1 << 20)
    assert reader.damaged == 1
    assert reader.damaged_bytes > 0
