# SPDX-License-Identifier: Apache-2.0
"""Requests wait for their answers side by side, and nobody waits for the threads."""

import threading
import time
from dataclasses import dataclass

from glideslope.ship.posters import Posters
from glideslope.ship.transport import Answer


@dataclass(eq=False)
class Letter:
    signal: str
    body: bytes = b""


def test_requests_wait_side_by_side_and_answers_come_as_they_arrive():
    go, both = threading.Event(), threading.Barrier(2)

    def post(signal, body, read_s):
        both.wait(10)
        if signal == "slow":
            go.wait(10)
        return Answer(200, signal)

    posters = Posters(post, 2)
    posters.start()
    slow, fast = Letter("slow"), Letter("fast")
    posters.submit(slow, 1.0)
    posters.submit(fast, 1.0)
    assert posters.take(10) == (fast, Answer(200, "fast"))
    assert posters.take(0) is None
    go.set()
    assert posters.take(10) == (slow, Answer(200, "slow"))
    posters.stop()


def test_a_wait_can_be_ended_from_outside():
    posters = Posters(lambda signal, body, read_s: Answer(200, ""), 1)
    threading.Timer(0.05, posters.wake).start()
    began = time.monotonic()
    assert posters.take(30) is None
    assert time.monotonic() - began < 20


def test_where_no_thread_can_be_started_the_caller_posts(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    posters = Posters(lambda signal, body, read_s: Answer(200, threading.current_thread().name), 3)
    posters.start()
    posters.submit(Letter("metrics"), 1.0)
    _, answer = posters.take(0)
    assert answer.message == threading.current_thread().name


def test_a_fault_of_the_transport_is_no_answer_and_ends_no_thread():
    def post(signal, body, read_s):
        raise ZeroDivisionError("never")

    posters = Posters(post, 1)
    posters.start()
    for _ in range(2):
        posters.submit(Letter("metrics"), 1.0)
        _, answer = posters.take(10)
        assert (answer.status, "never" in answer.message) == (0, True)
    posters.stop()
