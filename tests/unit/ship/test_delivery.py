# SPDX-License-Identifier: Apache-2.0
"""What each answer of the receiver leads to, step by step and without waiting."""

import json
import logging

import pytest

from glideslope.config import Export
from glideslope.ship.delivery import Delivery, State, Step
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


class Scripted:
    """A transport that answers from a list and then with 200."""

    def __init__(self, *answers):
        self.answers, self.posted = list(answers), []

    def compress(self, body):
        return body

    def post(self, signal, body, read_s):
        answer = self.answers.pop(0) if self.answers else Answer(200, "")
        answer = answer(signal, body) if callable(answer) else answer
        if 200 <= answer.status < 300:
            self.posted.append((signal, json.loads(body)))
        return answer

    def numbers(self, signal="metrics"):
        return [number for name, numbers in self.posted if name == signal for number in numbers]


@pytest.fixture
def start(kit):
    def make(*answers, frames=6, kinds=(0x02,), encoder=encode):
        writer = kit.writer()
        for number in range(frames):
            for kind in kinds:
                writer.append(kind, kit.frame(number))
        writer.close()
        transport = Scripted(*answers)
        return Delivery(kit.reader(), encoder, transport, "http://somewhere"), transport

    return make


def drive(delivery, limit=1000):
    steps = []
    for _ in range(limit):
        steps.append(delivery.advance())
        if steps[-1].state is State.IDLE:
            return steps
    raise AssertionError("never idle")


def test_a_2xx_moves_the_cursor(start, kit):
    delivery, transport = start()
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.sent_points == 6
    assert kit.reader().remaining_bytes() == 0


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_receiver_gets_the_same_again_after_a_pause(start, kit, status):
    delivery, transport = start(*[Answer(status, "busy")] * 3)
    steps = [delivery.advance() for _ in range(3)]
    assert {step.state for step in steps} == {State.WAIT}
    for index, step in enumerate(steps):
        assert 0.125 * 2**index <= step.wait_s <= 0.25 * 2**index
    assert kit.reader().remaining_bytes() > 0
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.dropped == {}


def test_the_pause_is_bounded_and_retry_after_is_honoured_within_bounds(start):
    delivery, _ = start(*[Answer(503, "")] * 30, Answer(429, "", 7.0), Answer(429, "", 9999.0))
    waits = [delivery.advance().wait_s for _ in range(30)]
    assert max(waits) <= 15.0
    assert delivery.advance().wait_s >= 7.0
    assert delivery.advance().wait_s == 60.0


def test_no_answer_is_tried_again_and_counted_as_a_replay(start):
    delivery, transport = start(Answer(0, "Connection refused"))
    assert delivery.advance().state is State.UNREACHABLE
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.replayed_points == 6


def test_an_outage_is_said_once(start, caplog):
    delivery, _ = start(*[Answer(0, "Connection refused")] * 20)
    with caplog.at_level(logging.WARNING, "glideslope"):
        drive(delivery)
        delivery.say_unreachable("again")
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
    assert delivery.dropped == {}


def test_one_point_that_is_too_large_is_set_aside_and_the_others_arrive(start, kit):
    def not_three(signal, body):
        return Answer(413 if 3 in json.loads(body) else 200, "")

    delivery, transport = start(*[not_three] * 100)
    drive(delivery)
    assert sorted(set(transport.numbers())) == [0, 1, 2, 4, 5]
    assert delivery.dropped == {("metrics", "rejected"): 1}
    assert json.loads((kit.folder / "rejected" / "000001-metrics.bin").read_bytes()) == [3]


def test_a_split_does_not_repeat_spans_that_arrived(start):
    answers = [Answer(200, ""), Answer(200, ""), Answer(413, "")]
    delivery, transport = start(*answers, kinds=(0x02, 0x24, 0x35))
    drive(delivery)
    for signal in ("metrics", "traces", "logs"):
        assert transport.numbers(signal) == list(range(6))


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_bad_request_is_quarantined_with_its_reason(start, kit, caplog, status):
    delivery, _ = start(Answer(status, "HTTP 400 no such thing"))
    drive(delivery)
    assert delivery.dropped == {("metrics", "rejected"): 6}
    about = json.loads((kit.folder / "rejected" / "000001-metrics.json").read_text())
    assert about == {"signal": "metrics", "points": 6, "reason": "HTTP 400 no such thing"}
    assert "no such thing" in caplog.text
    assert kit.reader().remaining_bytes() == 0


def test_a_server_error_that_never_ends_does_not_hold_up_the_rest(start):
    delivery, _ = start(*[Answer(500, "")] * 11)
    drive(delivery)
    assert delivery.dropped == {("metrics", "rejected"): 6}


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_a_refusal_keeps_everything_and_says_so_once(start, kit, caplog, status):
    delivery, transport = start(*[Answer(status, f"HTTP {status}")] * 3)
    steps = [delivery.advance() for _ in range(3)]
    assert all(step.state is State.REFUSED and 15 <= step.wait_s <= 30 for step in steps)
    assert len(caplog.messages) == 1
    assert "OTEL_EXPORTER_OTLP_HEADERS" in caplog.text
    assert kit.reader().remaining_bytes() > 0
    drive(delivery)
    assert transport.numbers() == list(range(6))


def test_a_receiver_without_traces_still_gets_metrics_and_logs(start, caplog):
    def no_traces(signal, body):
        return Answer(404 if signal == "traces" else 200, "HTTP 404")

    delivery, transport = start(*[no_traces] * 10, kinds=(0x02, 0x24, 0x35))
    drive(delivery)
    assert transport.numbers() == transport.numbers("logs") == list(range(6))
    assert delivery.dropped == {("traces", "rejected"): 6}
    assert "takes no traces" in caplog.text


def test_a_partial_success_is_counted_and_not_repeated(start, caplog):
    delivery, transport = start(Answer(200, "too old", None, 2))
    drive(delivery)
    assert transport.numbers() == list(range(6))
    assert delivery.dropped == {("metrics", "partial"): 2}
    assert delivery.sent_points == 4
    assert "too old" in caplog.text


def test_a_record_that_cannot_be_encoded_is_set_aside_alone(start, kit):
    def picky(batch, max_points, max_bytes):
        if any(int.from_bytes(payload[8:16], "little") == 2 for _, payload in batch):
            raise ValueError("two is odd")
        return encode(batch, max_points, max_bytes)

    delivery, transport = start(encoder=picky)
    drive(delivery)
    assert transport.numbers() == [0, 1, 3, 4, 5]
    assert delivery.dropped == {("metrics", "rejected"): 1}
    assert "two is odd" in (kit.folder / "rejected" / "000001-metrics-record.json").read_text()


def test_an_empty_spool_is_idle(kit):
    delivery = Delivery(kit.reader(), encode, Scripted(), "http://somewhere")
    assert delivery.advance() == Step(State.IDLE)


def test_the_quarantine_is_bounded(start, kit):
    delivery, _ = start(*[Answer(400, "")] * 500, frames=300, encoder=lambda b, p, s: encode(b, 1, s))
    drive(delivery)
    assert delivery.dropped == {("metrics", "rejected"): 300}
    assert len(list((kit.folder / "rejected").iterdir())) == 200


def test_the_endpoint_is_checked_where_it_is_configured():
    with pytest.raises(ValueError, match="no HTTP URL"):
        Export(endpoint="somewhere:4317")
