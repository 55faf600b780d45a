# SPDX-License-Identifier: Apache-2.0
"""A trainer process to kill, its independent record of what it logged, and the comparison with what the store holds.

GLIDESLOPE_FAULT_ROUNDS is the number of rounds of each kill test (default 3; a full run takes 50),
GLIDESLOPE_FAULT_SEED their seed (default: another one each time; it is printed).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from waiting import until

from glideslope.stack import process
from glideslope.stack.binaries import ensure
from glideslope.stack.daemon import healthy
from glideslope.stack.programs import PROGRAMS, Place, command
from glideslope.stack.recipes import RECIPES
from glideslope.stack.settings import prepare
from glideslope.store.victoria import Victoria

ROUNDS = int(os.environ.get("GLIDESLOPE_FAULT_ROUNDS", "3"))
SERIES = 5

CHILD = """
import os, sys, time
from pathlib import Path
from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import Heartbeat, MetricsLogged, StepDone
from glideslope.ship import open_shipper

folder, endpoint, run, attempt, record, pause, retain, series = sys.argv[1:]
shipper = open_shipper(
    Path(folder), RequestEncoder(), Export(endpoint=endpoint), segment_bytes=50_000, retain_s=float(retain)
)
resource = {"service.name": "t", "run.id": run, "run.attempt": int(attempt), "dist.rank": 0, "host.name": "h"}
writer = EventWriter(resource, shipper.append)
names = tuple(f"loss/{i}" for i in range(int(series)))
file = os.open(record, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
number, last, beat = 0, 0, 0.0
while not os.path.exists(record + ".stop"):
    # Deduplication keeps one value a millisecond.
    last = max(last + 1, time.time_ns() // 1_000_000)
    values = [float(number * 10 + i) for i in range(len(names))]
    writer.write(MetricsLogged(last * 1_000_000, number, names, values, True))
    # The value counts as accepted now, and only now stands in the record.
    os.write(file, b"%d %d\\n" % (number, last))
    if time.monotonic() - beat > 1.0:
        beat = time.monotonic()
        writer.write(Heartbeat(time.time_ns(), number))
        writer.write(StepDone(number, time.time_ns() - 1000, time.time_ns(), loss=1.0))
    number += 1
    time.sleep(float(pause))
done = shipper.flush(60)
stats = shipper.stats()
os.write(1, b"%d %d %d" % (done, stats.replayed_points, sum(n for c, n in stats.dropped.items() if c[0] == "metrics")))
os._exit(0)
"""


def seeded() -> random.Random:
    """The generator of a test; its seed is printed."""
    seed = int(os.environ.get("GLIDESLOPE_FAULT_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"GLIDESLOPE_FAULT_SEED={seed}")
    return random.Random(seed)


@dataclass
class Trainer:
    """A child process that logs steps until it is killed or told to stop."""

    root: Path
    endpoint: str
    run: str
    attempt: int = 0
    pause_s: float = 0.002
    retain_s: float = 30.0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        words = [self.spool, self.endpoint, self.run, self.attempt, self.record, self.pause_s, self.retain_s, SERIES]
        command = [sys.executable, "-c", CHILD, *map(str, words)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)

    @property
    def spool(self) -> Path:
        return self.root / "spool" / self.run / str(self.attempt) / "rank0-1"

    @property
    def record(self) -> Path:
        return self.root / f"{self.run}-{self.attempt}.record"

    def accepted(self) -> dict[int, int]:
        """Time in ms by number of every step that was accepted for sure; a torn last line is none."""
        lines = self.record.read_bytes().split(b"\n")[:-1] if self.record.exists() else []
        return {int(number): int(moment) for number, moment in (line.split() for line in lines)}

    def wait_for_steps(self, count: int) -> None:
        until(lambda: len(self.accepted()) >= count or self.process.poll() is not None, f"{count} steps", 60)
        assert self.process.poll() is None, "the trainer ended by itself"

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def finish(self) -> tuple[bool, int, int]:
        """Let it flush and end; (all was acknowledged, points sent again, points dropped)."""
        Path(f"{self.record}.stop").touch()
        output, _ = self.process.communicate(timeout=90)
        done, replayed, dropped = map(int, output.split())
        return bool(done), replayed, dropped


@dataclass
class Count:
    """What a comparison found."""

    points: int = 0
    missing: int = 0
    doubled: int = 0
    wrong: int = 0

    @property
    def exact(self) -> bool:
        return (self.missing, self.doubled, self.wrong) == (0, 0, 0)


def compare(store: Victoria, trainer: Trainer) -> Count:
    """Compare series by series and value by value what the store holds of an attempt with the trainer's record."""
    store.flush()
    accepted = trainer.accepted()
    matcher = f'{{__name__="train_metric",run_id="{trainer.run}",run_attempt="{trainer.attempt}"}}'
    found = Count(points=len(accepted) * SERIES)
    series = {one.labels["metric_name"]: one for one in store.export(matcher)}
    expected = {f"loss/{index}" for index in range(SERIES)}
    found.wrong += len(set(series) - expected)
    numbers = np.array(sorted(accepted), np.int64)
    moments = np.array([accepted[number] for number in numbers], np.int64)
    for index in range(SERIES):
        one = series.get(f"loss/{index}")
        if one is None:
            found.missing += len(numbers)
            continue
        times, values = np.array(one.timestamps_ms, np.int64), np.array(one.values)
        found.doubled += len(times) - len(np.unique(times))
        place = np.minimum(np.searchsorted(times, moments), len(times) - 1)
        there = times[place] == moments
        found.missing += int(np.sum(~there))
        found.wrong += int(np.sum(values[place][there] != (numbers * 10 + index)[there]))
        # The last step may be stored and not in the record: the process died between the two.
        extra = len(np.setdiff1d(times, moments))
        found.wrong += max(0, extra - 1) if trainer.process.poll() is not None else 0
    if accepted and found.exact:
        found.doubled += _counted_twice(store, matcher, numbers, moments)
    return found


def _counted_twice(store: Victoria, matcher: str, numbers: Any, moments: Any) -> int:
    """What `count_over_time` sees beyond one value for each series and step."""
    first, last = int(moments[0]), int(moments[-1])
    window = f"{last - first + 1}ms"
    rows = store.query(f"count_over_time({matcher}[{window}])", time_s=last / 1000, latency_offset_s=0)
    return sum(max(0, int(row.value) - len(numbers)) for row in rows)


class Killable:
    """Programs of a stack that is not started, run by the test: its supervisor waits longer from crash to crash."""

    def __init__(self, stack: Any, *names: str) -> None:
        self.place = Place.native(stack.home, stack.ports)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        prepare(stack.home, stack.ports)
        self.start(*names)

    def start(self, *names: str) -> None:
        """Start programs and wait until they answer."""
        for name in names:
            program = PROGRAMS[name]
            words = command(program, ensure(RECIPES[program.binary], self.place.home), self.place)
            log = self.place.home.log / f"{name}.log"
            self._running[name] = process.start(words, program.environment(self.place), log, self.place.home.root)
        for name in names:
            until(lambda program=PROGRAMS[name]: healthy(self.place, program), f"{name} up", 60)

    def kill(self, *names: str) -> None:
        """SIGKILL them all, then wait for all."""
        for name in names:
            self._running[name].kill()
        for name in names:
            self._running.pop(name).wait()

    def stop(self) -> None:
        """End what runs."""
        self.kill(*list(self._running))


def settle(store: Victoria, trainers: list[Trainer], timeout_s: float = 60.0) -> Count:
    """Compare until nothing is missing, at most so long; returns the last sum over all trainers."""
    deadline = time.monotonic() + timeout_s
    while True:
        total = Count()
        for trainer in trainers:
            one = compare(store, trainer)
            total.points += one.points
            total.missing += one.missing
            total.doubled += one.doubled
            total.wrong += one.wrong
        if total.exact or time.monotonic() > deadline:
            return total
        time.sleep(0.2)


def ended_exactly(store: Victoria, trainer: Trainer) -> int:
    """Let a trainer flush and end; fails unless the store has all that it logged, once; returns points sent again."""
    done, replayed, dropped = trainer.finish()
    total = settle(store, [trainer], 30)
    print(f"rounds={ROUNDS} {total} replayed={replayed} dropped={dropped}")
    assert done
    assert total.exact, total
    assert total.points > 100
    assert dropped == 0
    return replayed
