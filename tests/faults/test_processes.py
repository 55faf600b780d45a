# SPDX-License-Identifier: Apache-2.0
"""Processes begin and end in every way that trainings know: no hang, no duplicate, nothing lost that was accepted.

Real processes and real DataLoaders; the receiver is the only thing in memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glideslope.config import Export
from glideslope.emit import RequestEncoder
from glideslope.ship import sync
from glideslope.testing import OtlpReceiver

HANG_S = 300
"""A script that takes longer hangs: the slowest starts eight workers that import torch, on however few cores."""

Start = Callable[..., "Script"]


class Script:
    """A Python process with a spool of its own below `spool`."""

    def __init__(self, folder: Path, text: str, environ: dict[str, str]) -> None:
        self.spool = folder / "spool"
        path = folder / "train.py"
        path.write_text(textwrap.dedent(text))
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environ | {"GLIDESLOPE_HOME": str(folder), "GLIDESLOPE_SPOOL": str(self.spool)},
        )

    def finish(self) -> tuple[int, str, str]:
        """(exit code, stdout, stderr); fails when the process hangs."""
        try:
            out, err = self.process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"the process hangs: {out[-2000:]}\n{err[-2000:]}")
        return self.process.returncode, out, err

    def spools(self) -> list[str]:
        """Names of the folders that processes wrote to."""
        return sorted({path.parent.name for path in self.spool.rglob("*.seg")})


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as opened:
        yield opened


@pytest.fixture
def start(tmp_path: Path, receiver: OtlpReceiver) -> Iterator[Start]:
    began: list[Script] = []
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GLIDESLOPE_", "OTEL_"))}

    def run(text: str, **more: str) -> Script:
        environ = clean | {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OMP_NUM_THREADS": "1"} | more
        began.append(Script(tmp_path, text, environ))
        return began[-1]

    yield run
    for script in began:
        if script.process.poll() is None:
            script.process.kill()
            script.process.communicate()


def ship_the_rest(script: Script, receiver: OtlpReceiver) -> None:
    report = sync(script.spool, RequestEncoder, Export(endpoint=receiver.endpoint))
    assert (report.remaining_bytes, report.living) == (0, 0)


class Stored:
    """What a store with deduplication holds of the logged values, decoded once."""

    def __init__(self, receiver: OtlpReceiver) -> None:
        self._found: dict[tuple[Any, Any], dict[int, float]] = {}
        for point in receiver.metrics("train.metric"):
            key = (point.attributes["metric.name"], point.resource["dist.rank"])
            self._found.setdefault(key, {})[point.time_ns] = point.value

    def of(self, name: str, rank: int = 0) -> list[float]:
        """Values of one name by time, without the marker that ends a series: it decodes as 0, scripts log from 1."""
        found = self._found.get((name, rank), {})
        return [found[moment] for moment in sorted(found) if found[moment]]


def counted(receiver: OtlpReceiver, name: str, rank: int = 0) -> list[float]:
    """Values of one name and rank by time."""
    return Stored(receiver).of(name, rank)


def ranks(receiver: OtlpReceiver) -> set[Any]:
    return {point.resource["dist.rank"] for point in receiver.metrics()}


LOADER = """
import gc, os, sys, threading
import glideslope
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        gc.collect()
        if os.environ.get("INHERITED"):
            # The worker calls the run that it has from its parent by the fork.
            run.log_metrics({"worker": 1.0}, step=index)
        return torch.full((4,), float(index))

class Cycle:
    # Garbage with a finalizer that logs: collected in parent and workers alike.
    def __init__(self):
        self.me = self
    def __del__(self):
        if "run" in globals():
            run.log_metrics({"finalized": 1.0}, step=1)

def main(method):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Data(), batch_size=4, num_workers=8, multiprocessing_context=method)
    step = 0
    for epoch in range(int(os.environ["EPOCHS"])):
        for batch in loader:
            Cycle()
            step += 1
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            run.log_metrics({"mine": step, "loss": loss}, step=step)
    print(step, flush=True)

if __name__ == "__main__":
    run = glideslope.init(run_id="loader")
    # Its server imports torch once, not each worker.
    torch.multiprocessing.set_forkserver_preload(["torch", "torch.utils.data"])
    main(os.environ["METHOD"])
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_eight_loader_workers_neither_hang_nor_write(start: Start, receiver: OtlpReceiver, method: str) -> None:
    epochs = 2 if method == "fork" else 1
    script = start(LOADER, METHOD=method, INHERITED="1" if method == "fork" else "", EPOCHS=str(epochs))
    code, out, err = script.finish()
    assert (code, out) == (0, f"{16 * epochs}\n"), err
    assert counted(receiver, "mine") == [float(step) for step in range(1, 16 * epochs + 1)]
    assert counted(receiver, "worker") == []
    assert len(script.spools()) == 1 and ranks(receiver) == {0}
    steps = [point.value for point in receiver.metrics("train.step") if point.value]
    assert sorted(set(steps)) == [float(step) for step in range(1, 16 * epochs + 1)]


