# SPDX-License-Identifier: Apache-2.0
"""`glideslope up | down | status | doctor | build`: the stack on this machine.

In: options. Out: text for people, `--json` for programs; exit code 1 when something is wrong. Imports stack and config.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.stack.binaries import BuildProgress, ensure
from glideslope.stack.daemon import supervise
from glideslope.stack.doctor import examine
from glideslope.stack.programs import Place, select
from glideslope.stack.recipes import RECIPES, recipe
from glideslope.stack.state import ProgramState, StackState
from glideslope.stack.supervisor import OnState, Stack, urls

_STYLE = {"running": "green", "crashed": "red", "failed": "red", "building": "yellow", "starting": "cyan"}
_MARK = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def _what(entry: ProgramState) -> str:
    """One line about a program: phase, first line of the detail, restarts."""
    parts = [entry.detail.splitlines()[0] if entry.detail else ""]
    if entry.restarts:
        parts.append(f"restarted {entry.restarts} ×")
    return ", ".join(filter(None, parts))


def _table(state: StackState) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, entry in state.programs.items():
        phase = Text(entry.phase, style=_STYLE.get(entry.phase, "dim"))
        table.add_row(Text(name, style="bold"), phase, Text(entry.url), Text(_what(entry), style="dim"))
    return table


class _Plain:
    """Progress without a terminal: one line whenever a program's phase changes."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def __call__(self, state: StackState) -> None:
        for name, entry in state.programs.items():
            if self.seen.get(name) != entry.phase:
                self.seen[name] = entry.phase
                click.echo(f"{name:13} {entry.phase} {_what(entry)}".rstrip())


@contextmanager
def starting() -> Iterator[OnState]:
    """Show what each program does while the stack starts: `with starting() as show: stack.start(on_state=show)`."""
    console = Console()
    if not console.is_terminal:
        yield _Plain()
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield lambda state: live.update(_table(state))


def _print_urls(ports: Ports) -> None:
    for name, url in urls(ports).items():
        click.echo(f"  {name:13} {url}")


@click.command()
@click.option("--foreground", is_flag=True, help="Supervise in this terminal until Ctrl-C.")
@click.option("--detach/--wait", default=False, help="Return at once instead of waiting until all is healthy.")
@click.option("--only", multiple=True, metavar="PROGRAM", help="Start only this one and what it needs; repeatable.")
def up(foreground: bool, detach: bool, only: tuple[str, ...]) -> None:
    """Start the stack: collector, stores, alerting, server.

    What is not built yet is built first (about 15 CPU-minutes, once); each program starts as soon as it is there.
    The stack survives the terminal; `glideslope down` stops it.
    """
    stack = Stack()
    if foreground:
        click.echo("supervising; Ctrl-C stops the stack")
        supervise(Place.native(stack.home, stack.ports), select(only or None))
        return
    try:
        with starting() as show:
            began = stack.start(only or None, () if detach else None, show)
    except KeyboardInterrupt:
        raise StackError("the stack goes on starting: see `glideslope status`; `glideslope down` ends it") from None
    click.echo("the stack starts in the background:" if detach else "the stack is up:" if began else "already up:")
    _print_urls(stack.ports)


@click.command()
def down() -> None:
    """Stop the stack."""
    stack = Stack()
    was_up = stack.status() is not None
    killed = stack.stop()
    if killed:
        click.echo(f"stopped; ended without a supervisor: {', '.join(killed)}")
    else:
        click.echo("stopped" if was_up else "nothing was running")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> None:
    """Say what runs, where, and what restarted; exit code 1 when a program is not running."""
    stack = Stack()
    state = stack.status()
    if as_json:
        told = state.to_dict() if state else {"programs": {}}
        place = {"up": state is not None, "home": str(stack.home.root), "urls": urls(stack.ports)}
        click.echo(json.dumps(place | told))
    elif state is None:
        click.echo("the stack is down: `glideslope up` starts it")
    else:
        console = Console()
        console.print(_table(state))
        for name, entry in state.programs.items():
            if entry.phase in ("crashed", "failed") or entry.failures:
                click.echo(f"\n{name}: {entry.detail}")
    if state is None or any(entry.phase != "running" for entry in state.programs.values()):
        sys.exit(1)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check this machine for what the stack needs; exit code 1 when there is a problem."""
    findings = examine(Stack())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            mark, colour = _MARK[finding.level]
            click.echo(f"{click.style(mark, fg=colour)} {finding.subject:20} {finding.text}")
    if any(finding.level == "problem" for finding in findings):
        sys.exit(1)


@click.command()
@click.argument("programs", nargs=-1)
def build(programs: tuple[str, ...]) -> None:
    """Build the native programs of the stack (all, or the named ones) into $GLIDESLOPE_HOME/bin."""
    chosen = [recipe(name) for name in programs] or list(RECIPES.values())
    home = Home.from_env()
    console = Console()
    columns = (TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for entry in chosen:
            task = progress.add_task(entry.program, total=entry.seconds, note="")
            began = time.monotonic()

            def show(told: BuildProgress, task: TaskID = task, began: float = began) -> None:
                waiting = told.phase == "waiting"
                note = "waits for another build" if waiting else f"{told.packages} packages compiled"
                progress.update(task, completed=time.monotonic() - began, note=note)

            path = ensure(entry, home, show)
            spent = time.monotonic() - began
            progress.update(task, completed=entry.seconds, note="")
            if not console.is_terminal:
                click.echo(f"{entry.program:22} {spent:6.1f} s  {path}")
