# SPDX-License-Identifier: Apache-2.0
"""One shipper for a spool, also when several want it at once."""

import fcntl
import json
import os
import signal
import time

import pytest

from glideslope.ship import liveness


def dead(folder):
    """The marker of a process that is gone."""
    liveness.mark(folder, liveness.SHIPPER)
    marker = folder / liveness.SHIPPER
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"started": "1"}))


def test_a_marker_is_held_until_it_is_given_back(tmp_path):
    assert liveness.claim(tmp_path)
    assert not liveness.claim(tmp_path)
    liveness.release(tmp_path)
    assert liveness.claim(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == [liveness.SHIPPER]


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_marker_that_cannot_be_read_is_a_dead_one(tmp_path, text):
    (tmp_path / liveness.SHIPPER).write_text(text)
    assert liveness.claim(tmp_path)


def test_a_file_system_without_locks_does_too(tmp_path, monkeypatch):
    def refuse(handle, operation):
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    dead(tmp_path)
    assert liveness.claim(tmp_path)
    assert not liveness.claim(tmp_path)


def test_of_many_that_take_over_from_a_dead_one_one_succeeds(tmp_path):
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        dead(folder)
        results, stay = os.pipe(), os.pipe()
        begin = time.time() + 0.02
        children = []
        for _ in range(6):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                os.close(stay[1])
                while time.time() < begin:
                    pass
                os.write(results[1], b"1" if liveness.claim(folder) else b"0")
                # The winner lives on until all have tried.
                os.read(stay[0], 1)
                os._exit(0)
            children.append(pid)
        said = b""
        while len(said) < len(children):
            said += os.read(results[0], 6)
        for handle in (*stay, *results):
            os.close(handle)
        for pid in children:
            os.waitpid(pid, 0)
        assert sorted(said) == sorted(b"100000")
