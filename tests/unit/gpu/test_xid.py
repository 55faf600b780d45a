# SPDX-License-Identifier: Apache-2.0
"""The XID catalogue."""

from __future__ import annotations

import pytest

from glideslope.gpu.xid import CATALOGUE, Origin, Severity, xid


@pytest.mark.parametrize("number", [13, 31, 69])
def test_codes_of_wrong_programs_are_the_users(number: int) -> None:
    assert (xid(number).origin, xid(number).severity) == (Origin.USER, Severity.WARNING)


@pytest.mark.parametrize("number", [43, 45, 137, 154])
def test_codes_that_follow_others_are_cascades_and_never_critical(number: int) -> None:
    assert xid(number).origin is Origin.CASCADE
    assert xid(number).severity is not Severity.CRITICAL


@pytest.mark.parametrize("number", [48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 144, 150])
def test_codes_of_broken_hardware_are_critical(number: int) -> None:
    assert (xid(number).origin, xid(number).severity) == (Origin.INFRA, Severity.CRITICAL)


def test_a_contained_memory_error_costs_the_program_not_the_gpu() -> None:
    assert (xid(94).origin, xid(94).severity) == (Origin.INFRA, Severity.WARNING)


def test_an_unknown_code_is_a_warning_of_unknown_origin() -> None:
    assert (xid(9999).number, xid(9999).origin, xid(9999).severity) == (9999, Origin.UNKNOWN, Severity.WARNING)


def test_each_code_stands_under_its_own_number() -> None:
    assert all(number == entry.number and entry.meaning for number, entry in CATALOGUE.items())
