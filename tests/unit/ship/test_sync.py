# SPDX-License-Identifier: Apache-2.0
"""What dead processes left is shipped: once, resumable, without touching what lives."""

import json
import threading
import time

import pytest

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.errors import SpoolError
from glideslope.events import MetricsLogged
from glideslope.ship import liveness, sync
from glideslope.ship.reader import SpoolReader
from glideslope.ship.spool import SpoolWriter
from glideslope.ship.sync import follow

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
    monkeypatch.setattr("glideslope.ship.lane.READ_BYTES", 1500)
    receiver.answer(200, times=2)
    receiver.answer(403, times=1)
    report = sync(root, RequestEncoder, export)
    first = len(values(receiver))
    assert 0 < first < 200
    assert report.remaining_bytes > 0
    report = sync(root, RequestEncoder, export)
    assert 200 - first <= report.sent_points < 200
    assert report.remaining_bytes == 0
    assert set(values(receiver)) == {float(n) for n in range(200)}


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


def age(folder, seconds):
    """Let the last acknowledgement of a spool have been `seconds` earlier."""
    cursor = json.loads((folder / "cursor.json").read_text())
    cursor["acknowledged_at"] -= seconds
    (folder / "cursor.json").write_text(json.dumps(cursor))


def test_a_shipped_spool_goes_when_its_acknowledgement_is_old_enough(root, receiver, export):
    old = root / "r" / "0" / "rank0-1"
    assert sync(root, RequestEncoder, export).kept == 2
    age(old, 29)
    assert (sync(root, RequestEncoder, export).kept, old.exists()) == (2, True)
    age(old, 2)
    report = sync(root, RequestEncoder, export)
    assert (report.removed, report.kept, report.sent_points) == (1, 1, 0)
    assert not old.exists()
    assert (root / "r" / "0" / "rank1-2").exists()
    assert len(values(receiver)) == 200, "a receiver without epochs is asked nothing"


def test_with_epochs_a_spool_goes_when_the_same_store_answers_later(root, receiver, export):
    receiver.epoch = "A"
    old = root / "r" / "0" / "rank0-1"
    assert sync(root, RequestEncoder, export).kept == 2
    age(old, 31)
    receiver.stop()
    assert (sync(root, RequestEncoder, export).removed, old.exists()) == (0, True), "nobody said that it is durable"
    receiver.start()
    report = sync(root, RequestEncoder, export)
    assert (report.removed, report.kept, report.sent_points) == (1, 1, 0)
    assert not old.exists()


def test_a_store_that_restarted_gets_a_dead_spool_again_until_it_is_durable(root, receiver, export):
    receiver.epoch = "A"
    old = root / "r" / "0" / "rank0-1"
    sync(root, RequestEncoder, export)
    age(old, 31)
    receiver.clear()
    receiver.epoch = "B"
    report = sync(old, RequestEncoder, export)
    assert (report.kept, report.removed, report.replayed_points) == (1, 0, 100)
    assert set(values(receiver)) == {float(n) for n in range(100)}
    assert any("restarted" in trouble for trouble in report.troubles)
    age(old, 31)
    assert sync(old, RequestEncoder, export).removed == 1


def test_a_cursor_from_before_there_were_epochs_still_works(root, receiver, export):
    old = root / "r" / "0" / "rank0-1"
    reader = SpoolReader(old, lambda: False)
    reader.read(1500)
    (old / "cursor.json").write_text(json.dumps(reader.position._asdict()))
    report = sync(old, RequestEncoder, export)
    assert 0 < report.sent_points < 100
    receiver.clear()
    receiver.epoch = "A"
    leave(root / "r" / "0" / "rank5-5", 0, 1)
    (old / "cursor.json").write_text(json.dumps(reader.position._asdict()))
    report = sync(old, RequestEncoder, export)
    assert set(values(receiver)) == {float(n) for n in range(100)}, "nobody knows what was durable"


def test_a_spool_with_rejected_data_stays(root, receiver, export):
    receiver.answer(400)
    report = sync(root, RequestEncoder, export, retain_s=0)
    assert not list(root.rglob("*.seg"))
    assert (report.dropped, report.remaining_bytes) == (200, 0)
    assert list((root / "r" / "0" / "rank0-1" / "rejected").iterdir())


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SpoolError, match="spool folder"):
        sync(tmp_path / "nowhere", RequestEncoder, Export())


@pytest.fixture
def following(root, receiver, export):
    """`follow` in a thread; what it says is collected."""
    stop, said = threading.Event(), []
    thread = threading.Thread(
        target=follow,
        args=(root, RequestEncoder, export, stop),
        kwargs={"say": said.append, "every_s": 0.05, "retain_s": 0.5},
    )
    thread.said = said
    yield thread
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


def test_following_ships_what_dies_and_removes_what_is_durable(following, root, receiver, eventually):
    receiver.epoch = "A"
    following.start()
    eventually(lambda: values(receiver)[-1:] == [199.0])
    eventually(lambda: not list(root.rglob("*.seg")))
    leave(root / "r" / "1" / "rank0-9", 200, 300)
    eventually(lambda: values(receiver)[-1] == 299.0)
    eventually(lambda: not list(root.rglob("*.seg")))
    eventually(lambda: sum("removed" in text for text in following.said) == 3)
    assert sum("points" in text for text in following.said) == 3


def test_following_outlives_a_receiver_that_is_away_and_says_so_once(following, root, receiver, eventually):
    receiver.stop()
    following.start()
    eventually(lambda: any("does not answer" in text for text in following.said))
    receiver.start()
    eventually(lambda: len(values(receiver)) == 200, 60)
    eventually(lambda: any("answers again" in text for text in following.said))
    eventually(lambda: not list(root.rglob("*.seg")), 60)
    assert sum("does not answer" in text for text in following.said) == 1


def test_following_leaves_the_living_alone(following, root, receiver, eventually):
    leave(root / "r" / "0" / "rank2-3", 200, 300, dead=False)
    following.start()
    eventually(lambda: len(list(root.rglob("*.seg"))) > 0 and not (root / "r" / "0" / "rank0-1").exists())
    assert (root / "r" / "0" / "rank2-3").exists()
    assert max(values(receiver)) == 199.0
