# SPDX-License-Identifier: Apache-2.0
"""The whole of ship in one process: values appended come out at a receiver that may misbehave."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder, suppress_instrumentation
from glideslope.events import MetricsLogged
from glideslope.ship import open_shipper
from glideslope.ship.delivery import WINDOW

RESOURCE = {"service.name": "t", "run.id": "r", "run.attempt": 0, "dist.rank": 0, "host.name": "h"}


@pytest.fixture
def run(kit, export):
    """Open a shipper with a writer; everything is closed at the end."""
    opened = []

    def make(where=None, folder=None, **settings):
        shipper = open_shipper(folder or kit.folder, RequestEncoder(), where or export, **settings)
        opened.append(shipper)
        writer = EventWriter(RESOURCE, shipper.append)

        def log(first, last):
            for number in range(first, last):
                writer.write(MetricsLogged(time.time_ns(), number, ("x",), (float(number),)))

        shipper.log = log
        return shipper

    yield make
    for shipper in opened:
        shipper.close(0.2)


def values(receiver):
    return sorted(point.value for point in receiver.metrics("train.metric"))


def test_values_arrive_while_the_process_goes_on(run, receiver, eventually):
    shipper = run()
    shipper.log(0, 10)
    eventually(lambda: values(receiver) == [float(n) for n in range(10)])
    eventually(lambda: shipper.stats().queue_bytes == 0)
    stats = shipper.stats()
    assert (stats.sent_points, stats.lag_s, dict(stats.dropped)) == (10, 0.0, {})


def test_flush_waits_for_the_acknowledgement(run, receiver):
    shipper = run()
    shipper.log(0, 100)
    assert shipper.flush(10)
    assert values(receiver) == [float(n) for n in range(100)]


def test_an_outage_loses_and_doubles_nothing(run, receiver, eventually, caplog):
    shipper = run()
    shipper.log(0, 50)
    assert shipper.flush(10)
    receiver.stop()
    shipper.log(50, 100)
    eventually(lambda: "glideslope sync" in caplog.text)
    assert shipper.stats().queue_bytes > 0
    assert shipper.stats().lag_s > 0
    assert not shipper.flush(0.05)
    receiver.start()
    shipper.log(100, 150)
    assert shipper.flush(20)
    assert values(receiver) == [float(n) for n in range(150)]


def test_a_receiver_that_refuses_for_a_while_gets_everything_once(run, receiver):
    receiver.answer(503, times=2)
    receiver.answer(429, retry_after_s=1, times=1)
    shipper = run()
    shipper.log(0, 50)
    assert shipper.flush(20)
    assert values(receiver) == [float(n) for n in range(50)]
    assert [request.status for request in receiver.requests][:3] == [503, 503, 429]


def test_a_lost_acknowledgement_repeats_the_very_same_points(run, kit, raw_server, receiver):
    """The server takes a request and hangs up; the next one is answered."""
    bodies = []

    def handle(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < size:
            body += connection.recv(1 << 16)
        bodies.append(body)
        if len(bodies) > 1:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.close()

    shipper = run(Export(endpoint=raw_server(handle).url))
    shipper.log(0, 1)
    assert shipper.flush(20)
    assert bodies[0] == bodies[1]
    assert shipper.stats().replayed_points == 1


@pytest.mark.parametrize("behaviour", ["silent", "drip"])
def test_a_hung_receiver_does_not_hold_up_the_end(run, raw_server, eventually, behaviour, caplog):
    stop = threading.Event()

    def drip(connection):
        def work():
            for byte in b"HTTP/1.1 200 OK\r\n" + b"x" * 1000:
                if stop.wait(0.05):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return

        if behaviour == "drip":
            threading.Thread(target=work, daemon=True).start()

    server = raw_server(drip)
    shipper = run(Export(endpoint=server.url))
    shipper.log(0, 5)
    eventually(lambda: server.accepted)
    began = time.monotonic()
    assert not shipper.close(0.5)
    assert time.monotonic() - began < 3
    assert caplog.text.count("glideslope sync") == 1
    stop.set()


def test_a_receiver_that_wants_more_time_than_there_is_does_not_hold_up_the_end(run, receiver):
    receiver.answer(503, retry_after_s=60)
    shipper = run()
    shipper.log(0, 5)
    began = time.monotonic()
    assert not shipper.close(60)
    assert time.monotonic() - began < 30
    assert 1 <= len(receiver.requests) <= 4


def test_a_busy_receiver_is_asked_again_within_the_bound(run, receiver):
    receiver.answer(503)
    shipper = run()
    shipper.log(0, 5)
    began = time.monotonic()
    assert not shipper.close(2.0)
    assert time.monotonic() - began < 5
    assert len(receiver.requests) >= 2
    assert dict(shipper.stats().dropped) == {}


def test_a_trace_receiver_that_hangs_does_not_hold_up_metrics_nor_the_end(run, receiver, eventually):
    receiver.answer(200, delay_s=30, paths=["/v1/traces"])
    shipper = run()
    shipper.append(0x24, (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"[]")
    shipper.log(0, 100)
    eventually(lambda: len(values(receiver)) == 100)
    shipper.log(100, 200)
    eventually(lambda: len(values(receiver)) == 200)
    began = time.monotonic()
    shipper.close(0.5)
    assert time.monotonic() - began < 5


def test_without_a_receiver_the_end_comes_before_the_bound(run, receiver, caplog):
    receiver.stop()
    shipper = run()
    shipper.log(0, 5)
    began = time.monotonic()
    assert not shipper.close(60)
    assert time.monotonic() - began < 30
    assert caplog.text.count("glideslope sync") == 1


def test_close_ships_the_last_values(run, receiver):
    shipper = run()
    shipper.log(0, 2000)
    assert shipper.close(10)
    assert values(receiver) == [float(n) for n in range(2000)]
    assert not [thread for thread in threading.enumerate() if thread.name == "glideslope-sender"]


def test_values_after_the_close_are_counted(run):
    shipper = run()
    shipper.close(5)
    shipper.log(0, 3)
    assert dict(shipper.stats().dropped) == {("metrics", "closed"): 3}


def test_the_threads_are_wrapped_as_a_whole(run, receiver, eventually):
    seen = []

    @contextmanager
    def quiet():
        name = threading.current_thread().name
        seen.append(name)
        with suppress_instrumentation():
            yield
        seen.append(f"{name} left")

    shipper = run(quiet=quiet)
    shipper.log(0, 1)
    assert shipper.close(10)
    eventually(lambda: len(seen) == 2 * (1 + sum(WINDOW.values())))
    assert set(seen) == {f"glideslope-{who}{end}" for who in ("sender", "poster") for end in ("", " left")}


def test_acknowledged_segments_go_after_their_retention(run, kit, eventually):
    shipper = run(retain_s=0.0, segment_bytes=500)
    shipper.log(0, 100)
    assert shipper.flush(10)
    eventually(lambda: len(kit.segments()) == 1)
    eventually(lambda: shipper._writer.disk_bytes == kit.segments()[0].stat().st_size)


def retained(kit, run, receiver, quota_bytes):
    """Values of some seconds ago that were acknowledged, and a spool that is more than half full."""
    shipper = run(Export(endpoint=receiver.endpoint, quota_bytes=quota_bytes), segment_bytes=100_000)
    shipper.log(0, 5000)
    assert shipper.flush(20)
    first = kit.segments()[0]
    return shipper, first


def test_a_crowded_spool_lets_acknowledged_segments_go_before_it_refuses_anything(run, kit, receiver, eventually):
    shipper, first = retained(kit, run, receiver, 1 << 20)
    for _ in range(40):
        shipper.log(0, 500)
        assert shipper.flush(20)
        eventually(lambda: not shipper._writer.crowded)
    assert not first.exists()
    assert dict(shipper.stats().dropped) == {}


def test_in_an_outage_acknowledged_segments_stay_until_new_values_would_be_refused(run, kit, receiver, eventually):
    shipper, first = retained(kit, run, receiver, 2 << 20)
    receiver.stop()
    shipper.log(0, 1)
    eventually(lambda: shipper._delivery.failing)
    while not shipper._writer.crowded:
        shipper.log(0, 500)
    shipper._sender._sweep()
    assert first.exists()
    while not shipper._writer.full:
        shipper.log(0, 500)
    shipper._sender._sweep()
    assert not first.exists()
    assert dict(shipper.stats().dropped) == {}


def test_an_unwritable_folder_is_counted_and_hurts_nobody(run, kit, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    shipper = run(folder=blocked / "spool")
    shipper.log(0, 5)
    assert dict(shipper.stats().dropped) == {("metrics", "disk"): 5}
    assert shipper.close(5)


def test_a_forked_child_is_inert_and_the_parent_goes_on(run, receiver, kit):
    shipper = run()
    shipper.log(0, 5)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        shipper.log(100, 105)
        clean = shipper.flush(5) and shipper.close(5) and shipper.stats().queue_bytes == 0
        os._exit(0 if clean else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    shipper.log(5, 10)
    assert shipper.close(10)
    assert values(receiver) == [float(n) for n in range(10)]


def test_forks_under_load_hang_nobody_and_lose_nothing(run, receiver):
    shipper = run()
    stop = threading.Event()
    written = []

    def load(base):
        number = base
        while not stop.is_set():
            shipper.append(0x02, (9).to_bytes(4, "little") + (1).to_bytes(4, "little") + number.to_bytes(8, "little"))
            number += 1
            if number % 200 == 0:
                time.sleep(0.001)
        written.append(number - base)

    threads = [threading.Thread(target=load, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                shipper.append(0x02, bytes(16))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    # One record more than appended by the threads would be one of a child.
    assert shipper._writer.sequence == sum(written)


def test_nothing_is_printed_and_nothing_hangs_when_the_process_just_ends(receiver, tmp_path):
    code = f"""
import time, threading
from pathlib import Path
from glideslope.config import Export
from glideslope.emit import EventWriter, RequestEncoder
from glideslope.events import MetricsLogged
from glideslope.ship import open_shipper
shipper = open_shipper(Path({str(tmp_path / "spool")!r}), RequestEncoder(), Export(endpoint={receiver.endpoint!r}))
writer = EventWriter({RESOURCE!r}, shipper.append)
for n in range(1000):
    writer.write(MetricsLogged(time.time_ns(), n, ("x",), (float(n),)))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_log_goes_through_the_project_s_logger():
    assert logging.getLogger("glideslope").level == logging.NOTSET


@pytest.mark.parametrize("loud", [True, False])
def test_of_the_ranks_of_a_node_only_the_loud_one_warns_about_its_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loud: bool
) -> None:
    caplog.set_level(logging.DEBUG, "glideslope")
    (tmp_path / "in the way").write_text("no folder")
    shipper = open_shipper(tmp_path / "in the way" / "spool", RequestEncoder(), Export(), loud=loud)
    shipper.append(0x02, bytes(8))
    shipper.close(0.1)
    assert [record.levelname == "WARNING" for record in caplog.records if "being dropped" in record.message] == [loud]
