# SPDX-License-Identifier: Apache-2.0
"""The environment that `glideslope run` gives to a training command."""

import os
from pathlib import Path

import pytest

from glideslope.config import Home
from glideslope.errors import ConfigError
from glideslope.run.identity import note_attempt
from glideslope.run.launch import BOOTSTRAP, LEFTOVERS_SHARE, prepare


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("GLIDESLOPE_RUN_ID", "GLIDESLOPE_RUN_ATTEMPT", "SLURM_JOB_ID", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path)


def test_a_fresh_run_is_named_after_its_script(home: Home) -> None:
    launch = prepare(["torchrun", "--nproc-per-node", "2", "pretrain.py", "--lr", "1"], home=home)
    assert launch.run_id.startswith("pretrain-")
    assert launch.environ["GLIDESLOPE_RUN_ID"] == launch.run_id
    assert launch.environ["GLIDESLOPE_RUN_ATTEMPT"] == "0"


@pytest.mark.parametrize("words", [["--rdzv-id", "job7"], ["--rdzv-id=job7"], ["--rdzv_id=job7"]])
def test_nodes_that_share_a_rendezvous_id_share_the_run(home: Home, words: list[str]) -> None:
    assert prepare(["torchrun", *words, "train.py"], home=home).run_id == "job7"


def test_slurm_names_the_run_when_nothing_else_does(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    assert prepare(["python", "train.py"], home=home).run_id == "slurm-42"
    assert prepare(["python", "train.py"], home=home, run_id="mine").run_id == "mine"


def test_starting_a_run_again_makes_the_next_attempt(home: Home) -> None:
    assert prepare(["python", "t.py"], run_id="r", home=home).attempt == 0
    note_attempt(home, "r", 0)
    assert prepare(["python", "t.py"], run_id="r", home=home).attempt == 1


def test_the_bootstrap_comes_first_on_the_path_and_keeps_what_was_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    path = prepare(["python", "t.py"], home=home).environ["PYTHONPATH"]
    assert path.split(os.pathsep) == [str(BOOTSTRAP), "/theirs"]
    assert (BOOTSTRAP / "sitecustomize.py").is_file()


def test_an_empty_command_and_a_hostile_run_id_are_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match="no command"):
        prepare([], home=home)
    with pytest.raises(ConfigError, match="not usable"):
        prepare(["python", "t.py"], run_id="../../x", home=home)


def test_ranks_and_launcher_share_one_exit_timeout(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIDESLOPE_EXIT_TIMEOUT", "10")
    of_the_ranks = float(prepare(["python", "t.py"], home=home).environ["GLIDESLOPE_EXIT_TIMEOUT"])
    assert of_the_ranks + 10 * LEFTOVERS_SHARE == 10
