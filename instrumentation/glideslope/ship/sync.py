# SPDX-License-Identifier: Apache-2.0
"""Ship what dead processes left behind: resumable, repeatable without harm; once, or for as long as a node is up.

In: a folder with spools somewhere below it. Out: requests at the receiver, a report.
Imports its neighbours, config, errors.
Spools of living processes are left to them. A spool stays until its metrics are durable at the store (see `cursor`):
so it is asked for its epoch, by sending the last batch again, and what it lost is sent again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from glideslope.config import Export
from glideslope.errors import SpoolError
from glideslope.ship import liveness
from glideslope.ship.cursor import METRICS, RETAIN_S, Cursor
from glideslope.ship.delivery import Delivery
from glideslope.ship.lane import Encode, Lane, State
from glideslope.ship.reader import bytes_behind
from glideslope.ship.spool import segment_numbers, segment_path
from glideslope.ship.transport import Transport

_TRIES = 4
"""Requests in a row without an answer after which it gives up: the receiver is not there."""
_POLL_S = 0.25
FOLLOW_S = 3.0
_LONGEST_PAUSE_S, _BROKEN_S = 60.0, 600.0


@dataclass(slots=True)
class SyncReport:
    """What a sync did."""

    spools: int = 0
    """Spools of dead processes that were looked at."""
    living: int = 0
    """Spools that were left to their living writer, or to another sync."""
    sent_points: int = 0
    """Metric points acknowledged."""
    replayed_points: int = 0
    """Of these, points that were sent again."""
    dropped: int = 0
    """Points, spans and logs that the receiver refused for good."""
    damaged: int = 0
    """Damaged stretches that were skipped; a torn tail is one."""
    remaining_bytes: int = 0
    """Bytes that still wait; 0 = all was shipped."""
    kept: int = 0
    """Spools that were shipped and stay until what they hold is durable at the store."""
    removed: int = 0
    """Spools that were removed, because all of it is durable."""
    troubles: list[str] = field(default_factory=list)
    """What went wrong, one sentence per spool and kind."""


def spools(root: Path) -> Iterator[Path]:
    """Folders at or below `root` that hold segments, sorted."""
    for folder, names, _ in os.walk(root):
        names.sort()
        if segment_numbers(Path(folder)):
            yield Path(folder)


def sync(
    root: Path,
    encode_factory: Callable[[], Encode],
    export: Export,
    *,
    timeout_s: float = 600.0,
    progress: Callable[[int, int], None] = lambda sent, total: None,
    retain_s: float = RETAIN_S,
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> SyncReport:
    """Ship every spool below `root` whose writer is dead.

    `encode_factory()` makes a fresh encoder for each spool; `progress(done, total)` is called with bytes. Stops after
    `timeout_s` seconds, or when nobody answers; call it again to go on. Raises SpoolError when `root` is not readable.
    """
    if not os.access(root, os.R_OK | os.X_OK):
        raise SpoolError(f"{root} cannot be read: name the spool folder, by default $GLIDESLOPE_HOME/spool")
    report, deadline = SyncReport(), time.monotonic() + timeout_s
    waiting = {folder: _waiting(folder) for folder in spools(root)}
    total, done, reachable = sum(waiting.values()), 0, True
    with quiet():
        for folder, size in waiting.items():
            if liveness.lives(folder) or not _claimed(folder):
                report.living += 1
                total -= size
                continue
            try:
                report.spools += 1
                if reachable:
                    ship = _Spool(folder, encode_factory(), export, retain_s, report.troubles.append, quiet)
                    reachable = ship.ship(lambda: time.monotonic() >= deadline, partial(_show, progress, done, total))
                    ship.close(report)
                left = _waiting(folder)
                report.remaining_bytes += left
                done += size - left
            finally:
                liveness.release(folder, liveness.SHIPPER)
    progress(done, total)
    return report


def follow(
    root: Path,
    encode_factory: Callable[[], Encode],
    export: Export,
    stop: threading.Event,
    *,
    say: Callable[[str], None],
    every_s: float = FOLLOW_S,
    retain_s: float = RETAIN_S,
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Ship the spools of dead processes as they appear below `root`, until `stop` is set.

    `say` is told each event in a sentence: what was shipped, replayed, removed, and when the receiver is away and back.
    """
    due: dict[Path, float] = {}
    away, pause = False, every_s
    with quiet():
        while not stop.is_set():
            now, found, reachable, tried = time.monotonic(), set(), True, False
            for folder in spools(root):
                found.add(folder)
                if stop.is_set() or now < due.get(folder, 0.0) or liveness.lives(folder) or not _claimed(folder):
                    continue
                try:
                    report, tried = SyncReport(), True
                    ship = _Spool(folder, encode_factory(), export, retain_s, say, quiet)
                    reachable = ship.ship(stop.is_set, lambda sent: None, patient=False)
                    ship.close(report)
                    due[folder] = time.monotonic() + ship.cursor.confirmable_in_s
                    _tell(folder, report, say)
                except Exception as error:
                    # One spool that cannot be read must not keep the others.
                    due[folder] = time.monotonic() + _BROKEN_S
                    say(f"{folder} cannot be shipped now ({type(error).__name__}: {error}): it is tried again later")
                finally:
                    liveness.release(folder, liveness.SHIPPER)
                if not reachable:
                    break
            due = {folder: moment for folder, moment in due.items() if folder in found}
            if tried and away == reachable:
                away = not reachable
                say(f"{export.endpoint} does not answer: spools wait" if away else f"{export.endpoint} answers again")
            pause = min(2 * pause, _LONGEST_PAUSE_S) if away else every_s
            stop.wait(pause)


