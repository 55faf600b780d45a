# SPDX-License-Identifier: Apache-2.0
"""The table of programs: complete, on loopback, without clashes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.semconv import promoted_resource_attributes
from glideslope.stack.programs import ESSENTIAL, PROGRAMS, Place, command, select
from glideslope.stack.recipes import RECIPES


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.native(Home(tmp_path), Ports().shifted(1000))


def test_no_port_belongs_to_two_programs() -> None:
    owned = [field for program in PROGRAMS.values() for field in program.ports]
    assert len(owned) == len(set(owned))
    elsewhere = {"grafana", "gpu_exporter"}  # Docker only; the scraped page
    assert set(owned) == {field.name for field in fields(Ports)} - elsewhere


def test_every_binary_has_a_recipe() -> None:
    assert {program.binary for program in PROGRAMS.values() if program.binary} <= RECIPES.keys()


def test_every_program_on_the_command_line_listens_on_loopback_at_its_shifted_port(place: Place) -> None:
    for name in ("live", "curves", "logs", "alertmanager", "vmalert"):
        address = f"127.0.0.1:{getattr(place.ports, name)}"
        assert any(argument.endswith(f"={address}") for argument in PROGRAMS[name].arguments(place)), name


@pytest.mark.parametrize("name", ["live", "curves"])
def test_the_stores_promote_exactly_the_attributes_of_the_registry(name: str, place: Place) -> None:
    flag = "-opentelemetry.promoteResourceAttributes="
    told = [argument for argument in PROGRAMS[name].arguments(place) if argument.startswith(flag)]
    assert told == [flag + ",".join(promoted_resource_attributes())]


def test_data_and_config_lie_in_the_state_folder(place: Place, tmp_path: Path) -> None:
    assert f"-storageDataPath={tmp_path}/data/live" in PROGRAMS["live"].arguments(place)
    assert f"--config.file={tmp_path}/config/alertmanager.yaml" in PROGRAMS["alertmanager"].arguments(place)


def test_the_environment_tells_the_server_where_it_is(place: Place, tmp_path: Path) -> None:
    environment = PROGRAMS["server"].environment(place)
    assert environment["GLIDESLOPE_HOME"] == str(tmp_path)
    assert environment["GLIDESLOPE_PORT_OFFSET"] == "1000"


def test_a_selection_brings_what_it_needs_in_table_order() -> None:
    assert [program.name for program in select(("vmalert",))] == ["live", "vmalert"]
    assert [program.name for program in select(None)] == list(PROGRAMS)


def test_an_unknown_program_is_refused_with_the_choices() -> None:
    with pytest.raises(StackError, match="no program 'grafna': choose from live, curves"):
        select(("grafna",))


def test_everything_but_the_slowest_build_is_essential() -> None:
    slowest = max(RECIPES.values(), key=lambda recipe: recipe.seconds).program
    assert set(PROGRAMS) - set(ESSENTIAL) == {n for n, program in PROGRAMS.items() if program.binary == slowest}


def test_our_own_program_runs_with_this_python(place: Place) -> None:
    assert command(PROGRAMS["server"], None, place)[1:4] == ["-m", "glideslope", "serve"]
    assert command(PROGRAMS["logs"], Path("/bin/vl"), place)[0] == "/bin/vl"
