# SPDX-License-Identifier: Apache-2.0
"""Which class may write on which disk, and when a failure is tried again; by a clock of the test's own."""

import errno
import os
from types import SimpleNamespace

import pytest

from glideslope.ship.space import RETRY_S, YIELD_S, Space

MIB = 1 << 20
FULL, BROKEN = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error")


@pytest.fixture
def said():
    return []


@pytest.fixture
def space(tmp_path, said):
    return Space(tmp_path, said.append)


def disk(monkeypatch, free, whole):
    status = SimpleNamespace(f_blocks=whole // 4096, f_frsize=4096, f_bavail=free // 4096)
    monkeypatch.setattr(os, "statvfs", lambda path: status)


@pytest.mark.parametrize(
    ("free", "whole", "refused"),
    [
        (300 * MIB, 1 << 40, ""),
        (200 * MIB, 1 << 40, "layers"),
        (100 * MIB, 1 << 40, "layers traces logs"),
        (0, 1 << 40, "layers traces logs"),
        (200 * MIB, 1 << 30, ""),
        (80 * MIB, 1 << 30, "layers"),
        (40 * MIB, 1 << 30, "layers traces logs"),
        (0, 0, ""),
    ],
)
def test_the_less_is_free_the_more_classes_yield_and_metrics_never(monkeypatch, space, free, whole, refused):
    disk(monkeypatch, free, whole)
    space.look(100.0, 0)
    assert [name for name in ("layers", "traces", "logs", "metrics") if not space.allows(name, 100.0)] == (
        refused.split()
    )
    assert space.short == bool(refused)


def test_a_file_system_that_does_not_tell_refuses_nobody(monkeypatch, space):
    def fails(path):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "statvfs", fails)
    space.look(0.0, 0)
    assert space.allows("layers", 0.0)


def test_the_fuller_the_disk_the_more_often_it_is_looked_at(monkeypatch, space):
    assert space.wants_look(0.0, 0)
    disk(monkeypatch, 1 << 40, 1 << 41)
    space.look(0.0, 1000)
    assert not space.wants_look(1.0, 1000 + 8 * MIB - 1)
    assert space.wants_look(1.0, 1000 + 8 * MIB)
    assert space.wants_look(5.0, 1000)
    disk(monkeypatch, 16 * MIB, 1 << 41)
    space.look(0.0, 0)
    assert space.wants_look(0.0, 1 * MIB)
    disk(monkeypatch, 0, 1 << 41)
    space.look(0.0, 0)
    assert not space.wants_look(0.0, 65_535)


def test_after_a_refusal_only_metrics_are_tried_for_a_while(space):
    space.not_written(10_000, 50.0, FULL)
    for name in ("layers", "traces", "logs"):
        assert not space.allows(name, 50.0 + YIELD_S - 0.01)
        assert space.allows(name, 50.0 + YIELD_S)
    assert space.allows("metrics", 50.0)


def test_what_is_smaller_than_what_failed_is_tried_at_once_and_the_rest_later(space):
    space.not_written(10_000, 50.0, FULL)
    assert space.may_write(9_999, 50.0)
    assert not space.may_write(10_000, 50.0)
    space.not_written(500, 50.1, FULL)
    assert not space.may_write(500, 50.1 + RETRY_S - 0.01)
    assert space.may_write(10_000, 50.1 + RETRY_S)


def test_a_broken_disk_gets_a_new_segment_at_a_bounded_rate_and_a_full_one_at_once(space):
    space.not_written(100, 50.0, FULL)
    assert space.may_begin(50.0)
    space.not_written(100, 50.0, BROKEN)
    assert not space.may_begin(50.0 + RETRY_S - 0.01)
    assert space.may_begin(50.0 + RETRY_S)


def test_an_episode_is_told_when_it_begins_and_when_it_is_over_and_rarely(space, said):
    for _ in range(100):
        space.not_written(100, 50.0, FULL)
    assert len(said) == 1
    assert "No space left on device" in said[0]
    space.wrote(50.0 + YIELD_S - 0.01)
    assert space.short
    space.wrote(50.0 + YIELD_S)
    assert not space.short
    assert "stored again" in said[1]
    # A disk that goes to and fro does not fill the log.
    for moment in range(60, 340, 10):
        space.not_written(100, float(moment), FULL)
        space.wrote(moment + YIELD_S)
    assert len(said) == 2
    space.not_written(100, 400.0, FULL)
    assert len(said) == 3


@pytest.mark.parametrize(
    ("free", "limit"), [(2 * MIB, 128 << 10), (1 << 40, (1 << 40) / 16), (0, 64 << 10)], ids=["small", "large", "full"]
)
def test_segments_are_small_where_little_is_free_so_that_whole_ones_can_go(monkeypatch, space, free, limit):
    assert space.segment_bytes == float("inf")
    disk(monkeypatch, free, 1 << 41)
    space.look(0.0, 0)
    assert space.segment_bytes == limit