def _tell(folder: Path, report: SyncReport, say: Callable[[str], None]) -> None:
    sent = report.sent_points - report.replayed_points
    if sent > 0:
        say(f"{sent:,} points of {folder} sent")
    if report.replayed_points:
        say(f"{report.replayed_points:,} points of {folder} sent again")
    if report.removed:
        say(f"{folder} removed: all of it is durable")


class _Spool:
    """One spool of a dead process."""

    def __init__(
        self,
        folder: Path,
        encode: Encode,
        export: Export,
        retain_s: float,
        say: Callable[[str], None],
        quiet: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.cursor = Cursor(folder, retain_s)
        self._folder, self._transport = folder, Transport(export)
        self._delivery = Delivery(
            self.cursor, encode, self._transport, export.endpoint, say=say, inform=say, quiet=quiet
        )
        self._delivery.start()
        self._started = self._delivery.waiting_bytes()

    def ship(self, over: Callable[[], bool], show: Callable[[int], None], *, patient: bool = True) -> bool:
        """Ship until nothing waits or `over()`; False when nobody answers. Not `patient`: nor one who wants time."""
        delivery, asked = self._delivery, False
        while not over():
            delivery.advance(_POLL_S)
            show(self._started - delivery.waiting_bytes())
            lanes = delivery.lanes.values()
            if delivery.idle:
                if asked or not self.cursor.asks:
                    return True
                asked = True
                delivery.lanes[METRICS].ask()
            elif all(not lane.in_flight and (lane.state is State.IDLE or _stuck(lane, patient)) for lane in lanes):
                return any(lane.state is State.IDLE for lane in lanes) and not _stuck(delivery.lanes[METRICS], patient)
        return True

    def close(self, report: SyncReport) -> None:
        """Let go, remove what is durable, and add to the report."""
        ledger, cursor = self._delivery.ledger, self.cursor
        cursor.settle()
        self._delivery.close()
        self._transport.close()
        report.sent_points += ledger.sent_points
        report.replayed_points += ledger.replayed_points
        report.dropped += sum(ledger.dropped.values())
        report.damaged += self._delivery.lanes[METRICS].reader.damaged
        if self._delivery.waiting_bytes():
            return
        if cursor.durable:
            report.removed += 1
            _remove(self._folder)
        else:
            report.kept += 1


def _stuck(lane: Lane, patient: bool) -> bool:
    return lane.state is State.REFUSED or (lane.failures >= _TRIES and (not patient or lane.state is State.UNREACHABLE))


def _show(progress: Callable[[int, int], None], before: int, total: int, sent: int) -> None:
    progress(before + max(0, sent), total)


def _waiting(folder: Path) -> int:
    return bytes_behind(folder, min(Cursor(folder).acknowledged.values()))


def _claimed(folder: Path) -> bool:
    try:
        return liveness.claim(folder, liveness.SHIPPER)
    except OSError:
        # A folder that cannot be written can still be shipped; its cursor just is not kept.
        return True


def _remove(folder: Path) -> None:
    """Remove a spool, but for what the receiver rejected."""
    if not (folder / "rejected").exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for number in segment_numbers(folder):
        with contextlib.suppress(OSError):
            segment_path(folder, number).unlink()
