# SPDX-License-Identifier: Apache-2.0
"""Frames survive the way to disk and back."""

import math

import numpy as np
import pytest

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition, SeriesGroup


def test_a_definition_comes_back():
    groups = (
        SeriesGroup("train.lr", "gauge", "", {}, ("optim.group",), [(0,), (1,)], digits=4),
        SeriesGroup("train.histogram", "histogram", "", {}, (), [], (0.1, 1e-300)),
    )
    made = Definition(3, 7, {"run.id": "ü", "dist.rank": 2, "x": True, "y": 0.5}, 12, groups)
    payload = frames.pack_definition(made)
    assert frames.head(payload) == (3, 2)
    assert frames.unpack_definition(payload) == made


@pytest.mark.parametrize(
    ("values", "width"),
    [([1.0, 2.5] * 50, 4), ([0.1] * 100, 8), ([0.5] * 10, 8), ([1e300] * 100, 8), ([math.nan] * 99, 4)],
)
def test_rows_are_narrowed_only_when_nothing_is_lost(values, width):
    payload = frames.RowForm(1, len(values), None).pack(5, 2.5, np.array(values))
    assert len(payload) == 8 + 24 + width * len(values)
    row = frames.unpack_row(payload)
    assert (row.context, row.time_ns, row.step, row.columns) == (1, 5, 2.5, None)
    assert np.array_equal(row.values, values, equal_nan=True)


def test_lists_and_sparse_rows_come_back():
    row = frames.unpack_row(frames.pack_list(1, 2, 3.0, [0.1, math.nan]))
    assert np.array_equal(row.values, [0.1, math.nan], equal_nan=True)
    row = frames.unpack_row(frames.RowForm(1, 2, np.array([7, 3])).pack(2, 3.0, np.array([0.1, 5.0])))
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


def test_a_run_of_series_costs_four_bytes_however_long_it_is():
    values = np.arange(100) / 7
    payload = frames.RowForm(1, 100, np.arange(50, 150)).pack(2, 3.0, values)
    assert len(payload) == 8 + 24 + 4 + 800
    row = frames.unpack_row(payload)
    assert row.columns is not None
    assert row.columns.tolist() == list(range(50, 150))
    assert row.values.tolist() == values.tolist()
    assert frames.unpack_row(frames.RowForm(1, 100, np.arange(100)).pack(2, 3.0, values)).columns is None


@pytest.mark.parametrize("columns", [None, [0, 1], [3, 4], [7, 3]])
def test_rows_of_few_values_are_the_same_whichever_way_they_are_packed(columns):
    form = frames.RowForm(5, 2, None if columns is None else np.array(columns))
    assert form.pack_few(9, 1.5, [0.1, -0.0]) == form.pack(9, 1.5, np.array([0.1, -0.0]))


@pytest.mark.parametrize(("largest", "width"), [(255, 1), (256, 2), (65_536, 4), (2**32, 8), (2**63, 8)])
def test_histograms_come_back_in_as_few_bytes_as_their_counts_need(largest, width):
    payload = frames.pack_histogram(1, 2, 3, 4.5, math.nan, np.array([0, largest, 1], np.uint64))
    assert len(payload) == 8 + 40 + 3 * width
    row = frames.unpack_histogram(payload)
    assert (row.context, row.series, row.time_ns, row.step) == (1, 2, 3, 4.5)
    assert math.isnan(row.total)
    assert row.counts.tolist() == [0, largest, 1]
