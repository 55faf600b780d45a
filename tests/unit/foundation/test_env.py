# SPDX-License-Identifier: Apache-2.0
"""Environment variables are read by their table, and refused with a remedy."""

import pytest

from glideslope import env
from glideslope.errors import ConfigError


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("OFF", False), ("", False), (" ", False)])
def test_booleans_take_the_usual_spellings(text: str, value: bool) -> None:
    assert env.OTEL_SDK_DISABLED.get({"OTEL_SDK_DISABLED": text}) is value


def test_a_bad_boolean_names_the_variable_and_the_remedy() -> None:
    with pytest.raises(ConfigError, match="OTEL_SDK_DISABLED='maybe' cannot be read .write true or false"):
        env.OTEL_SDK_DISABLED.get({"OTEL_SDK_DISABLED": "maybe"})


def test_pairs_are_percent_decoded() -> None:
    assert env.pairs("a=1, b=x%2Cy ,c=") == {"a": "1", "b": "x,y", "c": ""}


def test_pairs_without_an_equals_sign_are_refused() -> None:
    with pytest.raises(ConfigError, match="key=value"):
        env.OTEL_RESOURCE_ATTRIBUTES.get({"OTEL_RESOURCE_ATTRIBUTES": "just-text"})


def test_every_variable_of_ours_has_a_meaning_and_the_attribute_s_own_name() -> None:
    table = {name: value for name, value in vars(env).items() if isinstance(value, env.Variable)}
    assert len(table) > 15
    for attribute, variable in table.items():
        assert variable.name == attribute
        assert variable.meaning
