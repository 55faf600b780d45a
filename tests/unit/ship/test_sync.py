# SPDX-License-Identifier: Apache-2.0
"""What dead processes left is shipped: once, resumable, without touching what lives."""

import json
import os
import time

import pytest

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.errors import SpoolError
from glideslope.events import MetricsLogged
from glideslope.ship import liveness, sync
from glideslope.ship.spool import SpoolWriter

RESOURCE = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}


def leave(folder, first, last, dead=True):
    """A spool as a process leaves it that was killed."""
    spool = SpoolWriter(folder, quota_bytes=1 << 30, segment_bytes=2000)
    writer = EventWriter(RESOURCE, spool.append)
    for number in range(first, last):
        writer.write(MetricsLogged(time.time_ns(), number, ("x",), (float(number),)))
    spool.close()
    if dead:
        marker = json.loads((folder / liveness.WRITER).read_text())
        (folder / liveness.WRITER).write_text(json.dumps(marker | {"started": "1"}))


def values(receiver):
    return sorted(point.value for point in receiver.metrics("train.metric"))


@pytest.fixture
def root(tmp_path):
    leave(tmp_path / "r" / "0" / "rank0-1", 0, 100)
    leave(tmp_path / "r" / "0" / "rank1-2", 100, 200)
    return tmp_path


def test_everything_is_shipped_once_and_a_second_time_nothing(root, receiver, export):
    seen = []
    report = sync(root, RequestEncoder, export, progress=lambda done, total: seen.append((done, total)))
    assert (report.spools, report.sent_points, report.remaining_bytes, report.dropped) == (2, 200, 0, 0)
    assert values(receiver) == [float(n) for n in range(200)]
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0
    again = sync(root, RequestEncoder, export)
    assert (again.sent_points, again.remaining_bytes) == (0, 0)
    assert len(values(receiver)) == 200


def test_a_living_process_keeps_its_spool(root, receiver, export):
    leave(root / "r" / "0" / "rank2-3", 200, 300, dead=False)
    report = sync(root, RequestEncoder, export)
    assert (report.spools, report.living) == (2, 1)
    assert values(receiver) == [float(n) for n in range(200)]


def test_two_syncs_do_not_ship_the_same_spool(root, receiver, export):
    assert liveness.claim(root / "r" / "0" / "rank0-1")
    report = sync(root, RequestEncoder, export)
    assert (report.spools, report.living) == (1, 1)
    assert values(receiver) == [float(n) for n in range(100, 200)]


def test_an_interrupted_sync_goes_on_where_it_stopped(root, receiver, export, monkeypatch):
    monkeypatch.setattr("glideslope.ship.delivery._READ_BYTES", 1500)
    receiver.answer(200, times=2)
    receiver.answer(403, times=1)
    report = sync(root, RequestEncoder, export)
    first = len(values(receiver))
    assert 0 < first < 200
    assert report.remaining_bytes > 0
    report = sync(root, RequestEncoder, export)
    assert report.sent_points == 200 - first
    assert report.remaining_bytes == 0
    assert values(receiver) == [float(n) for n in range(200)]


def test_without_a_receiver_it_gives_up_soon_and_keeps_everything(root, receiver, export):
    receiver.stop()
    report = sync(root, RequestEncoder, export, timeout_s=60)
    assert (report.spools, report.sent_points) == (2, 0)
    assert report.remaining_bytes > 0
    receiver.start()
    assert sync(root, RequestEncoder, export).sent_points == 200


def test_time_that_is_up_leaves_the_rest(root, receiver, export):
    assert sync(root, RequestEncoder, export, timeout_s=0).remaining_bytes > 0
    assert values(receiver) == []


def test_a_torn_tail_is_ignored(root, receiver, export):
    last = max((root / "r" / "0" / "rank0-1").glob("*.seg"))
    last.write_bytes(last.read_bytes()[:-3])
    report = sync(root, RequestEncoder, export)
    assert values(receiver) == [float(n) for n in range(200) if n != 99]
    assert report.damaged == 1


def test_a_shipped_spool_goes_when_its_values_are_old_enough(root, receiver, export):
    old = root / "r" / "0" / "rank0-1"
    for path in old.glob("*.seg"):
        os.utime(path, (1, 1))
    sync(root, RequestEncoder, export)
    assert not old.exists()
    assert (root / "r" / "0" / "rank1-2").exists()


def test_a_spool_with_rejected_data_stays(root, receiver, export):
    receiver.answer(400)
    report = sync(root, RequestEncoder, export, retain_s=0)
    assert (report.dropped, report.remaining_bytes) == (200, 0)
    assert list((root / "r" / "0" / "rank0-1" / "rejected").iterdir())


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SpoolError, match="spool folder"):
        sync(tmp_path / "nowhere", RequestEncoder, Export())