FORKS = """
import os, signal, sys, threading, time
import glideslope
run = glideslope.init(run_id="forks")
names = tuple(f"m{i}" for i in range(10_000))
stop = threading.Event()
calls = 0

def load():
    global calls
    while not stop.is_set():
        calls += 1
        run.log_metrics(dict.fromkeys(names, float(calls)), step=calls)
        # Each call is 10,000 values: the test has to decode them all.
        time.sleep(0.2)

thread = threading.Thread(target=load)
thread.start()
while calls < 2:
    time.sleep(0.01)
for number in range(1000):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a child that waits for a lock dies of it, and the parent sees that
        run.log_metrics({"child": 1.0}, step=number)
        run.log_metrics(dict.fromkeys(names, -1.0), step=number)
        run.log_text("child", "text")
        run.log_configs({"child": 1})
        if number % 100 == 0:
            run.close()
            sys.exit(0)
        os._exit(0)
    # Values of the parent between the forks must all be there.
    run.log_metrics({"parent": number + 1}, step=number)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        print("child", number, status, flush=True)
        os._exit(3)
stop.set()
thread.join()
print(calls, flush=True)
"""


def test_a_thousand_forks_under_load_neither_hang_nor_double(start: Start, receiver: OtlpReceiver) -> None:
    script = start(FORKS)
    code, out, err = script.finish()
    assert code == 0, (out[-500:], err[-2000:])
    ship_the_rest(script, receiver)
    calls = int(out)
    stored = Stored(receiver)
    assert stored.of("parent") == [float(number) for number in range(1, 1001)]
    for name in ("m0", "m4999", "m9999"):
        assert stored.of(name) == [float(call) for call in range(1, calls + 1)]
    assert stored.of("child") == []
    assert len(script.spools()) == 1
    assert receiver.logs("train.text") == [] and receiver.logs("train.config") == []
    assert len([log for log in receiver.logs("train.run.end")]) == 1


CHILDREN = """
import multiprocessing, os, sys
import glideslope

def work(number):
    if os.environ.get("INIT"):
        run = glideslope.init()
        assert glideslope.init() is run
        run.log_metrics({"child": number}, step=number)
    elif "run" in globals():
        globals()["run"].log_metrics({"child": number}, step=number)
    if os.environ.get("RAISES") and number == 2:
        raise ValueError("mistake in a child")

if __name__ == "__main__":
    run = glideslope.init(run_id="family", name="The family")
    run.log_metrics({"parent": 1}, step=1)
    context = multiprocessing.get_context(os.environ["METHOD"])
    children = [context.Process(target=work, args=(number,)) for number in (1, 2, 3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    run.log_metrics({"parent": 2}, step=2)
    print([child.exitcode for child in children], flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_that_call_init_join_the_run_with_a_spool_of_their_own(
    start: Start, receiver: OtlpReceiver, method: str
) -> None:
    script = start(CHILDREN, METHOD=method, INIT="1")
    code, out, err = script.finish()
    assert (code, out) == (0, "[0, 0, 0]\n"), err
    assert counted(receiver, "parent") == [1.0, 2.0]
    for rank in (1, 2, 3):
        assert counted(receiver, "child", rank) == [float(rank)]
    assert [name.partition("-")[0] for name in script.spools()] == ["rank0", "rank1", "rank2", "rank3"]
    assert {point.resource["run.id"] for point in receiver.metrics()} == {"family"}
    assert len(receiver.logs("train.run.end")) == 4


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_that_do_not_call_init_leave_no_trace(start: Start, receiver: OtlpReceiver, method: str) -> None:
    script = start(CHILDREN, METHOD=method)
    code, out, err = script.finish()
    assert (code, out) == (0, "[0, 0, 0]\n"), err
    assert counted(receiver, "parent") == [1.0, 2.0]
    assert len(script.spools()) == 1 and ranks(receiver) == {0}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_that_raises_says_so_in_its_end(start: Start, receiver: OtlpReceiver, method: str) -> None:
    code, out, _ = start(CHILDREN, METHOD=method, INIT="1", RAISES="1").finish()
    assert (code, out) == (0, "[0, 1, 0]\n")
    ends = {log.resource["dist.rank"]: log.attributes["exit.state"] for log in receiver.logs("train.run.end")}
    assert ends == {0: "finished", 1: "finished", 2: "failed", 3: "finished"}


REVIVED = """
import os
import glideslope
run = glideslope.init(run_id="parent")
run.log_metrics({"x": 1}, step=1)
pid = os.fork()
if pid == 0:
    run.log_metrics({"x": 100}, step=1)
    again = glideslope.init(run_id="child")
    assert again is run and run.run_id == "child"
    run.log_metrics({"y": 2}, step=1)
    run.close()
    os._exit(0)
os.waitpid(pid, 0)
run.log_metrics({"x": 2}, step=2)
"""


def test_a_forked_child_is_silent_until_it_calls_init(start: Start, receiver: OtlpReceiver) -> None:
    script = start(REVIVED)
    assert script.finish()[0] == 0
    assert counted(receiver, "x") == [1.0, 2.0]
    assert counted(receiver, "y") == [2.0]
    assert len(script.spools()) == 2
    assert {log.resource["run.id"] for log in receiver.logs("train.run.end")} == {"parent", "child"}


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
