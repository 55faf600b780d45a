# SPDX-License-Identifier: Apache-2.0
"""What was appended is read again, in order and once, whatever happened to the files."""

import os
import random
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from glideslope.ship import liveness, records
from glideslope.ship.reader import SpoolReader

FIRST = len(records.SEGMENT_HEADER) + records.OVERHEAD + len(records.pack_tally([0] * 4))
"""Where the first record behind the tally begins."""


def fill(kit, count=20, **settings):
    writer = kit.writer(**settings)
    writer.append(kit.DEFINE, kit.frame(1000))
    for number in range(count):
        writer.append(kit.VALUES, kit.frame(number))
    writer.close()
    return writer


def test_records_come_back_in_order_over_several_segments(kit):
    writer = fill(kit, 100, segment_bytes=300)
    assert len(kit.segments()) > 10
    assert kit.numbers() == list(range(100))
    assert writer.disk_bytes == sum(path.stat().st_size for path in kit.segments())


def test_nothing_is_left_of_a_spool_without_a_record(kit):
    writer = kit.writer()
    writer.append(kit.DEFINE, kit.frame(1))
    assert kit.segments() == []
    writer.close()
    assert not kit.folder.exists()


def test_each_segment_repeats_the_definitions_that_it_uses(kit):
    writer = kit.writer(segment_bytes=200)
    writer.append(kit.DEFINE, kit.frame(71, context=7))
    writer.append(kit.DEFINE, kit.frame(81, context=8))
    for number in range(30):
        if number == 10:
            writer.append(kit.DEFINE, kit.frame(72, context=7))
        writer.append(kit.VALUES, kit.frame(number, context=8 if number == 5 else 7))
    writer.close()
    found = kit.reader().read(1 << 20)
    for path in kit.segments():
        assert path.stat().st_size < 400
    known: set[int] = set()
    last = 0
    for record in found:
        assert record.sequence == last + 1
        last = record.sequence
        if record.kind == kit.DEFINE:
            known.add(kit.number_of(record.payload))
        else:
            number = kit.number_of(record.payload)
            assert known >= ({81} if number == 5 else {71} if number < 10 else {71, 72})


def test_a_reader_goes_on_where_another_one_was_and_hears_the_definitions_again(kit):
    fill(kit, 20)
    first = kit.reader()
    assert [kit.number_of(r.payload) for r in first.read(100)][:3] == [1000, 0, 1]
    seen = first.sequence - 1
    second = kit.reader()
    second.seek(first.position)
    found = second.read(1 << 20)
    assert found[0].kind == kit.DEFINE
    assert [kit.number_of(r.payload) for r in found[1:]] == list(range(seen, 20))


def test_a_live_spool_is_followed(kit):
    writer, reader = kit.writer(segment_bytes=250), kit.reader(live=True)
    found = []
    for number in range(50):
        assert reader.read(1 << 20) == []
        writer.append(kit.VALUES, kit.frame(number))
        found += [kit.number_of(r.payload) for r in reader.read(1 << 20)]
    assert found == list(range(50))
    assert reader.damaged == 0


def test_a_live_torn_tail_is_waited_for(kit):
    fill(kit, 3)
    (path,) = kit.segments()
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    reader = kit.reader(live=True)
    assert [kit.number_of(r.payload) for r in reader.read(1 << 20)] == [1000, 0, 1]
    assert reader.read(1 << 20) == []
    path.write_bytes(whole)
    assert [kit.number_of(r.payload) for r in reader.read(1 << 20)] == [2]
    assert reader.damaged == 0


