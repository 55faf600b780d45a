# SPDX-License-Identifier: Apache-2.0
"""The writing end of a spool: records appended to segment files in page cache, by one process.

In: (kind, payload). Out: files `NNNNNNNN.seg`. Imports `records`, `liveness`, `space`.
A record counts as accepted once it is in page cache: it survives the death of the process, not of the machine. Nothing
is raised: what cannot be stored is counted.

No mmap, no database, no locks, no fsync of files or folders, so it works on NFS and Lustre: a folder has one writer,
which claims it by O_EXCL, so O_APPEND needs no help from the file system; names sort by age; a reader on another host
sees what the writer's client has sent home, at the latest when the segment is closed (close-to-open), and takes less
for a torn tail. Every writer begins a folder of its own, so sequence numbers are never continued.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from glideslope.ship import liveness, records
from glideslope.ship.space import FULL, Space

_log = logging.getLogger("glideslope")

SHARE = {"metrics": 1.0, "layers": 0.6, "traces": 0.8, "logs": 0.8}
"""Part of the quota that each drop class may fill: layers go first, loss and step metrics last."""
_MARKS = 4096
_MARK_EVERY_S = 0.25
_IOV = 512
_FIRST_BYTES = len(records.SEGMENT_HEADER) + records.OVERHEAD + len(records.pack_tally((0, 0, 0, 0)))
"""A segment's header and its tally."""


def segment_path(directory: Path, number: int) -> Path:
    """Path of a segment."""
    return directory / f"{number:08d}.seg"


