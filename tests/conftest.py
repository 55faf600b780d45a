# SPDX-License-Identifier: Apache-2.0
"""The native stack for tests: one for the whole session, and private ones for tests that break things; a receiver."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from glideslope.config import Home, Ports
from glideslope.stack.process import port_is_free
from glideslope.stack.programs import PROGRAMS
from glideslope.stack.supervisor import Stack
from glideslope.testing import OtlpReceiver


@dataclass(frozen=True)
class RunningStack:
    """A stack under test; URLs are strings without a trailing slash."""

    stack: Stack

    @property
    def home(self) -> Home:
        return self.stack.home

    @property
    def ports(self) -> Ports:
        return self.stack.ports

    @property
    def env(self) -> dict[str, str]:
        """Environment for child processes: home, port offset and the rest of ours."""
        return self.stack.environment

    @property
    def token(self) -> str:
        return self.stack.token()

    @property
    def live(self) -> str:
        return self.ports.url("live")

    @property
    def curves(self) -> str:
        return self.ports.url("curves")

    @property
    def logs(self) -> str:
        return self.ports.url("logs")

    @property
    def traces(self) -> str:
        return self.ports.url("traces_query")

    @property
    def otlp_http(self) -> str:
        return self.ports.url("otlp_http")

    @property
    def alertmanager(self) -> str:
        return self.ports.url("alertmanager")

    @property
    def vmalert(self) -> str:
        return self.ports.url("vmalert")

    @property
    def server(self) -> str:
        return self.ports.url("server")


def free_ports() -> Ports:
    """Ports of a stack that all are free now and stay below those that the kernel hands out for connections."""
    owned = [name for program in PROGRAMS.values() for name in program.ports] + ["gpu_exporter"]
    for offset in random.sample(range(1_000, 15_900, 10), 200):
        ports = Ports().shifted(offset)
        if all(port_is_free(getattr(ports, name)) for name in owned):
            return ports
    pytest.fail(f"no free set of {len(fields(Ports))} ports was found")


def fresh_home(folder: Path) -> Home:
    """A state folder whose programs are those of the real one, so that nothing is built twice."""
    home = Home(folder / "home")
    home.root.mkdir()
    real = Home.from_env().bin
    real.mkdir(parents=True, exist_ok=True)
    home.bin.symlink_to(real)
    return home


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    """An OTLP receiver in this process that keeps what it gets."""
    with OtlpReceiver() as opened:
        yield opened


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole native stack, started once for the session; tests must not stop its programs."""
    started = Stack(fresh_home(tmp_path_factory.mktemp("stack")), free_ports())
    try:
        started.start()
        yield RunningStack(started)
    finally:
        started.stop()


@pytest.fixture
def private_stack(tmp_path: Path) -> Iterator[Callable[..., RunningStack]]:
    """Start a stack of one's own: `private_stack("live", "logs")`; with no names it is prepared but not started."""
    made: list[Stack] = []

    def start(*programs: str) -> RunningStack:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Stack(fresh_home(folder), free_ports()))
        if programs:
            made[-1].start(programs)
        return RunningStack(made[-1])

    yield start
    for one in made:
        one.stop()
