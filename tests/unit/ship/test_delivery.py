# SPDX-License-Identifier: Apache-2.0
"""What each answer of the receiver leads to, step by step and without waiting."""

import json
import logging

import pytest

from glideslope.config import Export
from glideslope.ship.cursor import Cursor
from glideslope.ship.delivery import WINDOW, Delivery
from glideslope.ship.lane import State
from glideslope.ship.reader import bytes_behind
from glideslope.ship.transport import Answer


class Sent:
    def __init__(self, signal, body, points):
        self.signal, self.body, self.points = signal, body, points


def encode(batch, max_points, max_bytes):
    """One request per `max_points` frames and signal; the body is the list of numbers."""
    requests = []
    for signal, kinds in (("metrics", (0x02, 0x12)), ("traces", (0x24,)), ("logs", (0x35,))):
        numbers = [int.from_bytes(payload[8:16], "little") for kind, payload in batch if kind in kinds]
        for first in range(0, len(numbers), max_points):
            some = numbers[first : first + max_points]
            requests.append(Sent(signal, json.dumps(some).encode(), len(some)))
    return requests


def one_each(batch, max_points, max_bytes):
    return encode(batch, 1, max_bytes)


class Scripted:
    """A transport that answers from a list and then with 200."""

    def __init__(self, *answers):
        self.answers, self.posted, self.asked = list(answers), [], 0

    def compress(self, body):
        return body

    def post(self, signal, body, read_s):
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else Answer(200, "")
        answer = answer(signal, body) if callable(answer) else answer
        if 200 <= answer.status < 300:
            self.posted.append((signal, json.loads(body)))
        return answer

    def numbers(self, signal="metrics"):
        return [number for name, numbers in self.posted if name == signal for number in numbers]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def start(kit):
    def make(*answers, frames=6, kinds=(0x02,), encoder=encode):
        writer = kit.writer()
        for number in range(frames):
            for kind in kinds:
                writer.append(kind, kit.frame(number))
        writer.close()
        transport, clock = Scripted(*answers), Clock()
        cursor = Cursor(kit.folder, clock=clock)
        delivery = Delivery(cursor, encoder, transport, "http://somewhere", threads=0, clock=clock)
        delivery.clock = clock
        return delivery, transport

    return make


def waits(delivery, count, signal="metrics"):
    """The pauses after each of the next tries."""
    found, lane = [], delivery.lanes[signal]
    for _ in range(count):
        delivery.clock.now = max(delivery.clock.now, lane.retry_at)
        delivery.advance(0)
        found.append(lane.retry_at - delivery.clock.now)
    return found


def drive(delivery, limit=1000):
    for _ in range(limit):
        delivery.clock.now += 100
        delivery.advance(0)
        if delivery.idle:
            delivery.close()
            return
    raise AssertionError("never idle")


def left(kit):
    return bytes_behind(kit.folder, min(Cursor(kit.folder).acknowledged.values()))


def test_a_2xx_moves_the_cursor(start, kit):
    delivery, transport = start()
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.ledger.sent_points == 6
    assert left(kit) == 0


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_receiver_gets_the_same_again_after_a_pause(start, kit, status):
    delivery, transport = start(*[Answer(status, "busy")] * 3)
    for index, wait in enumerate(waits(delivery, 3)):
        assert delivery.lanes["metrics"].state is State.WAIT
        assert 0.125 * 2**index <= wait <= 0.25 * 2**index
    before = transport.asked
    delivery.advance(0)
    assert transport.asked == before, "it must not ask during the pause"
    assert left(kit) > 0
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.ledger.dropped == {}


def test_the_pause_is_bounded_and_retry_after_is_honoured_within_bounds(start):
    delivery, _ = start(*[Answer(503, "")] * 30, Answer(429, "", 7.0), Answer(429, "", 9999.0))
    assert max(waits(delivery, 30)) <= 15.0
    assert waits(delivery, 1)[0] >= 7.0
    assert waits(delivery, 1)[0] == 60.0


