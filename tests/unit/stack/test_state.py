# SPDX-License-Identifier: Apache-2.0
"""The state file: whole or absent, never half."""

from __future__ import annotations

from pathlib import Path

import pytest

from glideslope.config import Home
from glideslope.stack.state import ProgramState, StackState, read_state, state_file, write_state


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.run.mkdir()
    return home


def test_what_is_written_is_read_back(home: Home) -> None:
    state = StackState(pid=7, started=1.5, port_offset=100)
    state.programs["live"] = ProgramState(title="t", url="u", phase="crashed", detail="why", pid=9, started=2.5)
    write_state(home, state)
    assert read_state(home) == state
    assert [path.name for path in home.run.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '{"programs": {"live": {"unknown": 1}}}', '{"programs": 3}']
)
def test_a_foreign_or_torn_file_reads_as_no_state(home: Home, text: str) -> None:
    state_file(home).write_text(text)
    assert read_state(home) is None


def test_no_file_is_no_state(home: Home) -> None:
    assert read_state(home) is None


def test_a_state_without_processes_has_no_identities() -> None:
    assert StackState().identity is None
    assert ProgramState(title="", url="").identity is None
