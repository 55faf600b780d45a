# SPDX-License-Identifier: Apache-2.0
"""Rounded values are the doubles nearest to short decimals, and no further away than they may be."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from glideslope.emit.rounding import rounded
from glideslope.events import LayerStats

START = 1_800_000_000_000_000_000


def one(value, digits=4):
    return float(rounded(np.array([[value]]), np.array([digits], np.int8))[0, 0])


@settings(deadline=None, derandomize=True)
@given(some.floats(allow_nan=False, allow_infinity=False), some.integers(1, 12))
def test_any_value_becomes_the_nearest_short_decimal(value, digits):
    made = one(value, digits)
    if value == round(value) and abs(value) < 1e15:
        assert made == value
        return
    if abs(value) > 9e307:
        assert math.isfinite(made)
        return
    # The shortest text that reads back as the same double has the digits that VictoriaMetrics will see.
    short = Decimal(repr(made)).as_tuple().digits
    assert len("".join(map(str, short)).strip("0")) <= digits
    unit = Decimal(10) ** (Decimal(value).adjusted() - digits + 1)
    assert abs(Decimal(made) - Decimal(value)) <= unit * Decimal("0.50001")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1 / 3, 0.3333),
        (-2e-7 / 3, -6.667e-08),
        (98765.4321, 98770.0),
        (0.99999, 1.0),
        (9.9999e-30, 1e-29),
        (5e-324, 5e-324),
        (1.7976931348623157e308, 1.7976931348623157e308),
        (4_194_303.0, 4_194_303.0),
        (0.0, 0.0),
    ],
)
def test_values_that_are_easy_to_get_wrong(value, expected):
    assert one(value) == expected


def test_a_negative_zero_and_what_is_not_finite_stay():
    assert math.copysign(1, one(-0.0)) == -1
    assert math.isnan(one(math.nan))
    assert one(-math.inf) == -math.inf


def test_only_the_chosen_series_are_rounded():
    values = np.array([[1 / 3, 1 / 3], [2 / 3, 2 / 3]])
    made = rounded(values, np.array([0, 2], np.int8))
    assert made.tolist() == [[1 / 3, 0.33], [2 / 3, 0.67]]
    assert values[0, 1] == 1 / 3
    assert rounded(values, np.zeros(2, np.int8)) is values


def test_layer_statistics_are_rounded_when_they_are_sent_and_nothing_else_is(make_kit, step):
    kit = make_kit(layer_digits=3)
    kit.write(step(3))
    kit.write(LayerStats(1, START, "grad", ("a",), ("norm", "n"), np.array([[1 / 3, 123456789.0]])))
    assert kit.series("train.layer", stat="norm") == [0.333]
    assert kit.series("train.layer", stat="n") == [123456789.0]
    assert kit.series("train.loss") == [1 / 3]
