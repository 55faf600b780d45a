# SPDX-License-Identifier: Apache-2.0
"""The reading end of a spool: records in order, from any position on.

In: a spool folder, perhaps while its writer lives. Out: records and the position behind them.
Imports `records`, `spool`. A torn tail is awaited while the writer lives and skipped when it is dead; damage inside a
segment is skipped up to the next valid record and counted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from glideslope.ship.records import (
    DEFINE,
    DROP_CLASSES,
    INCOMPLETE,
    SEGMENT_HEADER,
    TALLY,
    Record,
    context_and_count,
    is_definition,
    next_record,
    read_record,
    unpack_tally,
)
from glideslope.ship.spool import segment_numbers, segment_path

_DAMAGE_PATIENCE_S = 1.0


class Position(NamedTuple):
    """A place in a spool, before a record; comparable."""

    segment: int
    offset: int


START: Final = Position(0, 0)


def bytes_behind(directory: Path, position: Position) -> int:
    """Bytes of records on disk behind a position."""
    total = 0
    for number in segment_numbers(directory):
        if number >= position.segment:
            with contextlib.suppress(OSError):
                size = segment_path(directory, number).stat().st_size
                before = position.offset if number == position.segment else 0
                total += max(0, size - max(before, len(SEGMENT_HEADER)))
    return total


class SpoolReader:
    """Reads one spool; it knows where it is, not what was acknowledged."""

    def __init__(
        self,
        directory: Path,
        live: Callable[[], bool],
        position: Position = START,
        wanted: Callable[[int], bool] = lambda kind: True,
    ) -> None:
        """Start at `position`; `live()` tells whether the writer may still append.

        Of the records whose kind is not `wanted` only the definitions are returned.
        """
        self.directory = directory
        self.sequence = 0
        """Sequence number of the last record that was read; -1 after `seek`."""
        self._live, self._wanted = live, wanted
        self._fd = -1
        self._segment, self._offset = position
        self._suspect: tuple[int, int, float] | None = None
        self._damage: dict[tuple[int, int], int] = {}
        # Whoever starts at the start has seen nothing yet; elsewhere the next tally is where counting begins.
        self._counted: list[int] | None = [0] * len(DROP_CLASSES) if position == START else None
        self._missing: dict[str, int] = {}
        self._tallied = 0
        """Bytes of tallies, which are no records to the caller."""

    @property
    def damaged(self) -> int:
        """Damaged stretches that were skipped."""
        return len(self._damage)

    @property
    def damaged_bytes(self) -> int:
        """Their size."""
        return sum(self._damage.values())

    @property
    def position(self) -> Position:
        """The place behind the last record that was read."""
        return Position(self._segment, self._offset)

    def seek(self, position: Position) -> None:
        """Go to a position that this or another reader of the spool has had."""
        self.close()
        self._segment, self._offset = position
        self.sequence = -1
        self._counted = [0] * len(DROP_CLASSES) if position == START else None

    def read(self, max_bytes: int) -> list[Record]:
        """Read on for about `max_bytes`, at least one record if there is one; the position tells whether it moved.

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
            size += used - self._tallied
            self._tallied = 0
            self._offset += used
            if used == 0:
                if not finished:
                    break
                self._leave()
        return found

    def take_missing(self) -> dict[str, int]:
        """Points by drop class that were written and cannot be read any more, since the last call."""
        found, self._missing = self._missing, {}
        return found

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
        elif not self._finished():
            self.close()
            return False
        # Behind a damaged header the records still find themselves.
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
                if record.kind & 0x0F == TALLY:
                    self._compare(record)
                    self._tallied += record.end - at
                elif is_definition(record.kind):
                    found.append(record)
                elif self._wanted(record.kind):
                    found.append(record)
                    if self._counted is not None:
                        self._counted[record.kind >> 4 & 3] += context_and_count(record.payload)[1]
                self.sequence = record.sequence
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
            self._skip(self._offset + at, resumed - at)
            at = resumed
        return at

    def _compare(self, tally: Record) -> None:
        """Note what was written since the tally before this one and did not come by."""
        told = unpack_tally(tally.payload)
        for position, name in enumerate(DROP_CLASSES):
            if self._counted is not None and self._wanted(position << 4 | DEFINE + 1):
                lost = told[position] - self._counted[position]
                if lost > 0:
                    self._missing[name] = self._missing.get(name, 0) + lost
        self._counted = told

    def _wait_for(self, at: int) -> bool:
        """A bad tail of a living writer may be a record in the making: give it a second."""
        here = (self._segment, self._offset + at)
        if self._suspect is None or self._suspect[:2] != here:
            self._suspect = (*here, time.monotonic())
        return time.monotonic() - self._suspect[2] < _DAMAGE_PATIENCE_S

    def _skip(self, offset: int, size: int) -> None:
        if size > 0:
            self._damage[self._segment, offset] = size

    def _leave(self) -> None:
        self.close()
        self._segment += 1
        self._offset = 0
