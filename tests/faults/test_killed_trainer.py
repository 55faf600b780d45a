# SPDX-License-Identifier: Apache-2.0
"""A trainer that dies in the middle loses nothing that it had accepted."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reconcile import ROUNDS, Trainer, seeded, settle

from glideslope.config import Export
from glideslope.emit import RequestEncoder
from glideslope.ship import sync
from glideslope.store.victoria import Victoria
from glideslope.testing import OtlpReceiver

CHILD = """
import os, signal, sys, time
from pathlib import Path
from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import MetricsLogged
from glideslope.ship import open_shipper

folder, endpoint, pause, ending = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
shipper = open_shipper(folder, RequestEncoder(), Export(endpoint=endpoint), segment_bytes=20_000)
resource = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
writer = EventWriter(resource, shipper.append)
for number in range(int(sys.argv[5])):
    writer.write(MetricsLogged(time.time_ns(), number, ("x",), (float(number),)))
    os.write(1, b"%d\\n" % number)
    time.sleep(pause)
if ending == "os._exit":
    os._exit(0)
if ending == "SIGTERM":
    os.kill(os.getpid(), signal.SIGTERM)
"""


def start(
    folder: Path, endpoint: str, pause: float, ending: str = "", count: int = 10_000_000
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(folder), endpoint, str(pause), ending, str(count)]
    # Unbuffered: what readline leaves in a buffer, communicate does not see.
    return subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def accepted(output: bytes) -> int:
    """How many values the child had accepted for sure; its last line may be torn."""
    return output.count(b"\n")


def samples(receiver: OtlpReceiver) -> set[tuple[int, float]]:
    """(time, value) as a store with deduplication sees them."""
    return {(point.time_ns, point.value) for point in receiver.metrics("train.metric")}


def test_a_trainer_that_is_killed_at_random_moments_misses_and_doubles_nothing(
    private_stack: Callable[..., Any], tmp_path: Path
) -> None:
    rng, stack = seeded(), private_stack("live", "collector")
    trainers: list[Trainer] = []
    removed = 0
    with Victoria(stack.live) as store:
        for number in range(ROUNDS):
            trainer = Trainer(tmp_path, stack.otlp_http, "r", number, pause_s=rng.choice([0.0002, 0.002, 0.02]))
            trainers.append(trainer)
            try:
                trainer.wait_for_steps(1)
                time.sleep(rng.uniform(0.0, 1.5))
            finally:
                trainer.kill()
            report = sync(tmp_path / "spool", RequestEncoder, Export(endpoint=stack.otlp_http))
            assert (report.remaining_bytes, report.dropped, report.living) == (0, 0, 0), report
            assert report.kept >= 1, "the newest cannot be durable yet"
            removed += report.removed
            assert report.kept + removed == number + 1
            total = settle(store, [trainer], 10)
            assert total.exact, (number, total)
        total = settle(store, trainers, 10)
    print(f"rounds={ROUNDS} {total} removed={removed}")
    assert total.exact, total
    assert total.points >= ROUNDS


@pytest.mark.parametrize("seed", range(8))
def test_every_accepted_value_of_a_killed_trainer_arrives_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    spool = tmp_path / "r" / "0" / "rank0-1"
    with OtlpReceiver() as receiver:
        if seed % 2:
            receiver.stop()
        child = start(spool, receiver.endpoint, rng.choice([0.0, 0.0001, 0.002]))
        assert child.stdout is not None
        head = child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.7))
        child.kill()
        count = accepted(head + child.communicate()[0])
        receiver.start()
        report = sync(tmp_path, RequestEncoder, Export(endpoint=receiver.endpoint))
        found = samples(receiver)
        numbers = sorted(value for _, value in found)
        assert numbers == [float(number) for number in range(len(numbers))]
        assert count <= len(numbers) <= count + 1
        assert (report.remaining_bytes, report.dropped, report.living) == (0, 0, 0)
        assert len({moment for moment, _ in found}) == len(found)


@pytest.mark.parametrize("ending", ["os._exit", "SIGTERM"])
def test_an_abrupt_end_leaves_everything_on_disk(tmp_path: Path, ending: str) -> None:
    with OtlpReceiver() as receiver:
        receiver.stop()
        child = start(tmp_path / "spool", receiver.endpoint, 0.0, ending, 5000)
        output, _ = child.communicate(timeout=60)
        assert child.returncode == (0 if ending == "os._exit" else -signal.SIGTERM)
        assert accepted(output) == 5000
        receiver.start()
        sync(tmp_path, RequestEncoder, Export(endpoint=receiver.endpoint))
        assert sorted(value for _, value in samples(receiver)) == [float(number) for number in range(5000)]


def test_a_living_trainer_keeps_its_spool_from_sync(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        child = start(tmp_path / "spool", receiver.endpoint, 0.01)
        try:
            assert child.stdout is not None
            child.stdout.readline()
            report = sync(tmp_path, RequestEncoder, Export(endpoint=receiver.endpoint))
            assert (report.living, report.spools) == (1, 0)
        finally:
            child.kill()
            child.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_costs_only_what_is_declared(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting is not permitted here")
    code = """
import sys, time
from pathlib import Path
from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import MetricsLogged
from glideslope.ship import open_shipper
disk = Path(sys.argv[1])
shipper = open_shipper(disk / "spool", RequestEncoder(), Export(endpoint=sys.argv[2]), segment_bytes=20_000)
resource = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
writer = EventWriter(resource, shipper.append)
for number in range(20_000):
    writer.write(MetricsLogged(time.time_ns(), number, ("x",), (float(number),)))
lost = shipper.stats().dropped["metrics", "disk"]
(disk / "spool" / "00000001.seg").unlink()
time.sleep(1.0)
for number in range(20_000, 20_010):
    writer.write(MetricsLogged(time.time_ns(), number, ("x",), (float(number),)))
print(lost, shipper.stats().dropped["metrics", "disk"])
"""
    try:
        with OtlpReceiver() as receiver:
            receiver.stop()
            command = [sys.executable, "-c", code, str(disk), receiver.endpoint]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            before, after = map(int, done.stdout.split())
            assert 0 < before == after
            receiver.start()
            report = sync(disk, RequestEncoder, Export(endpoint=receiver.endpoint))
            numbers = sorted(value for _, value in samples(receiver))
            assert report.damaged == 0
            assert set(range(20_000, 20_010)) <= set(numbers)
            assert len(numbers) < 20_010 - before
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
