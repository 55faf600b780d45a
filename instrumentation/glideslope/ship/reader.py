# SPDX-License-Identifier: Apache-2.0
"""The reading end of a spool: records in order, from where the last acknowledged reader stopped.

In: a spool folder, perhaps while its writer lives. Out: records; a cursor file; deletion of acknowledged segments.
Imports `records`, `spool`. A torn tail is awaited while the writer lives and skipped when it is dead; damage inside a
segment is skipped up to the next valid record and counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from glideslope.ship.records import INCOMPLETE, SEGMENT_HEADER, Record, is_definition, next_record, read_record
from glideslope.ship.spool import segment_numbers, segment_path

CURSOR = "cursor.json"
_DAMAGE_PATIENCE_S = 1.0


class SpoolReader:
    """Reads one spool. `read` moves on, `commit` says that everything read so far was acknowledged."""

    def __init__(self, directory: Path, live: Callable[[], bool]) -> None:
        """Start behind what the cursor file says; `live()` tells whether the writer may still append."""
        self.directory = directory
        self.damaged = 0
        """Damaged stretches that were skipped."""
        self.damaged_bytes = 0
        self.acknowledged = 0
        """Sequence number up to which everything was committed, of what this reader read."""
        self.acknowledged_bytes = 0
        self._live = live
        self._fd = -1
        self._segment = 0
        self._offset = 0
        self._sequence = 0
        self._read_bytes = 0
        self._left_at: dict[int, float] = {}
        self._suspect: tuple[int, int, float] | None = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            cursor = json.loads((directory / CURSOR).read_text())
            self._segment, self._offset = int(cursor["segment"]), int(cursor["offset"])
        self._committed = self._segment

    def read(self, max_bytes: int) -> list[Record]:
        """Return the next records, about `max_bytes` of them, at least one if there is one.

        The definitions of a segment that was left in its middle come first again.
        """
        found: list[Record] = []
        size = 0
        while size < max_bytes:
            if self._fd < 0 and not self._open(found):
                break
            # Asked before reading: what was appended until then is seen by the read that follows.
            finished = self._finished()
            data = self._data(max_bytes - size)
            used = self._parse(data, found, finished)
            size += used
            self._offset += used
            self._read_bytes += used
            if used == 0:
                if not finished:
                    break
                self._leave()
        return found

    def commit(self) -> None:
        """Everything read so far was acknowledged: write the cursor. On a failing disk more is repeated."""
        self.acknowledged, self.acknowledged_bytes = self._sequence, self._read_bytes
        for number in range(self._committed, self._segment):
            self._left_at[number] = time.monotonic()
        self._committed = self._segment
        temporary = self.directory / f".{CURSOR}.{os.getpid()}"
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps({"segment": self._segment, "offset": self._offset}))
            os.replace(temporary, self.directory / CURSOR)

    def forget(self, retain_s: float) -> int:
        """Delete segments that were acknowledged at least `retain_s` ago; return their size in bytes."""
        freed = 0
        now, wall = time.monotonic(), time.time()
        for number in segment_numbers(self.directory):
            if number >= self._committed:
                break
            path = segment_path(self.directory, number)
            with contextlib.suppress(OSError):
                status = path.stat()
                left = self._left_at.get(number)
                if (wall - status.st_mtime if left is None else now - left) >= retain_s:
                    path.unlink()
                    self._left_at.pop(number, None)
                    freed += status.st_size
        return freed

    def remaining_bytes(self) -> int:
        """Bytes on disk behind the read position."""
        total = 0
        for number in segment_numbers(self.directory):
            if number >= self._segment:
                with contextlib.suppress(OSError):
                    size = segment_path(self.directory, number).stat().st_size
                    total += max(0, size - max(self._offset if number == self._segment else 0, len(SEGMENT_HEADER)))
        return total

    def close(self) -> None:
        """Close the open segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, found: list[Record]) -> bool:
        """Open the current segment, or the first one behind it that exists."""
        numbers = [number for number in segment_numbers(self.directory) if number >= self._segment]
        if not numbers:
            return False
        if numbers[0] != self._segment:
            self._segment, self._offset = numbers[0], 0
        path = segment_path(self.directory, self._segment)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            start = os.pread(self._fd, max(self._offset, len(SEGMENT_HEADER)), 0)
        except OSError:
            self.close()
            return False
        if self._offset:
            at = len(SEGMENT_HEADER)
            while at < len(start):
                record = read_record(start, at)
                if isinstance(record, Record):
                    if is_definition(record.kind):
                        found.append(record)
                    at = record.end
                else:
                    at = next_record(start, at)
        elif start == SEGMENT_HEADER:
            self._offset = len(SEGMENT_HEADER)
        elif self._finished():
            self._skip(os.fstat(self._fd).st_size)
            self._leave()
            return self._open(found)
        else:
            self.close()
            return False
        return True

    def _finished(self) -> bool:
        """Whether nothing more will be appended to the current segment."""
        return not self._live() or any(number > self._segment for number in segment_numbers(self.directory))

    def _data(self, wanted: int) -> bytes:
        """Bytes from the read position on: at least one whole record when the file holds it."""
        data = os.pread(self._fd, max(wanted, 64), self._offset)
        if data and read_record(data, 0) == INCOMPLETE:
            data = os.pread(self._fd, os.fstat(self._fd).st_size - self._offset, self._offset)
        return data

    def _parse(self, data: bytes, found: list[Record], finished: bool) -> int:
        """Append whole records to `found`; return how many bytes are done with."""
        at = 0
        while at < len(data):
            record = read_record(data, at)
            if isinstance(record, Record):
                found.append(record)
                self._sequence = record.sequence
                at = record.end
                continue
            at_end = self._offset + len(data) >= os.fstat(self._fd).st_size
            if not at_end and (at > 0 or record == INCOMPLETE):
                break
            if not at_end:
                data = os.pread(self._fd, os.fstat(self._fd).st_size - self._offset, self._offset)
            resumed = next_record(data, at)
            if resumed == len(data) and not finished and (record == INCOMPLETE or self._wait_for(at)):
                break
            self._skip(resumed - at)
            at = resumed
        return at

    def _wait_for(self, at: int) -> bool:
        """A bad tail of a living writer may be a record in the making: give it a second."""
        here = (self._segment, self._offset + at)
        if self._suspect is None or self._suspect[:2] != here:
            self._suspect = (*here, time.monotonic())
        return time.monotonic() - self._suspect[2] < _DAMAGE_PATIENCE_S

    def _skip(self, size: int) -> None:
        if size > 0:
            self.damaged += 1
            self.damaged_bytes += size

    def _leave(self) -> None:
        self.close()
        self._segment += 1
        self._offset = 0
