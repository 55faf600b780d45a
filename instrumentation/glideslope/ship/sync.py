# SPDX-License-Identifier: Apache-2.0
"""Ship what dead processes left behind: resumable, repeatable without harm.

In: a folder with spools somewhere below it. Out: requests at the receiver, a report.
Imports its neighbours, config, errors.
Spools of living processes are left to them; a spool is removed once all of it was acknowledged and its last record is
older than the retention.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from glideslope.config import Export
from glideslope.errors import SpoolError
from glideslope.ship import liveness
from glideslope.ship.delivery import Delivery, Encode, State
from glideslope.ship.reader import SpoolReader
from glideslope.ship.shipper import RETAIN_S
from glideslope.ship.spool import segment_numbers, segment_path
from glideslope.ship.transport import READ_S, Transport

_UNANSWERED = 4
"""Requests without an answer after which it gives up: the receiver is not there."""


@dataclass(slots=True)
class SyncReport:
    """What a sync did."""

    spools: int = 0
    """Spools of dead processes that were looked at."""
    living: int = 0
    """Spools that were left to their living writer, or to another sync."""
    sent_points: int = 0
    """Metric points acknowledged."""
    dropped: int = 0
    """Points, spans and logs that the receiver refused for good."""
    damaged: int = 0
    """Damaged stretches that were skipped; a torn tail is one."""
    remaining_bytes: int = 0
    """Bytes that still wait; 0 = all was shipped."""
    troubles: list[str] = field(default_factory=list)
    """What went wrong, one sentence per spool and kind."""


def spools(root: Path) -> Iterator[Path]:
    """Folders at or below `root` that hold segments, sorted."""
    for folder, names, _ in sorted(os.walk(root)):
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
            report.spools += 1
            try:
                if reachable:
                    show = partial(_show, progress, done, size, total)
                    reachable = _ship(folder, encode_factory(), export, deadline, report, show)
                left = _waiting(folder)
                report.remaining_bytes += left
                done += size - left
                if left == 0:
                    _remove(folder, retain_s)
            finally:
                liveness.release(folder, liveness.SHIPPER)
    progress(done, total)
    return report


def _show(progress: Callable[[int, int], None], before: int, size: int, total: int, sent: int) -> None:
    progress(before + min(sent, size), total)


def _waiting(folder: Path) -> int:
    return SpoolReader(folder, live=lambda: False).remaining_bytes()


def _claimed(folder: Path) -> bool:
    try:
        return liveness.claim(folder, liveness.SHIPPER)
    except OSError:
        # A folder that cannot be written can still be shipped; its cursor just is not kept.
        return True


def _ship(
    folder: Path,
    encode: Encode,
    export: Export,
    deadline: float,
    report: SyncReport,
    show: Callable[[int], None],
) -> bool:
    """Ship one spool; False when nobody answers."""
    reader = SpoolReader(folder, live=lambda: False)
    transport = Transport(export)
    delivery = Delivery(reader, encode, transport, export.endpoint, report.troubles.append)
    unanswered, reachable = 0, True
    try:
        while (left := deadline - time.monotonic()) > 0:
            step = delivery.advance(min(READ_S, left))
            if step.state is State.IDLE:
                break
            if step.state is State.MOVED:
                unanswered = 0
                show(reader.acknowledged_bytes)
                continue
            unanswered += step.state is State.UNREACHABLE
            if step.state is State.REFUSED or unanswered >= _UNANSWERED:
                reachable = False
                break
            time.sleep(max(0.0, min(step.wait_s, deadline - time.monotonic())))
    finally:
        report.sent_points += delivery.sent_points
        report.dropped += sum(delivery.dropped.values())
        report.damaged += reader.damaged
        reader.close()
        transport.close()
    return reachable


def _remove(folder: Path, retain_s: float) -> None:
    """Remove a spool that was acknowledged, once its values are old enough to be durable at the store."""
    times = [segment_path(folder, number).stat().st_mtime for number in segment_numbers(folder)]
    if time.time() - max(times, default=0.0) >= retain_s and not (folder / "rejected").exists():
        shutil.rmtree(folder, ignore_errors=True)
