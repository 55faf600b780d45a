# SPDX-License-Identifier: Apache-2.0
"""Processes that begin other processes: no hang, no duplicate, and children log only when they ask to.

Real processes and real DataLoaders; the receiver is the only thing in memory.
"""

from __future__ import annotations

import pytest
from scripts import Start, Stored, counted, ranks, ship_the_rest

from glideslope.testing import OtlpReceiver

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
