# SPDX-License-Identifier: Apache-2.0
"""The catalogue of DCGM fields and the counters file that is made from it."""

from __future__ import annotations

import math

import pytest

from glideslope.errors import PageError
from glideslope.gpu.fields import (
    ALIASES,
    CLOCK_FAULTS,
    FIELDS,
    ClockReason,
    canonical,
    counters_csv,
    field,
    without_blank,
)
from glideslope.semconv import registry
from glideslope.stack.assets import stack_file


def test_the_shipped_counters_file_is_in_step_with_the_catalogue() -> None:
    assert stack_file("collectors", "dcgm", "counters.csv").read_text("utf-8") == counters_csv()


def test_every_line_of_the_counters_file_has_the_three_columns_that_the_exporter_insists_on() -> None:
    lines = [line for line in counters_csv().splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(FIELDS)
    for line in lines:
        name, kind, text = (column.strip() for column in line.split(","))
        assert name.startswith(("DCGM_FI_", "DCGM_EXP_"))
        assert kind in ("gauge", "counter", "label")
        assert text


def test_names_and_numbers_are_unique() -> None:
    assert len({one.name for one in FIELDS}) == len(FIELDS)
    assert len({one.number for one in FIELDS}) == len(FIELDS)


def test_every_scraped_field_of_the_registry_is_asked_of_the_exporter() -> None:
    scraped = {name for name, entry in registry()["scraped"].items() if entry["origin"] == "dcgm"}
    assert scraped
    assert scraped <= {one.name for one in FIELDS}


def test_every_alias_leads_to_a_field() -> None:
    for alias, (name, factor) in ALIASES.items():
        assert field(alias).name == name
        assert factor > 0


def test_a_field_is_found_by_either_spelling() -> None:
    assert field("DCGM_FI_DEV_XID_ERROR") is field("DCGM_FI_DEV_XID_ERRORS")
    assert field("DCGM_FI_DEV_XID_ERRORS").number == 230
    assert canonical("DCGM_FI_DEV_SM_CLOCK_HERTZ") == ("DCGM_FI_DEV_SM_CLOCK", 1e-6)


def test_an_unknown_field_says_where_to_add_it() -> None:
    with pytest.raises(PageError, match=r"fields\.py"):
        field("DCGM_FI_UNKNOWN")


@pytest.mark.parametrize(
    "value",
    [
        *range(9223372036854775792, 9223372036854775796),
        *range(2147483632, 2147483636),
        *(140737488355328.0 + i for i in range(4)),
        math.nan,
    ],
)
def test_blanks_are_no_values(value: float) -> None:
    assert without_blank(float(value)) is None


@pytest.mark.parametrize(
    "value", [0.0, -1.0, 79.0, 2147483631.0, 2147483636.0, 140737488355327.0, 8.9e18, math.inf * -1]
)
def test_values_next_to_blanks_are_values(value: float) -> None:
    assert without_blank(value) == value


def test_running_at_the_power_cap_is_no_fault() -> None:
    assert not ClockReason(0x4) & CLOCK_FAULTS
    assert not ClockReason(0x1) & CLOCK_FAULTS
    assert ClockReason(0x4 | 0x40) & CLOCK_FAULTS == ClockReason.HARDWARE_THERMAL
