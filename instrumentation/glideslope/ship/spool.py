# SPDX-License-Identifier: Apache-2.0
"""The writing end of a spool: records appended to segment files in page cache, by one process.

In: (kind, payload). Out: files `NNNNNNNN.seg`. Imports `records`, `liveness`.
A record counts as accepted once it is in page cache: it survives the death of the process, not of the machine. No mmap,
no database, no fsync, so it works on NFS and Lustre. Nothing is raised: what cannot be stored is counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from pathlib import Path

from glideslope.ship import liveness, records

SHARE = {"metrics": 1.0, "layers": 0.6, "traces": 0.8, "logs": 0.8}
"""Part of the quota that each drop class may fill: layers go first, loss and step metrics last."""
_RETRY_S = 0.5
_MARKS = 4096
_MARK_EVERY_S = 0.25
_IOV = 512


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


def _unused(directory: Path) -> Path:
    """The folder itself, or a numbered neighbour when an earlier process with the same id left something in it."""
    folder, number = directory, 2
    while segment_numbers(folder) or (folder / liveness.WRITER).exists():
        folder, number = directory.with_name(f"{directory.name}-{number}"), number + 1
    return folder


class SpoolWriter:
    """Appends records; callable from several threads and from signal handlers."""

    def __init__(
        self, directory: Path, *, quota_bytes: int, segment_bytes: int = 8 << 20, segment_age_s: float = 30.0
    ) -> None:
        """Choose the folder; nothing is created before the first record.

        `quota_bytes` bounds the bytes on disk, `segment_bytes` and `segment_age_s` when a new segment begins.
        """
        self.directory = _unused(directory)
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
        self._retry_at = 0.0
        self._contexts: dict[int, list[bytes]] = {}
        self._defined: dict[int, int] = {}
        self._busy = False
        self._reentered: deque[tuple[int, bytes]] = deque()
        self._closed = False

    def append(self, kind: int, payload: bytes) -> None:
        """Store one record. Definitions are kept in memory and written to each segment that uses them."""
        if self.inert:
            return
        with self.lock:
            if self._busy:
                # A signal handler interrupted an append of this very thread: it goes behind that one.
                self._reentered.append((kind, payload))
                return
            self._reentered.append((kind, payload))
            # Looked at again after _busy is down: a handler may have come in between.
            while self._reentered:
                self._busy = True
                try:
                    while self._reentered:
                        self._append(*self._reentered.popleft())
                finally:
                    self._busy = False

    def close(self) -> None:
        """Close the segment; later records are counted as dropped."""
        with self.lock:
            self._closed = True
            self._close_segment()

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
        """Whether acknowledged segments should go at once, because the quota is half used."""
        return self.disk_bytes > self._quota // 2

    def _append(self, kind: int, payload: bytes) -> None:
        context, count = records.context_and_count(payload)
        if records.is_definition(kind):
            self._contexts.setdefault(context, []).append(payload)
            return
        if self._closed:
            self._drop(kind, count, "closed")
            return
        now = time.monotonic()
        due = self._size >= self._segment_bytes or now - self._opened >= self._segment_age_s
        if (self._fd < 0 or due) and not self._begin_segment(now):
            self._drop(kind, count, "disk")
            return
        definitions = self._contexts.get(context, [])
        missing = definitions[self._defined.get(context, 0) :]
        sequence = self.sequence
        parts: list[bytes] = []
        for definition in missing:
            sequence += 1
            parts += (records.header(kind & 0xF0 | records.DEFINE, sequence, definition), definition)
        sequence += 1
        parts += (records.header(kind, sequence, payload), payload)
        size = sum(map(len, parts))
        if len(payload) > records.MAX_PAYLOAD or (
            self.disk_bytes + size > self._quota * SHARE[records.drop_class(kind)]
        ):
            self._drop(kind, count, "quota")
            return
        if not self._write(parts, size):
            self._drop(kind, count, "disk")
            return
        self.sequence = sequence
        self._defined[context] = len(definitions)
        self._size += size
        self.disk_bytes += size
        self.written_bytes += size
        marks = self.marks
        if not marks or (now - marks[-1][1] >= _MARK_EVERY_S and len(marks) < _MARKS):
            marks.append((sequence, now))

    def _write(self, parts: list[bytes], size: int) -> bool:
        """Write all or nothing: a torn record is cut off again, or its segment is left behind."""
        if len(parts) > _IOV:
            parts = [b"".join(parts)]
        try:
            done = os.writev(self._fd, parts)
            if done < size:
                rest = memoryview(b"".join(parts))[done:]
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            return True
        except OSError:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                self._close_segment()
            return False

    def _begin_segment(self, now: float) -> bool:
        if now < self._retry_at:
            return False
        self._close_segment()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        path = segment_path(self.directory, self._number + 1)
        try:
            if self._number == 0:
                self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                liveness.mark(self.directory)
            self._fd = os.open(path, flags, 0o600)
            if os.write(self._fd, records.SEGMENT_HEADER) != len(records.SEGMENT_HEADER):
                raise OSError("short write")
        except OSError:
            self._retry_at = now + _RETRY_S
            if self._fd >= 0:
                self._close_segment()
                with contextlib.suppress(OSError):
                    os.unlink(path)
            return False
        self._number += 1
        self._size = len(records.SEGMENT_HEADER)
        self.disk_bytes += self._size
        self._opened = now
        self._defined.clear()
        return True

    def _close_segment(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    def _drop(self, kind: int, count: int, reason: str) -> None:
        key = (records.drop_class(kind), reason)
        self.dropped[key] = self.dropped.get(key, 0) + count
