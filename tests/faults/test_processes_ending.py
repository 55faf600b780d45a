# SPDX-License-Identifier: Apache-2.0
"""Processes end in every way, and are interrupted in every way: nothing is lost that was accepted, exit is bounded.

Real processes; the receiver is the only thing in memory.
"""

from __future__ import annotations

import signal
import time

import pytest
from scripts import Start, Stored, counted, ship_the_rest

from glideslope.testing import OtlpReceiver

ENDINGS = """
import atexit, os, signal, sys, threading, time
import glideslope
run = glideslope.init(run_id="ending")
for number in range(1, 2001):
    run.log_metrics({"x": number}, step=number)
print("accepted", flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("os._exit(7)", 7),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)", -signal.SIGKILL),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_sync_ships_what_an_abrupt_end_left(start: Start, receiver: OtlpReceiver, ending: str, code: int) -> None:
    receiver.stop()
    script = start(ENDINGS + ending)
    assert script.finish()[:2] == (code, "accepted\n")
    receiver.start()
    ship_the_rest(script, receiver)
    assert counted(receiver, "x") == [float(number) for number in range(1, 2001)]


@pytest.mark.parametrize(
    ("ending", "code", "state", "said"),
    [
        ("", 0, "finished", ""),
        ("sys.exit(3)", 3, "finished", ""),
        ("raise RuntimeError('mine')", 1, "failed", "RuntimeError: mine"),
        ("t = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()", 0, "finished", ""),
        ("atexit.register(lambda: 1 / 0)", 0, "finished", "ZeroDivisionError"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT, "failed", "KeyboardInterrupt"),
    ],
)
def test_an_orderly_end_ships_everything_and_keeps_code_and_traceback(
    start: Start, receiver: OtlpReceiver, ending: str, code: int, state: str, said: str
) -> None:
    found, out, err = start(ENDINGS + ending).finish()
    assert (found, out) == (code, "accepted\n")
    assert said in err and bool(said) == bool(err)
    assert "glideslope" not in err
    assert counted(receiver, "x") == [float(number) for number in range(1, 2001)]
    assert [log.attributes["exit.state"] for log in receiver.logs("train.run.end")] == [state]


DAEMONS = """
import sys, threading, time
import glideslope
run = glideslope.init(run_id="daemons")
names = tuple(f"m{i}" for i in range(100))

def forever(number):
    step = 0
    while True:
        step += 1
        run.log_metrics(dict.fromkeys(names, 1.0), step=step)
        run.log_text("t", "x", step=step)
        run.log_metrics({"bad": None}, step=step)

for number in range(4):
    threading.Thread(target=forever, args=(number,), daemon=True).start()
time.sleep(0.5)
print("end", flush=True)
sys.exit(4)
"""


@pytest.mark.parametrize("listening", [True, False])
def test_daemon_threads_that_go_on_logging_at_exit_disturb_nothing(
    start: Start, receiver: OtlpReceiver, listening: bool
) -> None:
    if not listening:
        receiver.stop()
    script = start(DAEMONS, GLIDESLOPE_EXIT_TIMEOUT="1")
    assert script.process.stdout is not None
    assert script.process.stdout.readline() == "end\n"
    since = time.monotonic()
    code, _, err = script.finish()
    assert code == 4
    assert "Traceback" not in err and "Fatal" not in err
    # The bound is 1 s; a machine under load gets time to end four threads and the interpreter.
    assert time.monotonic() - since < 20


def test_exit_is_bounded_where_the_receiver_never_answers(start: Start, receiver: OtlpReceiver) -> None:
    receiver.answer(200, delay_s=60.0)
    script = start(ENDINGS, GLIDESLOPE_EXIT_TIMEOUT="1")
    assert script.process.stdout is not None
    assert script.process.stdout.readline() == "accepted\n"
    since = time.monotonic()
    assert script.finish()[0] == 0
    assert time.monotonic() - since < 20


HANDLERS = """
import atexit, gc, os, signal, sys, threading, time
import glideslope
run = glideslope.init(run_id="handlers")
atexit.register(lambda: run.log_metrics({"atexit": 1}, step=1))
fired = 0

def handler(signum, frame):
    global fired
    # A local name: the next signal may interrupt this handler.
    mine = fired = fired + 1
    run.log_metrics({"handler": mine, f"fresh{mine}": mine}, step=mine)

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
number = 0
deadline = time.monotonic() + 60
while fired < 200 and time.monotonic() < deadline:
    number += 1
    # New names each time: series are defined while handlers interrupt.
    run.log_metrics({"main": number, f"own{number % 300}": number}, step=number)
signal.setitimer(signal.ITIMER_REAL, 0)
print(number, fired, flush=True)
"""


def test_handlers_that_log_interrupt_our_writes_without_harm(start: Start, receiver: OtlpReceiver) -> None:
    script = start(HANDLERS)
    code, out, err = script.finish()
    assert (code, err) == (0, "")
    ship_the_rest(script, receiver)
    number, fired = map(int, out.split())
    stored = Stored(receiver)
    assert stored.of("main") == [float(value) for value in range(1, number + 1)]
    assert sorted(stored.of("handler")) == [float(value) for value in range(1, fired + 1)]
    for value in range(1, fired + 1):
        assert stored.of(f"fresh{value}") == [float(value)]
    assert stored.of("atexit") == [1.0]


FINALIZERS = """
import gc, os, sys
import glideslope
run = glideslope.init(run_id="finalizers")
made = 0

class Garbage:
    def __init__(self):
        self.me = self
    def __del__(self):
        global made
        mine = made = made + 1
        run.log_metrics({"finalized": mine, f"fresh{mine}": mine}, step=mine)

left = 0

def at_each_call(frame, event, argument):
    # The collector could run at any of these places; here it runs at each, with something to finalize.
    global left
    file = frame.f_code.co_filename
    if left and event == "call" and (f"{os.sep}emit{os.sep}" in file or f"{os.sep}ship{os.sep}" in file):
        left -= 1
        Garbage()
        gc.collect(0)

gc.disable()
for number in range(1, 31):
    left = 40
    sys.setprofile(at_each_call)
    run.log_metrics({"main": number, f"own{number}": number}, step=number)
    sys.setprofile(None)
print(made, flush=True)
"""


def test_finalizers_that_log_inside_our_own_append_do_no_harm(start: Start, receiver: OtlpReceiver) -> None:
    script = start(FINALIZERS)
    code, out, err = script.finish()
    assert (code, err) == (0, "")
    ship_the_rest(script, receiver)
    made = int(out)
    assert made >= 30
    stored = Stored(receiver)
    assert stored.of("main") == [float(value) for value in range(1, 31)]
    assert sorted(stored.of("finalized")) == [float(value) for value in range(1, made + 1)]
    for value in range(1, 31):
        assert stored.of(f"own{value}") == [float(value)]
    for value in range(1, made + 1):
        assert stored.of(f"fresh{value}") == [float(value)]


WITHOUT_TORCH = """
import sys, threading
import glideslope
assert "torch" not in sys.modules
run = glideslope.init()
run.log_metrics({"x": 1}, step=1)
run.close()
assert "torch" not in sys.modules
print(sorted(thread.name for thread in threading.enumerate()), flush=True)
"""


def test_a_process_without_torch_logs_and_closes_its_threads(start: Start, receiver: OtlpReceiver) -> None:
    code, out, err = start(WITHOUT_TORCH).finish()
    assert code == 0, err
    assert "glideslope-sender" not in out
    assert counted(receiver, "x") == [1.0]
