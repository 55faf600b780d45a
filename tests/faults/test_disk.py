# SPDX-License-Identifier: Apache-2.0
"""Whatever the disk under the spool does, the training goes on, what is lost is declared by class, and it recovers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import until

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder, frames
from glideslope.events import LayerStats, StepDone
from glideslope.ship import Shipper, open_shipper
from glideslope.ship.reader import SpoolReader
from glideslope.ship.space import RETRY_S
from glideslope.ship.spool import SpoolWriter
from glideslope.testing import OtlpReceiver

LAYERS = tuple(f"blocks.{index}.weight" for index in range(1000))
RESOURCE = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}
NOBODY = 65534
LOOK_S = 0.1

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 2 MiB of its own."""
    # Not below tmp_path, whose folders are closed to other users.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        mount("-t", "tmpfs", "-o", "size=2m,mode=0777", "tmpfs", str(folder))
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    finally:
        folder.rmdir()


class Training:
    """Logs a loss and a thousand layer norms a step; knows how many points it logged by class."""

    def __init__(self, folder: Path, endpoint: str, **settings: Any) -> None:
        self.shipper: Shipper = open_shipper(
            folder, RequestEncoder(), Export(endpoint=endpoint, **settings), segment_bytes=200_000
        )
        self.points = {"metrics": 0, "layers": 0}
        self.writer = EventWriter(RESOURCE, self._append)
        self.losses: list[float] = []
        self.norms = 0
        self.rng = np.random.default_rng(3)

    def _append(self, kind: int, payload: bytes) -> None:
        if frames.frame_type(kind) == frames.VALUES:
            name = frames.CLASS_NAMES[kind >> 4]
            self.points[name] += int(np.isfinite(frames.unpack_row(payload).values).sum())
        self.shipper.append(kind, payload)

    def step(self, *, layers: bool = True) -> None:
        number, now = len(self.losses) + 1, time.time_ns()
        self.losses.append(float(self.rng.uniform(1, 9)))
        self.writer.write(StepDone(number, now - 1_000_000, now, loss=self.losses[-1]))
        if layers:
            values = self.rng.uniform(1, 9, (len(LAYERS), 1))
            self.writer.write(LayerStats(number, now, "grad", LAYERS, ("norm",), values))
            self.norms += 1

    def dropped(self, name: str) -> int:
        return sum(n for (kind, _), n in self.shipper.stats().dropped.items() if kind == name)


def arrived(receiver: OtlpReceiver) -> dict[str, set[tuple[str, int, float]]]:
    """Points by class, once each."""
    found: dict[str, set[tuple[str, int, float]]] = {"metrics": set(), "layers": set()}
    for point in receiver.metrics():
        kind = "layers" if point.name == "train.layer" else "metrics"
        found[kind].add((f"{point.name} {sorted(point.attributes.items())}", point.time_ns, point.value))
    return found


def reconciled(receiver: OtlpReceiver, training: Training) -> None:
    """What arrived and what was declared as dropped is what was logged, class by class."""
    found = arrived(receiver)
    for name, logged in training.points.items():
        # A row that the disk refused is counted whole, with the absent values in it.
        assert len(found[name]) + training.dropped(name) >= logged, name
        if training.dropped(name) == 0:
            assert len(found[name]) == logged, name
    layers = len(found["layers"]) + training.dropped("layers")
    assert layers == training.points["layers"]


def fill(disk: Path) -> Path:
    """Take all space that is left, to the last byte."""
    path = disk / "filler"
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


