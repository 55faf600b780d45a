# SPDX-License-Identifier: Apache-2.0
"""The supervising process: builds, starts, watches and restarts the programs of the stack.

In: program names on the command line, Home and Ports from the environment. Out: running programs, run/state.json.
Started by `stack.supervisor`; imports the other stack modules only. Each program starts as soon as its binary is there.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glideslope.config import LOOPBACK, Home, Ports
from glideslope.errors import GlideslopeError, StackError
from glideslope.stack import process
from glideslope.stack.binaries import BuildProgress, built, ensure, provided, toolchain
from glideslope.stack.programs import Place, Program, command, select
from glideslope.stack.recipes import RECIPES
from glideslope.stack.settings import prepare
from glideslope.stack.state import ProgramState, StackState, read_state, write_state

TICK_S = 0.1
BACKOFF_S = 0.5
MOST_BACKOFF_S = 30.0
# A program that was ready for this long has recovered: its next crash starts the backoff anew.
STEADY_S = 60.0
LOG_BYTES = 32 << 20
HEALTH_TIMEOUT_S = 0.5
REFRESH_S = 1.0
REFRESH_TIMEOUT_S = 10.0


def answers(port: int, path: str, timeout_s: float) -> bool:
    """True when the page answers 200 within the timeout."""
    # No proxy of the environment may stand between us and loopback, so no urllib.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def healthy(place: Place, program: Program) -> bool:
    """True when the program's health page answers 200 now, or when it has none."""
    if program.health is None:
        return True
    port, path = program.health
    return answers(getattr(place.ports, port), path, HEALTH_TIMEOUT_S)


class Watched:
    """One program under supervision; `step` is called at every tick and never blocks for long."""

    def __init__(self, program: Program, place: Place) -> None:
        self.program = program
        self.place = place
        self.binary: Path | None = None
        self.child: subprocess.Popen[bytes] | None = None
        self.log = place.home.log / f"{program.name}.log"
        self.state = ProgramState(
            title=program.title, url=place.ports.url(program.ports[0]) if program.ports else "", log=str(self.log)
        )
        self.crashes = 0
        self.next_start = 0.0

    def step(self, ready: set[str]) -> None:
        """Start, check or bury the process, whichever is due; `ready` names the programs that are healthy."""
        if self.child is not None:
            if self.child.poll() is not None:
                self._ended(self.child.returncode)
            elif not self.state.ready and healthy(self.place, self.program):
                self.state.phase, self.state.detail, self.state.failures = "running", "", 0
                self.state.ready = time.time()
            return
        if self.program.binary and self.binary is None:
            return
        missing = [name for name in self.program.after if name not in ready]
        if missing:
            self.state.detail = f"waits for {', '.join(missing)}"
        elif time.monotonic() >= self.next_start:
            self._start()

    def _start(self) -> None:
        for name in self.program.ports:
            port = getattr(self.place.ports, name)
            if not process.port_is_free(port):
                self._crashed(f"port {port} is taken by {process.port_holder(port)}")
                return
        self.state.restarts += self.state.pid != 0
        try:
            self.child = process.start(
                command(self.program, self.binary, self.place),
                self.program.environment(self.place),
                self.log,
                self.place.home.root,
            )
        except OSError as error:
            self._crashed(f"it cannot be run: {error}")
            return
        identity = process.Identity.of(self.child.pid)
        self.state.pid, self.state.started = self.child.pid, identity.started if identity else time.time()
        if self.state.phase != "crashed":
            self.state.detail = ""
        # Why the last try ended stays in view until this one is ready.
        self.state.phase, self.state.ready = "starting", 0.0

    def _ended(self, code: int) -> None:
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        if self.state.ready and time.time() - self.state.ready > STEADY_S:
            self.crashes = 0
        self.child = None
        self._crashed(f"it ended with {how}; the last lines of {self.log}:\n{process.tail(self.log)}")

    def _crashed(self, detail: str) -> None:
        self.state.failures += not self.state.ready
        self.state.phase, self.state.detail, self.state.ready = "crashed", detail, 0.0
        self.next_start = time.monotonic() + min(BACKOFF_S * 2**self.crashes, MOST_BACKOFF_S)
        self.crashes += 1


