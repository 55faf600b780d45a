# SPDX-License-Identifier: Apache-2.0
"""Identities, bounded ends, ports and logs: with real processes and sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glideslope.stack import process
from glideslope.stack.process import Identity

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def identity(child: subprocess.Popen[bytes]) -> Identity:
    found = Identity.of(child.pid)
    assert found is not None
    return found


def test_an_identity_finds_its_process(sleeper: subprocess.Popen[bytes]) -> None:
    alive = identity(sleeper).process()
    assert alive is not None
    assert alive.pid == sleeper.pid


def test_a_reused_process_id_is_not_ours(sleeper: subprocess.Popen[bytes]) -> None:
    assert Identity(sleeper.pid, time.time() - 3600).process() is None


def test_a_zombie_counts_as_gone(sleeper: subprocess.Popen[bytes]) -> None:
    who = identity(sleeper)
    sleeper.kill()
    deadline = time.monotonic() + 10
    while who.process() is not None:
        assert time.monotonic() < deadline


def test_stop_leaves_a_stranger_with_the_same_id_alone(sleeper: subprocess.Popen[bytes]) -> None:
    assert process.stop([Identity(sleeper.pid, time.time() - 3600)], patience_s=0.2) == []
    assert sleeper.poll() is None


def test_stop_ends_a_willing_process_without_killing_it(sleeper: subprocess.Popen[bytes]) -> None:
    assert process.stop([identity(sleeper)], patience_s=10) == []
    assert sleeper.wait(10) == -15


def test_stop_kills_a_deaf_process_after_the_bound() -> None:
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
        who = identity(child)
        assert process.stop([who], patience_s=0.2) == [who]
    assert child.wait(10) == -9


def test_a_started_program_appends_to_its_log_in_its_own_session(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "x.log"
    for word in ("one", "two"):
        command = [sys.executable, "-c", f"import os; print('{word}', os.getsid(0) == os.getpid(), os.getcwd())"]
        process.start(command, dict(os.environ), log, tmp_path).wait(20)
    assert log.read_text() == f"one True {tmp_path}\ntwo True {tmp_path}\n"


def test_a_bound_port_is_taken_and_its_holder_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not process.port_is_free(port)
        assert f"pid {os.getpid()} " in process.port_holder(port)
    assert process.port_is_free(port)
    assert process.port_holder(port) == "another process"


def test_the_tail_of_a_long_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert process.tail(log, lines=2) == "line 99998\nline 99999"
    assert process.tail(tmp_path / "absent.log") == ""


def test_a_log_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 2000)
        process.trim(log, most_bytes=5000)
        assert log.stat().st_size == 2000
        process.trim(log, most_bytes=1000)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "x.log.1").stat().st_size == 2000