def segment_numbers(directory: Path) -> list[int]:
    """Numbers of the segments in a folder, ascending."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted(int(name[:-4]) for name in names if name.endswith(".seg") and name[:-4].isdigit())


def _claimed(directory: Path) -> tuple[Path, bool]:
    """Take the folder itself, or a numbered neighbour when another writer has it; False when none can be made yet.

    The pid in its name does not make it ours alone: containers on a shared file system have pids of their own.
    """
    folder, number = directory, 2
    try:
        while True:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not segment_numbers(folder):
                with contextlib.suppress(FileExistsError):
                    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                    os.close(os.open(folder / liveness.WRITER, flags, 0o600))
                    liveness.mark(folder)
                    return folder, True
            folder, number = directory.with_name(f"{directory.name}-{number}"), number + 1
    except OSError:
        return directory.with_name(f"{directory.name}-{secrets.token_hex(4)}"), False


class SpoolWriter:
    """Appends records; callable from several threads and from signal handlers."""

    def __init__(
        self,
        directory: Path,
        *,
        quota_bytes: int,
        segment_bytes: int = 8 << 20,
        segment_age_s: float = 30.0,
        say: Callable[[str], None] = _log.warning,
    ) -> None:
        """Claim the folder, or a neighbour when another writer has it; what fails now is tried again later.

        `quota_bytes` bounds the bytes on disk, `segment_bytes` and `segment_age_s` when a new segment begins; `say` is
        told, rarely and in a sentence, when the disk refuses and when it takes again.
        """
        self.directory, self._marked = _claimed(directory)
        self.sequence = 0
        """Sequence number of the last record."""
        self.disk_bytes = 0
        """Bytes in segments that exist; the sender lowers it as it deletes them."""
        self.written_bytes = 0
        self.dropped: dict[tuple[str, str], int] = {}
        """Points, spans and logs that were not stored, by (class, reason)."""
        self.marks: deque[tuple[int, float]] = deque()
        """(sequence, monotonic time) of some unacknowledged records, oldest first: they give the lag."""
        self.lock = threading.RLock()
        self.inert = False
        self._quota, self._segment_bytes, self._segment_age_s = quota_bytes, segment_bytes, segment_age_s
        self._fd = -1
        self._number = 0
        self._size = 0
        self._opened = 0.0
        self._space = Space(self.directory, say)
        self._contexts: dict[int, list[bytes]] = {}
        self._defined: dict[int, int] = {}
        self._busy = False
        self._reentered: deque[tuple[int, bytes]] = deque()
        self._closed = False
        self._points = [0] * len(records.DROP_CLASSES)
        self._mark_every_s = _MARK_EVERY_S

    def append(self, kind: int, payload: bytes) -> None:
        """Store one record. Definitions are kept in memory and written to each segment that uses them."""
        if self.inert:
            return
        with self.lock:
            if self._busy:
                # A signal handler interrupted an append of this very thread: it goes behind that one.
                self._reentered.append((kind, payload))
                return
            self._busy = True
            try:
                self._append(kind, payload)
            finally:
                self._busy = False
            # Asked after _busy is down: from then on a handler's record goes its own way.
            while self._reentered:
                self._busy = True
                try:
                    self._append(*self._reentered.popleft())
                finally:
                    self._busy = False

    def close(self) -> None:
        """Close the segment; later records are counted as dropped."""
        with self.lock:
            self._closed = True
            self._close_segment()
            if self._number == 0 and self._marked:
                with contextlib.suppress(OSError):
                    os.unlink(self.directory / liveness.WRITER)
                    self.directory.rmdir()

    def abandon(self) -> None:
        """In a forked child: let go of the segment and do nothing from now on."""
        self.inert = True
        self.lock = threading.RLock()
        self._close_segment()

    def release(self, size: int) -> None:
        """Note that the sender deleted segments of `size` bytes."""
        with self.lock:
            self.disk_bytes -= size

    @property
    def crowded(self) -> bool:
        """Whether acknowledged segments should go at once: half the quota is used, or the disk is nearly full."""
        return self._space.short or self.disk_bytes > self._quota // 2

    @property
    def full(self) -> bool:
        """Whether soon nothing more is stored."""
        return self._space.short or self.disk_bytes > 0.9 * self._quota

    def _append(self, kind: int, payload: bytes) -> None:
        context, count = records.context_and_count(payload)
        if kind & 0x0F == records.DEFINE:
            self._contexts.setdefault(context, []).append(payload)
            return
        if self._closed:
            self._drop(records.drop_class(kind), count, "closed")
            return
        now, space = time.monotonic(), self._space
        drop_class = records.DROP_CLASSES[kind >> 4 & 3]
        calm = now < space.calm_until and self.written_bytes < space.calm_bytes
        if not calm:
            if space.wants_look(now, self.written_bytes):
                self._look(now)
            if not space.allows(drop_class, now):
                self._drop(drop_class, count, "disk")
                return
        if self._size >= min(self._segment_bytes, space.segment_bytes) or now - self._opened >= self._segment_age_s:
            # Where no new segment can be made, the old one goes on.
            self._begin_segment(now)
        for last in (False, True):
            if self._fd < 0:
                self._begin_segment(now)
            parts, size = self._record(kind, context, payload)
            if len(payload) > records.MAX_PAYLOAD or self.disk_bytes + size > self._quota * SHARE[drop_class]:
                self._drop(drop_class, count, "quota")
                return
            if self._fd < 0 or not (calm or space.may_write(size, now)):
                self._drop(drop_class, count, "disk")
                return
            error = self._write(parts, size)
            if error is None:
                break
            if last or error.errno in FULL:
                space.not_written(size, now, error)
                self._drop(drop_class, count, "disk")
                return
            # This segment is broken (EIO, ESTALE, a limit on file sizes): a new one gets the record.
        if not calm:
            space.wrote(now)
        self.sequence += len(parts) // 2
        self._points[kind >> 4 & 3] += count
        if len(parts) > 2:
            self._defined[context] = len(self._contexts[context])
        self._size += size
        self.disk_bytes += size
        self.written_bytes += size
        self._mark(now)

    def _record(self, kind: int, context: int, payload: bytes) -> tuple[list[bytes], int]:
        """Headers and payloads of a record and of the definitions that the segment lacks, and their size."""
        sequence = self.sequence
        known = self._contexts.get(context, ())
        defined = self._defined.get(context, 0)
        if defined == len(known):
            return [records.header(kind, sequence + 1, payload), payload], records.OVERHEAD + len(payload)
        parts: list[bytes] = []
        for definition in known[defined:]:
            sequence += 1
            parts += (records.header(kind & 0xF0 | records.DEFINE, sequence, definition), definition)
        parts += (records.header(kind, sequence + 1, payload), payload)
        return parts, sum(map(len, parts))

    def _mark(self, now: float) -> None:
        marks = self.marks
        if not marks or now - marks[-1][1] >= self._mark_every_s:
            if len(marks) >= _MARKS:
                # The sender takes from the left meanwhile; what it takes from the old one, it takes here next time.
                self.marks = marks = deque(list(marks.copy())[::2])
                self._mark_every_s *= 2
            marks.append((self.sequence, now))

    def _write(self, parts: list[bytes], size: int) -> OSError | None:
        """Write all or nothing: a torn record is cut off again; where more than room is missing the segment is left."""
        if len(parts) > _IOV:
            parts = [b"".join(parts)]
        try:
            done = os.writev(self._fd, parts)
            if done < size:
                rest = memoryview(b"".join(parts))[done:]
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            return None
        except OSError as error:
            try:
                os.ftruncate(self._fd, self._size)
                whole = error.errno in FULL
            except OSError:
                whole = False
            if not whole:
                self._close_segment()
            return error

    def _look(self, now: float) -> None:
        """Look at the free space, and whether somebody deleted the segment under us: then begin another one."""
        if self._fd >= 0 and not os.access(segment_path(self.directory, self._number), os.F_OK):
            self._begin_segment(now)
            self.disk_bytes = 0
            for number in segment_numbers(self.directory):
                with contextlib.suppress(OSError):
                    self.disk_bytes += segment_path(self.directory, number).stat().st_size
        self._space.look(now, self.written_bytes)

    def _begin_segment(self, now: float) -> None:
        """Begin a segment and leave the one before, unless none can be made."""
        if not self._space.may_begin(now):
            return
        number = self._number
        while True:
            number += 1
            try:
                fd = self._create(segment_path(self.directory, number))
                break
            except OSError as error:
                # A rest that could be neither filled nor removed is stepped over.
                if not isinstance(error, FileExistsError) or not os.path.isdir(self.directory):
                    self._space.not_begun(now, error)
                    return
        self._close_segment()
        self._fd, self._number = fd, number
        self._size = _FIRST_BYTES
        self.disk_bytes += self._size
        self._opened = now
        self._defined.clear()

    def _create(self, path: Path) -> int:
        if not self._marked or not self.directory.exists():
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            liveness.mark(self.directory)
            self._marked = True
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        tally = records.pack_tally(self._points)
        head = records.SEGMENT_HEADER + records.header(records.TALLY, self.sequence, tally) + tally
        try:
            if os.write(fd, head) != len(head):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        return fd

    def _close_segment(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    def _drop(self, drop_class: str, count: int, reason: str) -> None:
        key = (drop_class, reason)
        self.dropped[key] = self.dropped.get(key, 0) + count