class Supervisor:
    """All programs of one stack; `run` returns when `stop` is set and everything has ended."""

    def __init__(self, place: Place, programs: tuple[Program, ...]) -> None:
        self.place = place
        self.watched = [Watched(program, place) for program in programs]
        self.stop = threading.Event()
        me = process.Identity.of(os.getpid())
        self.state = StackState(
            pid=os.getpid(),
            started=me.started if me else time.time(),
            port_offset=place.ports.live - Ports().live,
            programs={watched.program.name: watched.state for watched in self.watched},
        )
        self._written: dict[str, object] = {}

    def run(self) -> None:
        """Supervise until `stop` is set; raises StackError when this home is already supervised."""
        home = self.place.home
        home.run.mkdir(parents=True, exist_ok=True)
        with _only_one(home):
            self._bury_leftovers()
            prepare(home, self.place.ports)
            self._publish()
            helpers = [threading.Thread(target=work) for work in (self._provide, self._refresh)]
            for helper in helpers:
                helper.start()
            try:
                self._watch()
            finally:
                self.stop.set()
                for helper in helpers:
                    helper.join()
                self._stop_all()
                self._publish()

    def _watch(self) -> None:
        ticks = 0
        while not self.stop.wait(TICK_S):
            ready = {watched.program.name for watched in self.watched if watched.state.ready}
            for watched in self.watched:
                watched.step(ready)
            self._publish()
            ticks += 1
            if ticks % 100 == 0:
                for watched in self.watched:
                    process.trim(watched.log, LOG_BYTES)

    def _refresh(self) -> None:
        """Refresher thread: a store that is busy flushing must not hold up the watch over the others."""
        while not self.stop.wait(REFRESH_S):
            for watched in self.watched:
                if watched.program.refresh and watched.state.ready:
                    port = getattr(self.place.ports, watched.program.ports[0])
                    answers(port, watched.program.refresh, REFRESH_TIMEOUT_S)

    def _bury_leftovers(self) -> None:
        """End programs that a killed supervisor left behind: they hold the ports and the data folders."""
        before = read_state(self.place.home)
        if before is not None:
            process.stop([state.identity for state in before.programs.values() if state.identity], patience_s=10)

    def _publish(self) -> None:
        now = self.state.to_dict()
        if now != self._written:
            write_state(self.place.home, self.state)
            self._written = now

    def _provide(self) -> None:
        """Builder thread: hand each program its binary; those already there first, then one build after another."""
        wanted = {watched.program.binary for watched in self.watched if watched.program.binary}
        order = [name for name in RECIPES if name in wanted]
        for build in (False, True):
            for name in list(order):
                if self.stop.is_set():
                    return
                if self._hand_out(name, build):
                    order.remove(name)

    def _hand_out(self, name: str, build: bool) -> bool:
        users = [watched for watched in self.watched if watched.program.binary == name]
        started = time.monotonic()
        try:
            if build:
                path: Path | None = ensure(RECIPES[name], self.place.home, self._report, self.stop)
            else:
                path = provided(RECIPES[name]) or built(RECIPES[name], self.place.home, toolchain())
        except GlideslopeError as error:
            for watched in users:
                watched.state.phase, watched.state.detail = "failed", str(error)
            return True
        for watched in users:
            if path is None:
                watched.state.detail = "waits for its turn to be built"
            else:
                watched.state.build_seconds = round(time.monotonic() - started, 1) if build else 0.0
                watched.state.phase, watched.state.detail = "waiting", ""
                watched.binary = path
        return path is not None

    def _report(self, progress: BuildProgress) -> None:
        what = "waits for another build" if progress.phase == "waiting" else f"{progress.packages} packages compiled"
        for watched in self.watched:
            if watched.program.binary == progress.program:
                watched.state.phase, watched.state.detail = "building", what

    def _stop_all(self) -> None:
        """Writers first, so that their queues drain into stores that still run."""
        for sends, patience_s in ((True, 8.0), (False, 15.0)):
            group = [watched for watched in self.watched if watched.program.sends is sends and watched.child]
            process.stop([watched.state.identity for watched in group if watched.state.identity], patience_s)
            for watched in group:
                if watched.child is not None:
                    watched.child.poll()
                watched.state.phase, watched.state.detail, watched.state.ready = "stopped", "", 0.0


@contextmanager
def _only_one(home: Home) -> Iterator[None]:
    with (home.run / "supervisor.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"the stack in {home.root} is already up: see `glideslope status`") from None
        yield


def supervise(place: Place, programs: tuple[Program, ...]) -> None:
    """Run a supervisor in this process until SIGTERM or SIGINT; raises StackError when it cannot begin."""
    supervisor = Supervisor(place, programs)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: supervisor.stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    try:
        supervise(Place.native(Home.from_env(), Ports.from_env()), select(tuple(sys.argv[1:]) or None))
    except GlideslopeError as problem:
        sys.exit(f"glideslope: {problem}")
