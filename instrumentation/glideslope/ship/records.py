# SPDX-License-Identifier: Apache-2.0
"""The format of a spool segment: a header, then records that find themselves again after damage.

In: kinds, sequence numbers, payloads. Out: bytes, and records out of bytes. Imports nothing of glideslope.

Segment = 8 bytes `GLSPOOL` + version, then records. Record = 2 bytes mark, u32 CRC32C of all that follows, u8 kind,
one zero byte, u32 payload length, u64 sequence, payload; little-endian. The upper four bits of a kind are its drop
class, the lower four its type, where 1 (`DEFINE`) gives a context its meaning. A payload begins with u32 context id and
u32 count of points, spans or logs. The spool knows no more of its content. The first record of a segment is a tally
(type 0): how many points of each class were written before it, so that a reader can tell what is missing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import google_crc32c

SEGMENT_HEADER: Final = b"GLSPOOL\x01"
TALLY: Final = 0
DEFINE: Final = 1
DROP_CLASSES: Final = ("metrics", "layers", "traces", "logs")
MAX_PAYLOAD: Final = 64 << 20

_MARK: Final = b"\xa5\x5a"
_CHECK = struct.Struct("<2sI")
_BODY = struct.Struct("<BxIQ")
_COUNT = struct.Struct("<II")
_TALLY = struct.Struct("<II4Q")
_SHORT: Final = 4096
OVERHEAD: Final = _CHECK.size + _BODY.size


class Record(NamedTuple):
    """One record of a segment."""

    kind: int
    payload: bytes
    sequence: int
    end: int
    """Offset behind the record, relative to the bytes it was read from."""


INCOMPLETE: Final = "incomplete"
"""The bytes end inside the record."""
DAMAGED: Final = "damaged"
"""There is no valid record at this place."""


def header(kind: int, sequence: int, payload: bytes) -> bytes:
    """The bytes that precede a payload."""
    body = _BODY.pack(kind, len(payload), sequence)
    if len(payload) < _SHORT:
        # One call instead of two; a short payload is copied in no time.
        return _CHECK.pack(_MARK, google_crc32c.value(body + payload)) + body
    return _CHECK.pack(_MARK, google_crc32c.extend(google_crc32c.value(body), payload)) + body


def read_record(data: bytes, at: int) -> Record | str:
    """Read the record at `at`; INCOMPLETE or DAMAGED when there is none."""
    left = len(data) - at
    if left < OVERHEAD:
        return INCOMPLETE if data[at : at + 2] == _MARK[: min(left, 2)] else DAMAGED
    mark, check = _CHECK.unpack_from(data, at)
    kind, length, sequence = _BODY.unpack_from(data, at + _CHECK.size)
    if mark != _MARK or length > MAX_PAYLOAD:
        return DAMAGED
    start = at + OVERHEAD
    end = start + length
    if end > len(data):
        return INCOMPLETE
    payload = data[start:end]
    if google_crc32c.extend(google_crc32c.value(data[at + _CHECK.size : start]), payload) != check:
        return DAMAGED
    return Record(kind, payload, sequence, end)


def next_record(data: bytes, at: int) -> int:
    """Offset of the next valid record behind `at`, or len(data) when there is none."""
    while (at := data.find(_MARK, at + 1)) >= 0:
        if isinstance(read_record(data, at), Record):
            return at
    return len(data)


def is_definition(kind: int) -> bool:
    """Whether a kind gives a context its meaning."""
    return kind & 0x0F == DEFINE


def pack_tally(points: Sequence[int]) -> bytes:
    """The payload of a tally: points by drop class, in the order of DROP_CLASSES."""
    return _TALLY.pack(0, 0, *points)


def unpack_tally(payload: bytes) -> list[int]:
    """Points by drop class."""
    return list(_TALLY.unpack(payload)[2:])


def drop_class(kind: int) -> str:
    """Name of the drop class of a kind."""
    return DROP_CLASSES[(kind >> 4) & 3]


def context_and_count(payload: bytes) -> tuple[int, int]:
    """(context id, count) of a payload; (0, 1) for one too short to say."""
    if len(payload) < _COUNT.size:
        return 0, 1
    context, count = _COUNT.unpack_from(payload)
    return context, count
