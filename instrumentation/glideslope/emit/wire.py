# SPDX-License-Identifier: Apache-2.0
"""The few protobuf primitives that pre-encoded OTLP needs.

In: numbers, text. Out: bytes of the protobuf wire format. Imports nothing of glideslope.
"""

from __future__ import annotations

import struct

Scalar = str | int | float | bool


def varint(number: int) -> bytes:
    """Encode an integer; negative ones as 64-bit two's complement, as protobuf's int64 does."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def attribute(key: str, value: Scalar) -> bytes:
    """Encode opentelemetry.proto.common.v1.KeyValue with a string, bool, int or double value."""
    if isinstance(value, str):
        any_value = field(1, value.encode("utf-8"))
    elif isinstance(value, bool):
        any_value = b"\x10\x01" if value else b"\x10\x00"
    elif isinstance(value, int):
        any_value = b"\x18" + varint(value)
    else:
        any_value = b"\x21" + struct.pack("<d", value)
    return field(1, key.encode("utf-8")) + field(2, any_value)


def attributes(number: int, mapping: dict[str, Scalar]) -> bytes:
    """Encode a mapping as repeated KeyValue fields of the given field number."""
    return b"".join(field(number, attribute(key, value)) for key, value in mapping.items())