def test_a_segment_cut_at_any_byte_keeps_its_good_prefix_and_the_next_segment(kit):
    fill(kit, 12, segment_bytes=300)
    first, *others = kit.segments()
    whole = first.read_bytes()
    in_first = len(kit.numbers()) - sum((len(path.read_bytes()) - FIRST - 36) // 36 for path in others)
    for size in range(len(whole)):
        first.write_bytes(whole[:size])
        good = max(0, (size - FIRST) // 36 - 1)
        expected = [*range(min(good, in_first)), *range(in_first, 12)]
        assert kit.numbers() == expected, size


@pytest.mark.parametrize("seed", range(200))
def test_random_damage_loses_only_what_it_hits(kit, seed):
    rng = random.Random(seed)
    fill(kit, 60, segment_bytes=700)
    hit = set()
    for path in rng.sample(kit.segments(), 2):
        data = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(FIRST, len(data))
            stop = min(len(data), start + rng.randint(1, 60))
            data[start:stop] = rng.randbytes(stop - start) if rng.random() < 0.5 else bytes(stop - start)
            hit.update((path, at) for at in range((start - FIRST) // 36, (stop - FIRST) // 36 + 1))
        path.write_bytes(bytes(data))
    found = kit.numbers(max_bytes=rng.choice([10, 300, 1 << 20]))
    assert found == sorted(set(found))
    assert len(found) >= 60 - len(hit)


def test_a_segment_without_our_header_is_skipped(kit):
    fill(kit, 30, segment_bytes=300)
    kit.segments()[1].write_bytes(b"not a spool" * 50)
    found = kit.numbers()
    assert found[0] == 0
    assert found[-1] == 29
    assert len(found) < 30


def test_at_the_quota_layers_go_first_and_metrics_last(kit):
    writer = kit.writer(quota_bytes=100_000)
    for number in range(3000):
        for kind in (kit.VALUES, kit.LAYERS, kit.TRACES, kit.LOGS):
            writer.append(kind, kit.frame(number, count=3))
    writer.close()
    stored: dict[int, list[int]] = {}
    for record in kit.reader().read(1 << 20):
        stored.setdefault(record.kind, []).append(kit.number_of(record.payload))
    kept = {kind: len(numbers) for kind, numbers in stored.items()}
    assert kept[kit.LAYERS] < kept[kit.TRACES] < kept[kit.VALUES]
    assert abs(kept[kit.TRACES] - kept[kit.LOGS]) <= 1
    for kind, name in ((kit.VALUES, "metrics"), (kit.LAYERS, "layers"), (kit.TRACES, "traces"), (kit.LOGS, "logs")):
        assert writer.dropped[name, "quota"] == 3 * (3000 - kept[kind])
        assert stored[kind] == list(range(kept[kind]))


def test_released_bytes_make_room_again(kit):
    writer = kit.writer(quota_bytes=4000, segment_bytes=500)
    for number in range(500):
        writer.append(kit.VALUES, kit.frame(number))
    dropped = writer.dropped["metrics", "quota"]
    assert writer.crowded
    reader = kit.reader(live=True)
    reader.read(1 << 20)
    for path in kit.segments()[:-1]:
        writer.release(path.stat().st_size)
        path.unlink()
    writer.append(kit.VALUES, kit.frame(500))
    assert writer.dropped["metrics", "quota"] == dropped
    assert [kit.number_of(r.payload) for r in reader.read(1 << 20)] == [500]


def test_a_write_that_fails_half_way_leaves_no_trace(kit, monkeypatch):
    monkeypatch.setattr("glideslope.ship.space.RETRY_S", 0.0)
    writer = kit.writer()
    writer.append(kit.VALUES, kit.frame(0))
    real = os.writev

    def half(fd, parts):
        real(fd, [b"".join(parts)[:11]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    writer.append(kit.VALUES, kit.frame(1, count=5))
    monkeypatch.setattr(os, "writev", real)
    writer.append(kit.VALUES, kit.frame(2))
    assert writer.dropped == {("metrics", "disk"): 5}
    reader = kit.reader()
    assert kit.numbers(reader) == [0, 2]
    assert reader.damaged == 0


def test_a_folder_that_cannot_be_made_is_counted_and_tried_again(kit, monkeypatch):
    kit.folder.parent.parent.mkdir(parents=True)
    kit.folder.parent.write_text("a file where a folder should be")
    monkeypatch.setattr("glideslope.ship.space.RETRY_S", 0.0)
    writer = kit.writer()
    for number in range(5):
        writer.append(kit.VALUES, kit.frame(number))
    assert writer.dropped == {("metrics", "disk"): 5}
    kit.folder.parent.unlink()
    writer.append(kit.VALUES, kit.frame(5))
    # A folder that could not be claimed at the start has a name that no other writer can take.
    assert writer.directory.name.startswith("rank0-1-")
    kit.folder = writer.directory
    assert kit.numbers() == [5]
    assert liveness.lives(writer.directory)


def test_records_after_the_close_are_counted(kit):
    writer = fill(kit, 2)
    writer.append(kit.VALUES, kit.frame(3))
    assert writer.dropped == {("metrics", "closed"): 1}


def test_a_folder_that_is_in_use_is_left_alone(kit):
    fill(kit, 2)
    writer = kit.writer()
    assert writer.directory == kit.folder.with_name("rank0-1-2")
    writer.append(kit.VALUES, kit.frame(7))
    assert kit.numbers() == [0, 1]


def test_writers_of_the_same_name_never_share_a_folder(kit):
    """As with the same pid in two containers on a shared file system."""
    together = 8
    ready = [os.pipe() for _ in range(2)]
    children = []
    for child in range(together):
        if (pid := os.fork()) == 0:
            signal.alarm(30)
            os.read(ready[0][0], 1)
            writer = kit.writer(segment_bytes=300)
            for number in range(50):
                writer.append(kit.VALUES, kit.frame(child * 1000 + number))
            os.write(ready[1][1], f"{writer.directory}\n".encode())
            os._exit(1 if writer.dropped else 0)
        children.append(pid)
    os.write(ready[0][1], b"x" * together)
    assert all(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 for pid in children)
    folders = os.read(ready[1][0], 1 << 16).decode().split()
    for pipe in ready:
        for end in pipe:
            os.close(end)
    assert len(set(folders)) == together
    found = []
    for folder in folders:
        numbers = kit.numbers(SpoolReader(Path(folder), live=lambda: False))
        assert numbers == list(range(numbers[0], numbers[0] + 50))
        found.append(numbers[0] // 1000)
    assert sorted(found) == list(range(together))


def test_files_and_folder_are_for_their_owner_alone(kit):
    fill(kit, 3)
    assert kit.folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in kit.segments()] == [0o600]


def test_the_lag_marks_are_bounded_and_cover_the_whole_wait(kit, monkeypatch):
    monkeypatch.setattr("glideslope.ship.spool._MARK_EVERY_S", 0.0)
    monkeypatch.setattr("glideslope.ship.spool._MARKS", 64)
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    # The module's clock alone: servers of other tests live by that of the process.
    monkeypatch.setattr("glideslope.ship.spool.time", clock)
    writer = kit.writer()
    for number in range(10_000):
        # A second later than the one before.
        clock.now = float(number)
        writer._mark_every_s = max(writer._mark_every_s, 1.0)
        writer.append(kit.VALUES, kit.frame(number))
    assert len(writer.marks) <= 64
    assert writer.marks[0] == (1, 0.0)
    assert writer.marks[-1][0] > 9_000
    gaps = [b[0] - a[0] for a, b in zip(writer.marks, list(writer.marks)[1:], strict=False)]
    assert max(gaps) <= 512


def test_threads_and_signal_handlers_lose_and_tear_nothing(kit):
    writer = kit.writer(segment_bytes=5000)
    handled = []

    def on_signal(number, frame):
        handled.append(1)
        writer.append(kit.LOGS, kit.frame(len(handled)))

    before = signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:

        def work(base):
            for number in range(2000):
                writer.append(kit.VALUES, kit.frame(base + number))

        threads = [threading.Thread(target=work, args=(n * 10_000,)) for n in (1, 2)]
        for thread in threads:
            thread.start()
        work(0)
        for thread in threads:
            thread.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    writer.close()
    reader, found = kit.reader(), {kit.VALUES: [], kit.LOGS: []}
    sequence = 0
    while records := reader.read(1 << 20):
        for record in records:
            assert record.sequence == sequence + 1
            sequence = record.sequence
            found[record.kind].append(kit.number_of(record.payload))
    assert reader.damaged == 0
    assert sorted(found[kit.VALUES]) == [base + n for base in (0, 10_000, 20_000) for n in range(2000)]
    # A handler may interrupt a handler, so their order is open.
    assert sorted(found[kit.LOGS]) == list(range(1, len(handled) + 1))
    assert handled


def test_the_writer_s_marker_tells_whether_it_lives(kit):
    fill(kit, 1)
    assert liveness.lives(kit.folder)
    pid = os.fork()
    if pid == 0:
        liveness.mark(kit.folder)
        os._exit(0)
    os.waitpid(pid, 0)
    assert not liveness.lives(kit.folder)
    assert not liveness.lives(kit.folder.parent)


def test_a_marker_of_a_dead_process_can_be_claimed_and_a_living_one_not(kit):
    kit.folder.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if liveness.claim(kit.folder) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert liveness.claim(kit.folder)
    assert not liveness.claim(kit.folder)
    liveness.release(kit.folder)
    assert liveness.claim(kit.folder)