def test_no_answer_is_tried_again_and_counted_as_a_replay(start):
    delivery, transport = start(Answer(0, "Connection refused"))
    delivery.advance(0)
    assert delivery.lanes["metrics"].state is State.UNREACHABLE
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.ledger.replayed_points == 6


def test_an_outage_is_said_once(start, caplog):
    delivery, _ = start(*[Answer(0, "Connection refused")] * 20)
    with caplog.at_level(logging.WARNING, "glideslope"):
        drive(delivery)
        delivery.ledger.say_unreachable("again")
    (said,) = caplog.messages
    assert "Connection refused" in said
    assert "glideslope sync" in said
    assert "rank0-1" in said


def test_too_large_requests_are_split_until_they_fit(start):
    def only_two(signal, body):
        return Answer(413 if len(json.loads(body)) > 2 else 200, "")

    delivery, transport = start(*[only_two] * 100, frames=50)
    drive(delivery)
    assert transport.numbers() == list(range(50))
    assert delivery.ledger.dropped == {}


def test_one_point_that_is_too_large_is_set_aside_and_the_others_arrive(start, kit):
    def not_three(signal, body):
        return Answer(413 if 3 in json.loads(body) else 200, "")

    delivery, transport = start(*[not_three] * 100)
    drive(delivery)
    assert sorted(set(transport.numbers())) == [0, 1, 2, 4, 5]
    assert delivery.ledger.dropped == {("metrics", "rejected"): 1}
    assert json.loads((kit.folder / "rejected" / "000001-metrics.bin").read_bytes()) == [3]


def test_a_split_of_one_signal_repeats_no_other(start):
    answers = [Answer(413, ""), Answer(200, ""), Answer(200, "")]
    delivery, transport = start(*answers, kinds=(0x02, 0x24, 0x35))
    drive(delivery)
    for signal in ("metrics", "traces", "logs"):
        assert transport.numbers(signal) == list(range(6))


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_bad_request_is_quarantined_with_its_reason(start, kit, caplog, status):
    delivery, _ = start(Answer(status, "HTTP 400 no such thing"))
    drive(delivery)
    assert delivery.ledger.dropped == {("metrics", "rejected"): 6}
    about = json.loads((kit.folder / "rejected" / "000001-metrics.json").read_text())
    assert about == {"signal": "metrics", "points": 6, "reason": "HTTP 400 no such thing"}
    assert "no such thing" in caplog.text
    assert left(kit) == 0


def test_a_server_error_that_never_ends_does_not_hold_up_the_rest(start):
    delivery, _ = start(*[Answer(500, "")] * 11)
    drive(delivery)
    assert delivery.ledger.dropped == {("metrics", "rejected"): 6}


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_a_refusal_keeps_everything_and_says_so_once(start, kit, caplog, status):
    delivery, transport = start(*[Answer(status, f"HTTP {status}")] * 3)
    assert all(15 <= wait <= 30 for wait in waits(delivery, 3))
    assert delivery.lanes["metrics"].state is State.REFUSED
    assert len(caplog.messages) == 1
    assert "OTEL_EXPORTER_OTLP_HEADERS" in caplog.text
    assert left(kit) > 0
    drive(delivery)
    assert transport.numbers() == list(range(6))


def test_a_receiver_without_traces_still_gets_metrics_and_logs(start, caplog):
    def no_traces(signal, body):
        return Answer(404 if signal == "traces" else 200, "HTTP 404")

    delivery, transport = start(*[no_traces] * 10, kinds=(0x02, 0x24, 0x35))
    drive(delivery)
    assert transport.numbers() == transport.numbers("logs") == list(range(6))
    assert delivery.ledger.dropped == {("traces", "rejected"): 6}
    assert "takes no traces" in caplog.text


