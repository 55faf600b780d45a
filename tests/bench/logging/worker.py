# SPDX-License-Identifier: Apache-2.0
"""One process of the benchmark: log steps with one tool, and either time each call or die at once after the last.

In: one JSON argument (see `Job` in `run.py`). Out: a JSON file with times and CPU, or nothing when it kills itself.
Runs in the tool's environment: imports `tools` and the standard library (`array` jobs need numpy).
"""

# ruff: noqa: PLC0415

import hashlib
import json
import os
import random
import signal
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from tools import TOOLS

VARIETIES = 16
_BLOCK = bytes(range(256)) * 1024


def names_of(count: int) -> list[str]:
    return [f"layers/{i // 40}/attn/w{i % 40}/grad_norm" for i in range(count)]


def descendants() -> list[int]:
    """Processes below this one, by /proc."""
    parent: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while more := {pid for pid, above in parent.items() if above in found} - found:
        found |= more
    return sorted(found - {os.getpid()})


def tree_cpu() -> float:
    """CPU seconds so far of this process and all below it."""
    total = 0
    for pid in (os.getpid(), *descendants()):
        try:
            fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def work(seconds: float) -> None:
    """Stand-in for the rest of a training step: keeps the core awake, passes 256 KiB at a time through its caches and
    leaves the interpreter to other threads, as PyTorch does. A sleep would let the core doze and time its waking."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        hashlib.sha256(_BLOCK)


def rounds_of_values(tool: str, names: list[str]) -> list[object]:
    """Different values for successive steps; every dict has key objects of its own, as a loop with f-strings makes.
    They are copied just before they are logged, as values that a training has just made."""
    chance = random.Random(0)
    return [step_values(tool, [chance.gauss(0, 1) for _ in names]) for _ in range(VARIETIES)]


def step_values(tool: str, row: list[float]) -> object:
    if tool.endswith("-array"):
        import numpy as np

        return np.array(row, np.float64)
    return dict(zip(names_of(len(row)), row, strict=True))


def timed(job: dict, tool: object, names: list[str]) -> None:
    log, pool = tool.log, rounds_of_values(job["tool"], names)
    numbers, until = count(), time.monotonic() + job["limit_s"] / 3
    for _ in range(job["warm"]):
        step = next(numbers)
        log(step, pool[step % VARIETIES].copy())
        work(job["pause_s"])
        if time.monotonic() > until:
            break
    cpu = tree_cpu()
    paced = calls(job, log, pool, numbers, job["pause_s"])
    rushed = calls(job, log, pool, numbers, 0.0)
    times = {"paced_ns": paced, "rushed_ns": rushed, "logged": next(numbers), "cpu_s": cpu, "closing": time.monotonic()}
    Path(job["result"]).write_text(json.dumps(times))
    tool.close()


def calls(job: dict, log: Callable, pool: list, numbers: Iterator[int], pause: float) -> list[int]:
    """Nanoseconds of each call."""
    clock, spent, until = time.perf_counter_ns, [], time.monotonic() + job["limit_s"]
    while len(spent) < job["steps"] and (time.monotonic() < until or len(spent) < job["at_least"]):
        step = next(numbers)
        values = pool[step % VARIETIES].copy()
        before = clock()
        log(step, values)
        spent.append(clock() - before)
        if pause:
            work(pause)
    return spent


def replayed(job: dict, tool: object, names: list[str]) -> None:
    values = array("d", Path(job["replay"]).read_bytes())
    for step in range(job["steps"]):
        tool.log(step, dict(zip(names, values[step * len(names) : (step + 1) * len(names)], strict=True)))
    done = {"paced_ns": [], "rushed_ns": [], "logged": job["steps"], "cpu_s": 0.0, "closing": time.monotonic()}
    Path(job["result"]).write_text(json.dumps(done))
    tool.close()


def killed(job: dict, tool: object, names: list[str]) -> None:
    """Every value of a step is its number, so that what is found later tells which steps are whole."""
    log, steps = tool.log, job["steps"]
    pool = [step_values(job["tool"], [float(step)] * len(names)) for step in range(1, steps + 1)]
    due = time.monotonic()
    for step, values in enumerate(pool[:-1], 1):
        log(step, values)
        due += job["pause_s"]
        time.sleep(max(0.0, due - time.monotonic()))
    below = descendants()
    log(steps, pool[-1])
    for pid in below:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    job = json.loads(sys.argv[1])
    replay = job["replay"]
    names = Path(f"{replay}.names").read_text().splitlines() if replay else names_of(job["count"])
    tool = TOOLS[job["tool"]](Path(job["folder"]), names, job["endpoint"])
    (killed if job["kill"] else replayed if replay else timed)(job, tool, names)


if __name__ == "__main__":  # neptune-scale spawns its own process from this file
    main()
