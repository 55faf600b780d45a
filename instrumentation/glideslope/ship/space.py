# SPDX-License-Identifier: Apache-2.0
"""Who may still write when the disk of a spool runs full, and when a failed write is tried again.

In: sizes, errors, the clock. Out: decisions, and one warning per episode. Imports `records`.

`layers` yield while some space is left, then `traces` and `logs`; `metrics` go on to the last byte. Where the file
system does not tell (a user quota on a file server), all but metrics yield for some seconds after each refusal, so that
what becomes free goes to metrics first. After a failure only smaller records are tried, until half a second passed.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path

from glideslope.ship.records import DROP_CLASSES

FLOOR = {"metrics": (0, 0.0), "layers": (256 << 20, 0.1), "traces": (128 << 20, 0.05), "logs": (128 << 20, 0.05)}
"""Free space that each drop class leaves to the others: bytes, but at most this part of the file system."""
RETRY_S = 0.5
YIELD_S = 5.0
_LOOK_S = 5.0
_SMALL_SEGMENT = 64 << 10
_LOOK_BYTES = (64 << 10, 8 << 20)
"""Least and most bytes between two looks; in between a sixteenth of what is free."""
_QUIET_S = 300.0
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors that say that there is no room, in contrast to a file that broke."""


class Space:
    """The state of one spool's file system as its writer sees it."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        """`say` is told when values begin to be dropped and when all are stored again, at most every 5 minutes."""
        self._directory, self._say = directory, say
        self._refused: frozenset[str] = frozenset()
        self._yield_until = self._retry_at = self._begin_at = self._look_at = 0.0
        self._failed_size = 0
        self._look_bytes = 0
        self._trouble = False
        self.calm_until, self.calm_bytes = 0.0, 0
        """Until then, and until so many bytes were written, everything may be written and nothing needs a look."""
        self.segment_bytes = math.inf
        """Largest segment that leaves room for the next ones: only whole segments can be deleted."""
        self._spoken_at = -math.inf
        self._spoken = False

    @property
    def short(self) -> bool:
        """Whether something is refused or failed lately: acknowledged segments should go at once."""
        return self._trouble

    def wants_look(self, now: float, written: int) -> bool:
        """Whether `look` is due after `written` bytes in all."""
        return now >= self._look_at or written >= self._look_bytes

    def look(self, now: float, written: int) -> None:
        """Ask the file system how much is free. One that does not know (or fails) refuses nobody."""
        free, whole = math.inf, 0.0
        try:
            status = os.statvfs(self._directory)
            whole = float(status.f_blocks * status.f_frsize)
            if whole:
                free = float(status.f_bavail * status.f_frsize)
        except OSError:
            pass
        self._look_at = now + _LOOK_S
        self.segment_bytes = max(_SMALL_SEGMENT, free / 16)
        least, most = _LOOK_BYTES
        self._look_bytes = written + int(min(max(free / 16, least), most))
        self._refused = frozenset(c for c in DROP_CLASSES if free < min(FLOOR[c][0], FLOOR[c][1] * whole))
        self.calm_until, self.calm_bytes = 0.0 if self._trouble else self._look_at, self._look_bytes
        if self._refused:
            self._warn(now, f"only {free / (1 << 20):.0f} MiB are free")

    def allows(self, drop_class: str, now: float) -> bool:
        """Whether records of this class may be written."""
        return drop_class not in self._refused and (drop_class == "metrics" or now >= self._yield_until)

    def may_begin(self, now: float) -> bool:
        """Whether it is worth to make a new segment so soon after the last failure."""
        return now >= self._begin_at

    def not_begun(self, now: float, error: OSError) -> None:
        """Note a segment that could not be made."""
        self._begin_at = now + RETRY_S
        self._note(now, error)

    def may_write(self, size: int, now: float) -> bool:
        """Whether a write of `size` bytes is worth a try so soon after the last failure."""
        return size < self._failed_size or now >= self._retry_at

    def not_written(self, size: int, now: float, error: OSError) -> None:
        """Note a write of `size` bytes that failed."""
        self._retry_at, self._failed_size = now + RETRY_S, size
        if error.errno not in FULL:
            self._begin_at = now + RETRY_S
        self._note(now, error)

    def wrote(self, now: float) -> None:
        """Note a write that succeeded."""
        if self._trouble and not self._refused and now >= max(self._yield_until, self._retry_at, self._begin_at):
            self._trouble = False
            self.calm_until = self._look_at
            if self._spoken:
                self._spoken = False
                self._say(f"glideslope: all telemetry is stored again in {self._directory}")

    def _note(self, now: float, error: OSError) -> None:
        if error.errno in FULL:
            self._yield_until = now + YIELD_S
        self._warn(now, error.strerror or str(error))

    def _warn(self, now: float, why: str) -> None:
        if not self._trouble and now - self._spoken_at >= _QUIET_S:
            self._spoken_at, self._spoken = now, True
            self._say(
                f"glideslope: telemetry is being dropped, layer statistics first and step metrics last: {why} "
                f"({self._directory}). Training goes on and the drops are counted; make room, or name another folder "
                "in GLIDESLOPE_SPOOL"
            )
        self._trouble, self.calm_until = True, 0.0