@needs_root
def test_a_disk_that_fills_up_takes_layers_first_and_the_loss_last(
    disk: Path, receiver: OtlpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.stop()
    training = Training(disk / "spool", receiver.endpoint)
    while training.dropped("layers") == 0:
        training.step()
    # There is room left, and it belongs to the metrics.
    for _ in range(200):
        training.step()
    assert training.dropped("metrics") == 0
    assert "telemetry is being dropped" in caplog.text
    filler = fill(disk)
    while training.dropped("metrics") == 0:
        training.step()
    filler.unlink()
    before = training.dropped("metrics")
    time.sleep(RETRY_S + 0.1)
    for _ in range(200):
        training.step()
    assert training.dropped("metrics") == before
    receiver.start()
    assert training.shipper.flush(60)
    # What was acknowledged makes room at once, though it would be kept for half a minute otherwise.
    until(lambda: os.statvfs(disk).f_bavail * 4096 > 3 << 19, "acknowledged segments are gone")

    def stored_again() -> bool:
        refused = training.dropped("layers")
        training.step()
        return training.dropped("layers") == refused and "stored again" in caplog.text

    until(stored_again, "layers are stored again, and the log says so")
    assert training.shipper.flush(60)
    reconciled(receiver, training)
    assert training.shipper.close(10)


@needs_root
def test_a_full_disk_is_asked_again_at_a_bounded_rate(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(disk / "spool", quota_bytes=1 << 30)
    payload = np.uint32([1, 1]).tobytes() + bytes(500)
    writer.append(frames.kind(frames.METRICS, frames.VALUES), payload)
    fill(disk)
    calls = []
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: calls.append(1) or real(fd, parts))
    begun = time.monotonic()
    while len(calls) < 3 and time.monotonic() - begun < 30:
        for _ in range(1000):
            writer.append(frames.kind(frames.METRICS, frames.VALUES), payload)
    spent = time.monotonic() - begun
    # The page that was begun takes some records before the disk refuses.
    assert len(calls) <= 20 + 2 * spent / 0.5
    assert writer.dropped["metrics", "disk"] > 900
    writer.close()


@needs_root
def test_a_record_that_the_disk_took_half_is_cut_off(disk: Path) -> None:
    writer = SpoolWriter(disk / "spool", quota_bytes=1 << 30)
    kind = frames.kind(frames.METRICS, frames.VALUES)
    sizes = [100, 3_000, 30_000, 90_000]
    stored = []
    for number in range(400):
        before = dict(writer.dropped)
        payload = np.uint32([1, 1, number]).tobytes() + bytes(sizes[number % 4])
        writer.append(kind, payload)
        if writer.dropped == before:
            stored.append(number)
    assert writer.dropped["metrics", "disk"] == 400 - len(stored)
    writer.close()
    reader = SpoolReader(writer.directory, live=lambda: False)
    found = []
    while records := reader.read(1 << 20):
        found += [int(np.frombuffer(record.payload, np.uint32, 3)[2]) for record in records]
    assert found == stored
    assert reader.damaged == 0
    # Small ones still found room after the first large one had not.
    assert any(b - a > 1 for a, b in zip(stored, stored[1:], strict=False))


def test_the_quota_of_the_spool_drops_by_class_and_recovers(tmp_path: Path, receiver: OtlpReceiver) -> None:
    receiver.stop()
    training = Training(tmp_path / "spool", receiver.endpoint, quota_bytes=1 << 20)
    while training.dropped("layers") == 0:
        training.step()
    for _ in range(300):
        training.step()
    assert training.dropped("metrics") == 0
    receiver.start()
    assert training.shipper.flush(60)
    until(lambda: sum(p.stat().st_size for p in training.shipper.directory.glob("*.seg")) < 1 << 19, "room is made")
    dropped = training.dropped("layers")
    training.step()
    assert training.dropped("layers") == dropped
    assert training.shipper.close(30)
    reconciled(receiver, training)


@needs_root
def test_a_read_only_disk_at_the_start_becomes_writable_later(disk: Path, receiver: OtlpReceiver) -> None:
    mount("-o", "remount,ro", str(disk))
    training = Training(disk / "spool", receiver.endpoint)
    for _ in range(20):
        training.step()
    assert training.dropped("layers") == training.points["layers"] == 20 * len(LAYERS)
    mount("-o", "remount,rw", str(disk))
    time.sleep(RETRY_S + 0.1)
    training.step()
    assert training.shipper.flush(30)
    assert training.dropped("layers") == 20 * len(LAYERS)
    losses = [point.value for point in receiver.metrics("train.loss")]
    assert losses == training.losses[20:]
    reconciled(receiver, training)
    assert training.shipper.close(10)


@needs_root
def test_a_disk_that_breaks_under_the_spool_hurts_nobody(tmp_path: Path, receiver: OtlpReceiver) -> None:
    """An ext4 whose device stops answering: everything fails with EIO, for good."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    mount("-o", "loop", str(image), str(folder))
    try:
        training = Training(folder / "spool", receiver.endpoint)
        for _ in range(50):
            training.step()
        assert training.shipper.flush(30)
        assert training.dropped("metrics") == training.dropped("layers") == 0
        shut_down(folder)
        for _ in range(50):
            training.step()
        assert training.dropped("layers") == 50 * len(LAYERS)
        assert {point.value for point in receiver.metrics("train.loss")} == set(training.losses[:50])
        training.shipper.close(5)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def shut_down(folder: Path) -> None:
    """EXT4_IOC_SHUTDOWN without flushing the log: the file system behaves as if its device were gone."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, 0x8004587D, np.uint32([2]).tobytes())
    except OSError as error:
        pytest.skip(f"this kernel cannot shut a file system down: {error}")
    finally:
        os.close(handle)


@needs_root
def test_a_folder_that_may_not_be_written_is_used_once_it_may(receiver: OtlpReceiver) -> None:
    """As a user without rights, in a child."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    told, tell = os.pipe()
    go_on, goes_on = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(60)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            training = Training(folder / "spool", receiver.endpoint)
            training.step()
            os.write(tell, str(training.dropped("layers")).encode())
            os.read(go_on, 1)
            time.sleep(RETRY_S + 0.1)
            training.step()
            status = 0 if training.shipper.close(30) and training.dropped("layers") == len(LAYERS) else 2
        finally:
            os._exit(status)
    try:
        assert int(os.read(told, 100)) == len(LAYERS)
        folder.chmod(0o777)
        os.write(goes_on, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(receiver.metrics("train.loss")) == 1
        assert len(receiver.metrics("train.layer")) == len(LAYERS)
    finally:
        for end in (told, tell, go_on, goes_on):
            os.close(end)
        shutil.rmtree(folder)


def test_a_file_in_the_way_of_the_folder_is_counted_and_tried_again(tmp_path: Path, receiver: OtlpReceiver) -> None:
    (tmp_path / "run").write_text("no folder")
    training = Training(tmp_path / "run" / "spool", receiver.endpoint)
    for _ in range(10):
        training.step()
    assert training.dropped("layers") == 10 * len(LAYERS)
    (tmp_path / "run").unlink()
    time.sleep(RETRY_S + 0.1)
    training.step()
    assert training.shipper.close(30)
    assert [point.value for point in receiver.metrics("train.loss")] == training.losses[10:]


def test_a_folder_deleted_under_a_running_process_is_made_again(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glideslope.ship.space._LOOK_S", LOOK_S)
    training = Training(tmp_path / "spool", receiver.endpoint)
    training.step()
    assert training.shipper.flush(30)
    shutil.rmtree(tmp_path / "spool")
    time.sleep(2 * LOOK_S)
    training.step()
    assert list((tmp_path / "spool").glob("*.seg"))
    assert training.shipper.close(30)
    reconciled(receiver, training)
    assert [point.value for point in receiver.metrics("train.loss")] == training.losses


def test_values_deleted_before_they_were_sent_are_declared(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glideslope.ship.space._LOOK_S", LOOK_S)
    receiver.answer(503)
    training = Training(tmp_path / "spool", receiver.endpoint)
    for _ in range(400):
        training.step()
    assert len(list((tmp_path / "spool").glob("*.seg"))) > 10
    shutil.rmtree(tmp_path / "spool")
    time.sleep(2 * LOOK_S)
    training.step()
    receiver.answer(200)
    assert training.shipper.flush(60)
    training.shipper.close(10)
    reconciled(receiver, training)


def test_a_process_without_free_file_descriptors_goes_on_in_its_segment(tmp_path: Path, receiver: OtlpReceiver) -> None:
    training = Training(tmp_path / "spool", receiver.endpoint)
    training.step()
    assert training.shipper.flush(30)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        # Several segments' worth.
        for _ in range(100):
            training.step()
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert training.dropped("metrics") == training.dropped("layers") == 0
    assert training.shipper.close(60)
    reconciled(receiver, training)


def test_a_limit_on_file_sizes_makes_smaller_segments(tmp_path: Path, receiver: OtlpReceiver) -> None:
    """RLIMIT_FSIZE: Python ignores SIGXFSZ, so that writes fail with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    training = Training(tmp_path / "spool", receiver.endpoint)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, hard))
        for _ in range(50):
            training.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert training.dropped("metrics") == training.dropped("layers") == 0
    sizes = [path.stat().st_size for path in (tmp_path / "spool").glob("*.seg")]
    assert len(sizes) > 5
    assert max(sizes) <= 70_000
    assert training.shipper.close(60)
    reconciled(receiver, training)
