# SPDX-License-Identifier: Apache-2.0
"""`glideslope up | down | status`: real programs that are started, killed, blocked and broken."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import until

from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.stack import process
from glideslope.stack.programs import PROGRAMS
from glideslope.stack.recipes import recipe
from glideslope.stack.state import ProgramState, StackState, read_state, write_state
from glideslope.stack.supervisor import Stack

Private = Callable[..., Any]


def glideslope(stack: Any, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glideslope", *arguments]
    return subprocess.run(command, env=stack.env | more, capture_output=True, text=True, timeout=120, check=False)


def program(stack: Any, name: str) -> ProgramState:
    state = read_state(stack.home)
    assert state is not None
    return state.programs[name]


def alive(entry: ProgramState) -> bool:
    return entry.identity is not None and entry.identity.process() is not None


def test_every_program_of_the_stack_is_running_and_healthy(stack: Any) -> None:
    state = stack.stack.status()
    assert state.programs.keys() == PROGRAMS.keys()
    for name, entry in state.programs.items():
        assert (entry.phase, entry.restarts) == ("running", 0), f"{name}: {entry.detail}"
    for name, (port, path) in {name: entry.health for name, entry in PROGRAMS.items() if entry.health}.items():
        assert httpx.get(f"{stack.ports.url(port)}{path}").status_code == 200, name


def test_every_port_is_bound_on_loopback_only(stack: Any) -> None:
    others = {
        address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None) if address[0] == socket.AF_INET
    } - {"127.0.0.1", "127.0.1.1"}
    for entry in PROGRAMS.values():
        for port in (getattr(stack.ports, name) for name in entry.ports):
            assert not process.port_is_free(port)
            for address in others:
                assert process.port_is_free(port, address), f"{entry.name} listens on {address}:{port}"


def test_status_tells_people_and_programs(stack: Any) -> None:
    shown = glideslope(stack, "status")
    assert shown.returncode == 0, shown.stdout
    assert stack.live in shown.stdout
    told = json.loads(glideslope(stack, "status", "--json").stdout)
    assert told["up"] is True
    assert told["urls"]["viewer"] == stack.server
    assert told["programs"]["live"]["phase"] == "running"


def test_a_second_up_says_so_and_prints_the_urls(stack: Any) -> None:
    again = glideslope(stack, "up")
    assert again.returncode == 0, again.stderr
    assert "already up" in again.stdout
    assert stack.server in again.stdout


def test_the_doctor_finds_nothing_wrong_beside_the_running_stack(stack: Any) -> None:
    answer = glideslope(stack, "doctor", "--json")
    problems = [finding for finding in json.loads(answer.stdout) if finding["level"] == "problem"]
    assert problems == []
    assert answer.returncode == 0


def test_the_state_folder_and_the_token_are_private(stack: Any) -> None:
    assert stat.S_IMODE(stack.home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(stack.home.token.stat().st_mode) == 0o600


def test_up_and_down_leave_nothing_running(private_stack: Private) -> None:
    stack = private_stack()
    up = glideslope(stack, "up", "--only", "live", "--only", "logs")
    assert up.returncode == 0, up.stderr
    state = read_state(stack.home)
    assert state is not None
    assert [name for name, entry in state.programs.items() if alive(entry)] == ["live", "logs"]
    down = glideslope(stack, "down")
    assert down.stdout.strip() == "stopped"
    assert not any(alive(entry) for entry in state.programs.values())
    assert stack.stack.status() is None
    assert glideslope(stack, "down").stdout.strip() == "nothing was running"
    shown = glideslope(stack, "status")
    assert shown.returncode == 1
    assert "glideslope up" in shown.stdout


def test_two_ups_at_once_start_one_stack(private_stack: Private) -> None:
    stack = private_stack()
    command = [sys.executable, "-m", "glideslope", "up", "--only", "live"]
    both = [subprocess.Popen(command, env=stack.env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate(timeout=60)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum("already up" in text for text in told) == 1
    assert all(stack.live in text for text in told)


def test_a_taken_port_is_named_with_its_holder(private_stack: Private) -> None:
    stack = private_stack()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", stack.ports.logs))
        holder.listen()
        up = glideslope(stack, "up", "--only", "logs", "--only", "live")
    assert up.returncode == 1
    assert f"port {stack.ports.logs} (logs, logs) is taken by pid {os.getpid()}" in up.stderr
    assert "GLIDESLOPE_PORT_OFFSET" in up.stderr
    assert stack.stack.status() is None


def test_a_killed_program_comes_back_and_the_restart_is_reported(private_stack: Private) -> None:
    stack = private_stack("logs")
    before = program(stack, "logs")
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: program(stack, "logs").restarts == 1 and program(stack, "logs").phase == "running", "restart")
    after = program(stack, "logs")
    assert after.pid != before.pid
    assert httpx.get(f"{stack.logs}/health").status_code == 200
    assert "restarted 1 ×" in glideslope(stack, "status").stdout


def test_a_program_that_cannot_start_shows_the_end_of_its_log(private_stack: Private, tmp_path: Path) -> None:
    broken = tmp_path / "victoria-logs"
    version = recipe("victoria-logs").version
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo victoria-logs-v{version} && exit\n'
        "echo cannot open the data folder: it is on fire >&2\nexit 7\n"
    )
    broken.chmod(0o755)
    stack = private_stack()
    up = glideslope(stack, "up", "--only", "logs", "--only", "live", GLIDESLOPE_BIN_VICTORIA_LOGS=str(broken))
    assert up.returncode == 1
    assert "logs does not start: it ended with exit code 7" in up.stderr
    assert "cannot open the data folder: it is on fire" in up.stderr
    # The rest of the stack is of use all the same.
    until(lambda: program(stack, "live").phase == "running", "live")
    assert "logs: it ended with exit code 7" in glideslope(stack, "status").stdout


def test_a_binary_of_another_version_is_refused_with_the_remedy(private_stack: Private, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho victoria-logs-v0.9.1\n")
    old.chmod(0o755)
    stack = private_stack()
    up = glideslope(stack, "up", "--only", "logs", GLIDESLOPE_BIN_VICTORIA_LOGS=str(old))
    assert up.returncode == 1
    assert "it is version 0.9.1, and 1.52 is needed; unset the variable" in up.stderr


def test_programs_of_a_killed_supervisor_are_ended_by_the_next_up(private_stack: Private) -> None:
    stack = private_stack("live")
    before = program(stack, "live")
    os.kill(stack.stack.status().pid, signal.SIGKILL)
    until(lambda: stack.stack.status() is None, "supervisor gone")
    assert alive(before)
    assert glideslope(stack, "status").returncode == 1
    up = glideslope(stack, "up", "--only", "live")
    assert up.returncode == 0, up.stderr
    assert not alive(before)
    assert program(stack, "live").phase == "running"


def test_programs_of_a_killed_supervisor_are_ended_by_down(private_stack: Private) -> None:
    stack = private_stack("live")
    os.kill(stack.stack.status().pid, signal.SIGKILL)
    until(lambda: stack.stack.status() is None, "supervisor gone")
    assert "live" in glideslope(stack, "down").stdout
    assert not alive(program(stack, "live"))


def test_down_never_ends_a_stranger_who_got_the_process_id(private_stack: Private) -> None:
    stack = private_stack()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        state = StackState(pid=stranger.pid, started=time.time() - 3600)
        entry = ProgramState(title="", url="", pid=stranger.pid, started=time.time() - 3600)
        state.programs["live"] = entry
        stack.home.run.mkdir()
        write_state(stack.home, state)
        assert glideslope(stack, "down").returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_the_stack_survives_the_end_of_its_starter(private_stack: Private) -> None:
    stack = private_stack()
    shell = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} -m glideslope up --only live; kill -HUP 0"],
        env=stack.env,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    shell.wait(timeout=60)
    assert stack.stack.status() is not None
    assert httpx.get(f"{stack.live}/health").status_code == 200


def test_ports_that_are_not_shifted_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="same offset"):
        Stack(Home(tmp_path), replace(Ports(), logs=1234))
