# SPDX-License-Identifier: Apache-2.0
"""`glideslope run -- CMD…` and `glideslope sync [SPOOL]`.

`run` starts the command with instrumentation, passes signals on, gives back its exit code, and ships what dead
processes left: those of the run first, then others', within one bound. `sync --follow` does it for as long as a node is
up. The command's stdout is not touched; our few lines go to stderr.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from glideslope.config import Export, Home
from glideslope.emit import RequestEncoder, suppress_instrumentation
from glideslope.errors import GlideslopeError
from glideslope.run.launch import LEFTOVERS_SHARE, prepare
from glideslope.ship.sync import SyncReport, follow
from glideslope.ship.sync import sync as ship_spool

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def say(text: str) -> None:
    """Print one line of ours to stderr."""
    click.echo(f"glideslope: {text}", err=True)


@contextmanager
def _signals_passed_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to the child; Ctrl-C reaches it through the terminal, so here it is only ignored."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if child.poll() is None:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_and_wait(command: tuple[str, ...], environ: dict[str, str]) -> int:
    """Run the command to its end and return its exit code as a shell would: 128 + n when signal n ended it."""
    try:
        child = subprocess.Popen(command, env=environ)
    except FileNotFoundError:
        say(f"command not found: {command[0]}")
        return NOT_FOUND
    except PermissionError:
        say(f"not executable: {command[0]}")
        return NOT_EXECUTABLE
    with _signals_passed_to(child):
        code = child.wait()
    return 128 - code if code < 0 else code


def ship_leftovers(folder: Path, export: Export, deadline: float | None = None) -> SyncReport | None:
    """Ship what processes below `folder` left and remove what is durable; never raises.

    Ends at `deadline` (monotonic), by default after the launcher's share of the exit timeout.
    """
    now = time.monotonic()
    timeout_s = export.exit_timeout_s * LEFTOVERS_SHARE if deadline is None else deadline - now
    if not folder.is_dir() or timeout_s <= 0:
        return None
    try:
        return ship_spool(folder, RequestEncoder, export, timeout_s=timeout_s, quiet=suppress_instrumentation)
    except GlideslopeError as error:
        say(str(error))
        return None


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--run", "run_id", default="", metavar="ID", help="Run id; the same id again makes the next attempt.")
@click.option("--name", default="", help="Name of the run for people.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(run_id: str, name: str, command: tuple[str, ...]) -> None:
    """Run a training COMMAND with instrumentation, for example: glideslope run -- torchrun train.py"""
    home, export = Home.from_env(), Export.from_env()
    launch = prepare(command, run_id=run_id, name=name, home=home)
    say(f"run {launch.run_id} attempt {launch.attempt}, sent to {export.endpoint}")
    code = start_and_wait(launch.command, dict(launch.environ))
    deadline = time.monotonic() + export.exit_timeout_s * LEFTOVERS_SHARE
    report = ship_leftovers(home.spool / launch.run_id, export, deadline)
    if report is not None and report.remaining_bytes:
        say(f"{report.remaining_bytes:,} bytes wait in {home.spool / launch.run_id}; send them later: glideslope sync")
    elif report is not None:
        # Nobody else may look after what earlier runs left; a receiver that answers is worth the rest of the time.
        ship_leftovers(home.spool, export, deadline)
    sys.exit(code)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command()
@click.argument("spool", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--timeout", default=600.0, show_default=True, help="Seconds after which it stops; run it again to go on."
)
@click.option(
    "--follow",
    "following",
    is_flag=True,
    help="Go on until SIGTERM: ship what dies, send again what a killed store lost, remove what is durable.",
)
def sync(spool: Path | None, timeout: float, following: bool) -> None:
    """Ship what a dead process left in its spool (default: every spool below $GLIDESLOPE_HOME/spool)."""
    folder = spool or Home.from_env().spool
    if following:
        with _stopped_by_signals() as stop:
            say(f"ships what dead processes leave in {folder} to {Export.from_env().endpoint}")
            follow(folder, RequestEncoder, Export.from_env(), stop, say=say, quiet=suppress_instrumentation)
        return
    if not folder.is_dir():
        say(f"nothing to ship: {folder} does not exist")
        return
    with click.progressbar(length=1000, label="shipping", file=sys.stderr) as bar:
        done = 0

        def show(sent: int, total: int) -> None:
            nonlocal done
            now = 1000 if total == 0 else min(1000, sent * 1000 // total)
            bar.update(now - done)
            done = now

        report = ship_spool(
            folder,
            RequestEncoder,
            Export.from_env(),
            timeout_s=timeout,
            progress=show,
            quiet=suppress_instrumentation,
        )
    for trouble in dict.fromkeys(report.troubles):
        click.echo(trouble, err=True)
    kept = f"; {report.kept} shipped spools stay until the store holds them for good" if report.kept else ""
    living = f"; {report.living} spools are left to the processes that use them" if report.living else ""
    damaged = f"; {report.damaged} damaged stretches were skipped" if report.damaged else ""
    lost = f"; {report.dropped:,} points, spans and logs are lost" if report.dropped else ""
    more = kept + living + damaged + lost
    say(f"{report.sent_points:,} points sent, {report.remaining_bytes:,} bytes left in {folder}{more}")
    if report.remaining_bytes:
        sys.exit(1)
