# SPDX-License-Identifier: Apache-2.0
"""The stack on this machine, from outside: start its supervisor, wait for it, read its state, stop it.

In: Home and Ports. Out: `Stack`, used by the commands, the demo and the tests. Imports the other stack modules only.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields

from glideslope import env
from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.stack import process
from glideslope.stack.programs import ESSENTIAL, PROGRAMS, select
from glideslope.stack.settings import ensure_token
from glideslope.stack.state import ProgramState, StackState, read_state

_POLL_S = 0.1
# A healthy machine starts each program in a second or two; Jaeger's first start on a busy one took 9 s.
START_TIMEOUT_S = 90.0
SUPERVISOR_TIMEOUT_S = 20.0
MOST_FAILURES = 3

OnState = Callable[[StackState], None]


class Stack:
    """One native stack: the programs of one $GLIDESLOPE_HOME on one set of ports.

    `ports` must be the default ports moved by one offset, because child processes get the offset by environment.
    """

    def __init__(self, home: Home | None = None, ports: Ports | None = None) -> None:
        self.home = home or Home.from_env()
        self.ports = ports or Ports.from_env()
        self.offset = self.ports.live - Ports().live
        if self.ports != Ports().shifted(self.offset):
            raise StackError("the stack's ports must all be moved by the same offset: use Ports().shifted(offset)")
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment for child processes that talk to this stack."""
        return env.environment() | {
            "GLIDESLOPE_HOME": str(self.home.root),
            "GLIDESLOPE_PORT_OFFSET": str(self.offset),
        }

    def token(self) -> str:
        """The bearer token of this stack, made if there is none."""
        return ensure_token(self.home).read_text("utf-8").strip()

    def status(self) -> StackState | None:
        """The state of the running stack, or None when no supervisor runs for this home."""
        state = read_state(self.home)
        if state is None or state.identity is None or state.identity.process() is None:
            return None
        return state

    def start(
        self,
        programs: tuple[str, ...] | None = None,
        wait: tuple[str, ...] | None = None,
        on_state: OnState | None = None,
    ) -> bool:
        """Start the named programs (all for None) in the background; returns False when the stack was already up.

        Waits until every program in `wait` answers its health page (all started ones for None, none for an empty
        tuple) and calls `on_state` about ten times a second meanwhile. Builds take as long as they take; a start is
        bounded. Raises StackError when a port is taken, a build fails or a program ends before it is ready: with the
        last lines of its log. The supervisor goes on after an error, since the rest of the stack may be of use.
        """
        chosen = tuple(program.name for program in select(programs))
        state = self.status()
        began = state is None
        if state is None:
            self._check_ports(chosen)
            state = self._spawn(chosen)
            began = self._supervisor is not None and state.pid == self._supervisor.pid
        wanted = chosen if wait is None else wait
        absent = [name for name in wanted if name not in state.programs]
        if absent:
            raise StackError(f"the stack is up without {', '.join(absent)}: `glideslope down`, then `glideslope up`")
        self.wait(wanted, on_state)
        return began

    def wait(self, wanted: tuple[str, ...], on_state: OnState | None = None) -> StackState:
        """Wait until the named programs of the running stack are ready; raises StackError as `start` does."""
        while True:
            state = self.status()
            if state is None:
                raise StackError(f"the supervisor ended:\n{process.tail(self.home.log / 'supervisor.log')}")
            if on_state is not None:
                on_state(state)
            pending = [name for name in wanted if not state.programs[name].ready]
            if not pending:
                return state
            for name in pending:
                self._check_progress(name, state.programs[name])
            time.sleep(_POLL_S)

    def stop(self) -> list[str]:
        """Stop the supervisor, which stops its programs; returns the names of programs that it left behind.

        Those are ended here: a killed supervisor leaves all of them. Does nothing when nothing runs.
        """
        state = read_state(self.home)
        if state is None or state.identity is None:
            return []
        process.stop([state.identity], patience_s=40)
        if self._supervisor is not None:
            self._supervisor.wait(timeout=5)
            self._supervisor = None
        left = {
            name: program.identity
            for name, program in state.programs.items()
            if program.identity and program.identity.process()
        }
        process.stop(left.values(), patience_s=10)
        return list(left)

    def _check_ports(self, chosen: tuple[str, ...]) -> None:
        before = read_state(self.home)
        leftovers = before.programs if before else {}
        taken = []
        for name in chosen:
            program = leftovers.get(name)
            if program and program.identity and program.identity.process():
                continue  # ours, from a killed supervisor: the new one ends it first
            for field in PROGRAMS[name].ports:
                port = getattr(self.ports, field)
                if not process.port_is_free(port):
                    taken.append(f"port {port} ({name}, {field}) is taken by {process.port_holder(port)}")
        if taken:
            raise StackError(
                "\n  ".join(["the stack cannot start:", *taken])
                + "\nEnd that program, or move every port with GLIDESLOPE_PORT_OFFSET=100."
            )

    def _spawn(self, chosen: tuple[str, ...]) -> StackState:
        self.home.root.mkdir(parents=True, exist_ok=True)
        log = self.home.log / "supervisor.log"
        self._supervisor = process.start(
            [sys.executable, "-m", "glideslope.stack.daemon", *chosen], self.environment, log, self.home.root
        )
        deadline = time.monotonic() + SUPERVISOR_TIMEOUT_S
        while time.monotonic() < deadline:
            state = self.status()
            if state is not None:
                return state
            ended = self._supervisor.poll()
            if ended is not None:
                raise StackError(f"the supervisor ended with exit code {ended}:\n{process.tail(log)}")
            time.sleep(_POLL_S)
        raise StackError(f"the supervisor did not come up in {SUPERVISOR_TIMEOUT_S:.0f} s; its log is {log}")

    def _check_progress(self, name: str, program: ProgramState) -> None:
        if program.phase == "failed":
            raise StackError(f"{name} failed: {program.detail}")
        if program.phase == "crashed" and program.failures >= MOST_FAILURES:
            raise StackError(f"{name} does not start: {program.detail}")
        if program.phase == "starting" and time.time() - program.started > START_TIMEOUT_S:
            raise StackError(
                f"{name} runs but was not ready after {START_TIMEOUT_S:.0f} s; the last lines of {program.log}:\n"
                + process.tail(self.home.log / f"{name}.log")
            )


def ensure_up(
    home: Home, ports: Ports, on_state: OnState | None = None, wait: tuple[str, ...] | None = ESSENTIAL
) -> Stack:
    """Return the running stack of this home, starting it first if need be; raises StackError as `Stack.start` does.

    By default it does not wait for the traces store, whose build is the slowest and which nothing else needs.
    """
    stack = Stack(home, ports)
    stack.start(wait=wait, on_state=on_state)
    return stack


def urls(ports: Ports) -> dict[str, str]:
    """What people and programs open, by name."""
    names = {"viewer": "server", "otlp": "otlp_http", **{field.name: field.name for field in fields(ports)}}
    shown = ("viewer", "otlp", "live", "curves", "logs", "traces_query", "vmalert", "alertmanager")
    return {name.removesuffix("_query"): ports.url(names[name]) for name in shown}
