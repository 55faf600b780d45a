# SPDX-License-Identifier: Apache-2.0
"""Is this machine fit for the stack? One finding per question, each with its remedy.

In: Home and Ports. Out: findings. Starts nothing and changes nothing. Imports the other stack modules only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from glideslope.errors import GlideslopeError
from glideslope.stack import process
from glideslope.stack.assets import stack_root
from glideslope.stack.binaries import built, provided, toolchain
from glideslope.stack.programs import PROGRAMS
from glideslope.stack.recipes import RECIPES
from glideslope.stack.state import read_state
from glideslope.stack.supervisor import Stack

Level = Literal["ok", "warning", "problem"]

# Go caches and modules of all builds took 6 GB here; the stores need room to grow.
BUILD_BYTES = 8 << 30
RUN_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question."""

    subject: str
    level: Level
    text: str


def examine(stack: Stack) -> list[Finding]:
    """Run every check; never raises for a failing one."""
    checks: tuple[Callable[[Stack], Iterator[Finding]], ...] = (
        _files,
        _programs,
        _tools,
        _disk,
        _ports,
        _permissions,
        _leftovers,
    )
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check(stack)
        except GlideslopeError as error:
            findings.append(Finding(check.__name__.strip("_"), "problem", str(error)))
    return findings


def _files(_: Stack) -> Iterator[Finding]:
    yield Finding("files", "ok", f"stack files in {stack_root()}")


def _programs(stack: Stack) -> Iterator[Finding]:
    go = None
    try:
        go = toolchain()
        yield Finding("go", "ok", f"{go.version} in {go.path}")
    except GlideslopeError as error:
        yield Finding("go", "warning", str(error))
    for recipe in RECIPES.values():
        found = provided(recipe) or (built(recipe, stack.home, go) if go else None)
        if found:
            yield Finding(recipe.program, "ok", str(found))
        elif recipe.essential:
            level: Level = "warning" if go else "problem"
            yield Finding(recipe.program, level, f"not built yet; about {recipe.seconds} s by `glideslope build`")


def _tools(_: Stack) -> Iterator[Finding]:
    for tool, use in (("node", "builds the viewer"), ("cc", "makes VictoriaMetrics faster")):
        found = shutil.which(tool)
        if found is None:
            yield Finding(tool, "warning", f"not on PATH; it {use}")
            continue
        text = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"\d+\.\d+[\d.]*", text)
        yield Finding(tool, "ok", f"{version.group() if version else 'found'} in {found}")
    missing = [name for name in ("fastapi", "uvicorn", "httpx", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding("python", "problem", f"no {', '.join(missing)}: pip install 'glideslope[stack]'")


def _disk(stack: Stack) -> Iterator[Finding]:
    place = stack.home.root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    level: Level = "ok" if free > BUILD_BYTES else "warning" if free > RUN_BYTES else "problem"
    remedy = "" if level == "ok" else f": builds want {BUILD_BYTES >> 30} GiB; set GLIDESLOPE_HOME to a bigger disk"
    yield Finding("disk", level, f"{free / 2**30:.1f} GiB free at {place}{remedy}")


def _ports(stack: Stack) -> Iterator[Finding]:
    if stack.status() is not None:
        yield Finding("ports", "ok", "the stack is up and holds its ports")
        return
    taken = [
        f"port {port} ({program.name}) is taken by {process.port_holder(port)}"
        for program in PROGRAMS.values()
        for port in (getattr(stack.ports, name) for name in program.ports)
        if not process.port_is_free(port)
    ]
    for line in taken:
        yield Finding("ports", "problem", f"{line}: end it, or set GLIDESLOPE_PORT_OFFSET")
    if not taken:
        yield Finding("ports", "ok", "all free")


def _permissions(stack: Stack) -> Iterator[Finding]:
    root = stack.home.root
    if not root.exists():
        yield Finding("home", "ok", f"{root} will be made")
        return
    mode = stat.S_IMODE(root.stat().st_mode)
    if root.stat().st_uid != os.getuid():
        yield Finding("home", "problem", f"{root} belongs to another user: set GLIDESLOPE_HOME")
    elif not os.access(root, os.W_OK):
        yield Finding("home", "problem", f"{root} is read-only: set GLIDESLOPE_HOME to a folder you can write")
    elif mode & 0o077:
        yield Finding("home", "warning", f"{root} is open to others (mode {mode:o}): chmod 700 {root}")
    else:
        yield Finding("home", "ok", f"{root}, mode {mode:o}")
    token = stack.home.token
    if token.exists() and stat.S_IMODE(token.stat().st_mode) & 0o077:
        yield Finding("token", "problem", f"{token} is readable by others: chmod 600 {token}")


def _leftovers(stack: Stack) -> Iterator[Finding]:
    state = read_state(stack.home)
    if state is None or stack.status() is not None:
        return
    left = [name for name, entry in state.programs.items() if entry.identity and entry.identity.process()]
    if left:
        text = f"{', '.join(left)} run without a supervisor: `glideslope down` ends them"
        yield Finding("leftovers", "warning", text)
