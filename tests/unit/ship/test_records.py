# SPDX-License-Identifier: Apache-2.0
"""Records are found again, whole or not at all."""

import random

import pytest

from glideslope.emit import frames
from glideslope.ship import records
from glideslope.ship.records import DAMAGED, INCOMPLETE, Record, header, next_record, read_record


def made(payload=b"payload", kind=2, sequence=9):
    return header(kind, sequence, payload) + payload


def test_a_record_comes_back():
    data = b"xx" + made()
    assert read_record(data, 2) == Record(2, b"payload", 9, len(data))


def test_every_truncation_is_seen():
    data = made()
    assert all(read_record(data[:size], 0) == INCOMPLETE for size in range(len(data)))


@pytest.mark.parametrize("seed", range(5))
def test_every_flipped_bit_is_seen(seed):
    data = made(random.Random(seed).randbytes(40))
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert read_record(bytes(broken), 0) in (DAMAGED, INCOMPLETE)


def test_the_next_record_is_found_behind_rubbish_that_looks_like_one():
    data = made()[:-1] + b"\xa5\x5a" * 20 + made(b"second")
    start = next_record(data, 0)
    assert read_record(data, start)[1] == b"second"
    assert next_record(data, start) == len(data)


def test_both_halves_mean_the_same_kinds():
    assert records.DROP_CLASSES == frames.CLASS_NAMES
    assert records.DEFINE == frames.DEFINE
    kind = frames.kind(frames.LAYERS, frames.VALUES)
    assert records.drop_class(kind) == "layers"
    assert not records.is_definition(kind)
    assert records.context_and_count(frames.pack_list(7, 0, 0.0, [1.0, 2.0])) == (7, 2)
    assert records.context_and_count(frames.pack_end(7, 5, 1)) == (7, 5)