def test_a_partial_success_is_counted_and_not_repeated(start, caplog):
    delivery, transport = start(Answer(200, "too old", None, 2))
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.ledger.dropped == {("metrics", "partial"): 2}
    assert delivery.ledger.sent_points == 4
    assert "too old" in caplog.text


def test_a_record_that_cannot_be_encoded_is_set_aside_alone(start, kit):
    def picky(batch, max_points, max_bytes):
        if any(int.from_bytes(payload[8:16], "little") == 2 for _, payload in batch):
            raise ValueError("two is odd")
        return encode(batch, max_points, max_bytes)

    delivery, transport = start(encoder=picky)
    drive(delivery)
    assert transport.numbers() == [0, 1, 3, 4, 5]
    assert delivery.ledger.dropped == {("metrics", "rejected"): 1}
    assert "two is odd" in (kit.folder / "rejected" / "000001-metrics-record.json").read_text()


def test_an_empty_spool_is_idle(kit):
    delivery = Delivery(Cursor(kit.folder), encode, Scripted(), "http://somewhere", threads=0)
    assert not delivery.advance(0)
    assert delivery.idle


def test_the_quarantine_is_bounded(start, kit):
    delivery, _ = start(*[Answer(400, "")] * 500, frames=300, encoder=one_each)
    drive(delivery)
    assert delivery.ledger.dropped == {("metrics", "rejected"): 300}
    assert len(list((kit.folder / "rejected").iterdir())) == 200


def test_the_endpoint_is_checked_where_it_is_configured():
    with pytest.raises(ValueError, match="no HTTP URL"):
        Export(endpoint="somewhere:4317")


def fly(delivery):
    """Take the next requests of the metrics lane, as if they were posted."""
    lane, found = delivery.lanes["metrics"], []
    while (request := lane.next(delivery.clock.now)) is not None:
        found.append(request)
    return lane, found


def test_several_requests_are_in_flight_and_the_cursor_waits_for_the_first(start, kit):
    delivery, _ = start(encoder=one_each)
    lane, requests = fly(delivery)
    assert len(requests) == WINDOW["metrics"] > 1
    assert [json.loads(request.body) for request in requests] == [[0], [1], [2]]
    for request in reversed(requests):
        assert lane.acknowledged == 0
        lane.judge(request, Answer(200, ""), delivery.clock.now)
    drive(delivery)
    assert lane.acknowledged == 6


def test_while_the_receiver_fails_one_request_at_a_time_asks(start):
    delivery, _ = start(encoder=one_each)
    lane, (first, second, third) = fly(delivery)
    lane.judge(second, Answer(503, "", 20.0), delivery.clock.now)
    lane.judge(third, Answer(503, ""), delivery.clock.now)
    assert lane.failures == 1, "two answers to one burst are one trouble"
    lane.judge(first, Answer(200, ""), delivery.clock.now)
    assert lane.retry_at >= delivery.clock.now + 20.0, "an older success does not lift the pause"
    delivery.clock.now += 21
    _, again = fly(delivery)
    assert [json.loads(request.body) for request in again] == [[1]]
    lane.judge(again[0], Answer(200, ""), delivery.clock.now)
    assert len(fly(delivery)[1]) == WINDOW["metrics"]


def test_a_signal_that_is_stuck_holds_up_no_other(start):
    def no_traces(signal, body):
        return Answer(503 if signal == "traces" else 200, "", 60.0)

    delivery, transport = start(*[no_traces] * 100, kinds=(0x02, 0x24, 0x35), encoder=one_each)
    for _ in range(10):
        delivery.advance(0)
    assert transport.numbers() == transport.numbers("logs") == list(range(6))
    assert transport.numbers("traces") == []
    assert delivery.lanes["metrics"].state is delivery.lanes["logs"].state is State.IDLE
    transport.answers.clear()
    drive(delivery)
    assert transport.numbers("traces") == list(range(6))
    assert transport.numbers() == list(range(6))


