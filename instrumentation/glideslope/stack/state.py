# SPDX-License-Identifier: Apache-2.0
"""What the supervisor knows, as a small JSON file that anyone may read at any time.

In: snapshots. Out: $GLIDESLOPE_HOME/run/state.json, replaced as a whole. Imports config, errors, settings.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from glideslope.config import Home
from glideslope.stack.process import Identity
from glideslope.stack.settings import write_atomically

Phase = Literal["waiting", "building", "starting", "running", "crashed", "failed", "stopping", "stopped"]
"""waiting: for another program or its turn to build. crashed: will be started again. failed: cannot be built."""


@dataclass(kw_only=True, slots=True)
class ProgramState:
    """One program as the supervisor sees it."""

    title: str
    url: str
    phase: Phase = "waiting"
    detail: str = ""
    """What it waits for, how far the build is, or why it crashed with the last lines of its log."""
    pid: int = 0
    started: float = 0.0
    """Start time of the process (Unix seconds); with `pid` its identity."""
    ready: float = 0.0
    """When it first answered its health page since it was started (Unix seconds), or 0."""
    restarts: int = 0
    """How often it came back after it had ended by itself."""
    failures: int = 0
    """How often in a row it ended before it was ready."""
    build_seconds: float = 0.0
    """Wall seconds that its build took in this start of the stack; 0 when the binary was there."""
    log: str = ""

    @property
    def identity(self) -> Identity | None:
        """The process, or None when there is none."""
        return Identity(self.pid, self.started) if self.pid else None


@dataclass(kw_only=True, slots=True)
class StackState:
    """The whole stack."""

    pid: int = 0
    started: float = 0.0
    port_offset: int = 0
    programs: dict[str, ProgramState] = field(default_factory=dict)

    @property
    def identity(self) -> Identity | None:
        """The supervisor's process, or None when there is none."""
        return Identity(self.pid, self.started) if self.pid else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def state_file(home: Home) -> Path:
    """Where the state lies."""
    return home.run / "state.json"


def write_state(home: Home, state: StackState) -> None:
    """Replace the state file."""
    write_atomically(state_file(home), json.dumps(state.to_dict(), indent=1))


def read_state(home: Home) -> StackState | None:
    """Return the last state written, or None when there is none or it is of another version."""
    try:
        told = json.loads(state_file(home).read_text("utf-8"))
        programs = {name: ProgramState(**entry) for name, entry in told.pop("programs").items()}
        return StackState(**told, programs=programs)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
