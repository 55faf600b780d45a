# SPDX-License-Identifier: Apache-2.0
"""Frames survive the way to disk and back."""

import math

import numpy as np
import pytest

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition, SeriesGroup


def test_a_definition_comes_back():
    groups = (SeriesGroup("train.lr", "gauge", "", {}, ("optim.group",), [(0,), (1,)]),)
    made = Definition(3, 7, {"run.id": "ü", "dist.rank": 2, "x": True, "y": 0.5}, 12, groups)
    payload = frames.pack_definition(made)
    assert frames.head(payload) == (3, 2)
    assert frames.unpack_definition(payload) == made


@pytest.mark.parametrize(
    ("values", "width"),
    [([1.0, 2.5] * 50, 4), ([0.1] * 100, 8), ([0.5] * 10, 8), ([1e300] * 100, 8), ([math.nan] * 99, 4)],
)
def test_rows_are_narrowed_only_when_nothing_is_lost(values, width):
    payload = frames.pack_array(1, 5, 2.5, np.array(values))
    assert len(payload) == 8 + 24 + width * len(values)
    row = frames.unpack_row(payload)
    assert (row.context, row.time_ns, row.step, row.columns) == (1, 5, 2.5, None)
    assert np.array_equal(row.values, values, equal_nan=True)


def test_lists_and_sparse_rows_come_back():
    row = frames.unpack_row(frames.pack_list(1, 2, 3.0, [0.1, math.nan]))
    assert np.array_equal(row.values, [0.1, math.nan], equal_nan=True)
    row = frames.unpack_row(frames.pack_array(1, 2, 3.0, np.array([0.1, 5.0]), np.array([7, 3], np.uint32)))
    assert row.columns is not None
    assert (row.values.tolist(), row.columns.tolist()) == ([0.1, 5.0], [7, 3])


def test_ends_and_objects_come_back():
    assert frames.unpack_end(frames.pack_end(4, 9, 11)) == (4, 11, ())
    assert frames.unpack_end(frames.pack_end(4, 2, 11, [7, 3])) == (4, 11, (7, 3))
    objects = [{"name": "é" * 3000, "n": 1}]
    packed = frames.pack_objects(0, objects, 1)
    assert len(packed) < 500
    assert frames.unpack_objects(packed) == objects


def test_classes_are_those_of_the_registry():
    assert list(frames.CLASS_NAMES) == semconv.registry()["attributes"]["drop.class"]["values"]