def test_after_a_death_each_signal_goes_on_at_its_own_place(start, kit):
    def no_traces(signal, body):
        return Answer(503 if signal == "traces" else 200, "")

    delivery, _ = start(*[no_traces] * 100, kinds=(0x02, 0x24, 0x35))
    for _ in range(5):
        delivery.advance(0)
    transport = Scripted()
    second = Delivery(Cursor(kit.folder), encode, transport, "http://somewhere", threads=0)
    second.clock = delivery.clock
    while not second.idle:
        second.advance(0)
    assert (transport.numbers(), transport.numbers("logs"), transport.numbers("traces")) == ([], [], list(range(6)))


def test_on_a_full_disk_the_stuck_signal_gives_up_what_only_it_needs(kit, caplog):
    writer = kit.writer(segment_bytes=200)
    for number in range(20):
        writer.append(kit.VALUES, kit.frame(number))
        writer.append(kit.TRACES, kit.frame(number))

    def no_traces(signal, body):
        return Answer(503 if signal == "traces" else 200, "")

    transport, clock = Scripted(*[no_traces] * 100), Clock()
    delivery = Delivery(Cursor(kit.folder, 0.0, clock=clock), encode, transport, "there", threads=0, clock=clock)
    for _ in range(10):
        delivery.advance(0)
    assert len(kit.segments()) > 3
    delivery._cursor.settle()
    assert delivery._cursor.forget() == 0
    delivery.relieve()
    assert delivery._cursor.forget() > 0
    assert len(kit.segments()) <= 2
    lost = delivery.ledger.dropped["traces", "quota"]
    transport.answers.clear()
    delivery.clock = clock
    drive(delivery)
    assert transport.numbers() == list(range(20))
    assert transport.numbers("traces") == list(range(lost, 20))
    assert "does not take traces" in caplog.text


def named(epoch):
    return lambda signal, body: Answer(200, "", None, 0, epoch)


def test_a_store_that_restarted_gets_everything_that_is_not_durable_again(start, caplog):
    delivery, transport = start(named("A"), named("A"), named("A"), named("B"), encoder=one_each)
    with caplog.at_level(logging.INFO, "glideslope"):
        drive(delivery)
    assert sorted(set(transport.numbers())) == list(range(6))
    assert transport.numbers()[-6:] == list(range(6))
    assert delivery.ledger.replayed_points == 6
    assert sum("restarted" in text for text in caplog.messages) == 1


def test_a_second_restart_during_the_replay_begins_it_again(start):
    answers = [named("A")] * 3 + [named("B")] * 5 + [named("C")] * 50
    delivery, transport = start(*answers, encoder=one_each)
    drive(delivery)
    assert transport.numbers()[-6:] == list(range(6))
    assert len(transport.numbers()) == 6 + 3 + 6


def test_the_answer_to_a_trace_tells_of_the_restart_too(start):
    delivery, transport = start(named("A"), named("A"), kinds=(0x02, 0x24))
    delivery.advance(0)
    assert transport.numbers() == list(range(6))
    delivery._judge(traces(delivery), Answer(200, "", None, 0, "B"))
    drive(delivery)
    assert transport.numbers() == [*range(6), *range(6)]


def traces(delivery):
    """A request for spans that was posted just now."""
    lane = delivery.lanes["traces"]
    lane.restart()
    lane.reader.seek(lane.reader.position._replace(segment=0, offset=0))
    return lane.next(delivery.clock.now)


def test_the_first_epoch_of_all_repeats_nothing(start):
    delivery, transport = start(*[named("A")] * 50, encoder=one_each)
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.ledger.replayed_points == 0


def test_an_answer_without_a_request_in_flight_is_not_waited_for(start):
    """What was posted before a restart is judged by nobody afterwards."""
    delivery, _ = start(encoder=one_each)
    lane, requests = fly(delivery)
    lane.restart()
    for request in requests:
        lane.judge(request, Answer(400, "late"), delivery.clock.now)
    assert delivery.ledger.dropped == {}
    assert lane.in_flight == 0
    drive(delivery)
