# SPDX-License-Identifier: Apache-2.0
"""The supervising process with small real programs in place of the stores."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.stack import daemon
from glideslope.stack.daemon import Supervisor, answers
from glideslope.stack.process import Identity, port_is_free
from glideslope.stack.programs import Place, Program
from glideslope.stack.state import read_state


def web(name: str, port: str, **more: Any) -> Program:
    """A program that serves its working folder."""
    return Program(
        name=name,
        title=name,
        binary="",
        arguments=lambda place: ["-m", "http.server", "--bind", "127.0.0.1", str(getattr(place.ports, port))],
        ports=(port,),
        health=(port, "/"),
        **more,
    )


def failing(name: str, port: str) -> Program:
    return Program(
        name=name,
        title=name,
        binary="",
        arguments=lambda place: ["-c", "import sys; print('no disk left'); sys.exit(3)"],
        ports=(port,),
        health=(port, "/"),
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(daemon, "BACKOFF_S", 0.05)
    for offset in range(12_000, 15_900, 20):
        ports = Ports().shifted(offset)
        if port_is_free(ports.live) and port_is_free(ports.logs):
            return Place.native(Home(tmp_path / "home"), ports)
    pytest.fail("no free ports")


@contextmanager
def supervised(place: Place, *programs: Program) -> Iterator[Supervisor]:
    supervisor = Supervisor(place, programs)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield supervisor
    finally:
        supervisor.stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_a_program_runs_until_the_supervisor_stops(place: Place) -> None:
    with supervised(place, web("live", "live")) as supervisor:
        entry = supervisor.state.programs["live"]
        until(lambda: entry.phase == "running", "running")
        assert answers(place.ports.live, "/", 5)
        told = read_state(place.home)
        assert told is not None
        assert told.programs["live"].pid == entry.pid
    assert entry.phase == "stopped"
    assert port_is_free(place.ports.live)
    told = read_state(place.home)
    assert told is not None
    assert told.programs["live"].phase == "stopped"


def test_a_program_starts_after_those_it_needs(place: Place) -> None:
    with supervised(place, web("logs", "logs", after=("live",)), web("live", "live")) as supervisor:
        first, second = supervisor.state.programs["live"], supervisor.state.programs["logs"]
        until(lambda: second.phase == "running", "both running")
        assert second.started >= first.started


def test_a_program_waits_for_one_that_never_gets_ready(place: Place) -> None:
    with supervised(place, web("logs", "logs", after=("live",)), failing("live", "live")) as supervisor:
        until(lambda: supervisor.state.programs["live"].failures >= 2, "failures")
        assert supervisor.state.programs["logs"].pid == 0
        assert supervisor.state.programs["logs"].detail == "waits for live"


def test_a_program_that_ends_is_started_again_each_time_later(place: Place) -> None:
    with supervised(place, failing("live", "live")) as supervisor:
        watched = supervisor.watched[0]
        until(lambda: watched.state.failures >= 3, "failures")
        assert watched.state.restarts >= 2
        assert watched.state.phase in ("crashed", "starting")
        until(lambda: "it ended with exit code 3" in watched.state.detail, "the reason")
        assert "no disk left" in watched.state.detail
        assert watched.next_start - time.monotonic() < daemon.BACKOFF_S * 2**watched.crashes


def test_a_killed_program_is_named_by_its_signal_and_comes_back(place: Place) -> None:
    details: list[str] = []
    with supervised(place, web("live", "live")) as supervisor:
        entry = supervisor.state.programs["live"]
        until(lambda: entry.ready, "ready")
        first = entry.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: details.append(entry.detail) or (entry.restarts == 1 and entry.ready), "back")
        assert entry.pid != first
        assert entry.failures == 0
    assert any("signal SIGKILL" in detail for detail in details)


def test_what_is_refreshed_is_asked_every_second(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "REFRESH_S", 0.05)
    log = place.home.log / "live.log"
    with supervised(place, web("live", "live", refresh="/flush-now")):
        until(lambda: log.exists() and log.read_text().count("GET /flush-now") >= 3, "refreshes")


def test_a_second_supervisor_of_the_same_home_is_refused(place: Place) -> None:
    with supervised(place, web("live", "live")) as supervisor:
        until(lambda: supervisor.state.programs["live"].ready, "ready")
        with pytest.raises(StackError, match="already up"):
            Supervisor(place, (web("logs", "logs"),)).run()


def test_a_build_that_fails_is_told_and_the_others_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIDESLOPE_BIN_VICTORIA_LOGS", "/nowhere/victoria-logs")
    broken = Program(
        name="logs",
        title="logs",
        binary="victoria-logs",
        arguments=lambda place: [],
        ports=("logs",),
        health=("logs", "/"),
    )
    with supervised(place, broken, web("live", "live")) as supervisor:
        until(lambda: supervisor.state.programs["live"].ready, "live")
        until(lambda: supervisor.state.programs["logs"].phase == "failed", "the failure")
        assert "GLIDESLOPE_BIN_VICTORIA_LOGS=/nowhere/victoria-logs" in supervisor.state.programs["logs"].detail


def test_the_state_names_the_supervisor_itself(place: Place) -> None:
    supervisor = Supervisor(place, ())
    assert supervisor.state.identity is not None
    assert supervisor.state.identity.process() is not None
    assert Identity.of(os.getpid()) == supervisor.state.identity
