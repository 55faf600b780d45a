# SPDX-License-Identifier: Apache-2.0
"""Run, attempt and rank out of what launchers set."""

import pytest

from glideslope.config import Home
from glideslope.errors import ConfigError
from glideslope.run import identity
from glideslope.run.identity import identify, new_run_id, next_attempt, note_attempt, safe_run_id

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}


def test_an_explicit_run_id_wins_over_every_launcher() -> None:
    environ = TORCHRUN | {"GLIDESLOPE_RUN_ID": "mine", "TORCHELASTIC_RUN_ID": "theirs", "SLURM_JOB_ID": "9"}
    assert identify(environ).run_id == "mine"


def test_resource_attributes_can_name_the_run() -> None:
    found = identify({"OTEL_RESOURCE_ATTRIBUTES": "run.id=r-1,run.name=My%20run,team=nlp"})
    assert (found.run_id, found.run_name) == ("r-1", "My run")
    assert found.resource()["team"] == "nlp"


def test_a_rendezvous_id_is_the_run_id_on_all_ranks() -> None:
    environ = TORCHRUN | {"TORCHELASTIC_RUN_ID": "job7"}
    assert {identify(environ | {"RANK": str(rank)}).run_id for rank in range(4)} == {"job7"}


def test_torchrun_without_an_id_gives_all_ranks_of_all_nodes_the_same_run_id() -> None:
    ids = {identify(TORCHRUN | {"RANK": str(rank)}, argv=["train.py"]).run_id for rank in range(4)}
    assert len(ids) == 1
    assert ids.pop().startswith("train-")


def test_another_rendezvous_address_is_another_run() -> None:
    one = identify(TORCHRUN, argv=["train.py"]).run_id
    assert one != identify(TORCHRUN | {"MASTER_PORT": "29501"}, argv=["train.py"]).run_id


def test_slurm_alone_gives_rank_world_and_requeues() -> None:
    environ = {
        "SLURM_JOB_ID": "77",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NTASKS": "8",
        "SLURM_RESTART_COUNT": "2",
    }
    found = identify(environ)
    assert (found.run_id, found.rank, found.local_rank, found.world_size, found.attempt) == ("slurm-77", 5, 1, 8, 2)


def test_restarts_of_torchrun_add_to_the_attempt_of_the_launch() -> None:
    environ = TORCHRUN | {"GLIDESLOPE_RUN_ATTEMPT": "3", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert identify(environ).attempt == 5


def test_a_plain_python_process_is_rank_0_of_1() -> None:
    found = identify({}, argv=["train.py"])
    assert (found.rank, found.world_size, found.attempt) == (0, 1, 0)
    assert found.run_id != identify({}, argv=["train.py"]).run_id


def test_the_gpu_of_the_local_rank_becomes_hw_id() -> None:
    environ = TORCHRUN | {"GLIDESLOPE_GPU_UUIDS": "GPU-a,GPU-b"}
    assert identify(environ).resource()["hw.id"] == "GPU-b"
    assert "hw.id" not in identify(TORCHRUN).resource()


def test_people_cannot_overwrite_identity_through_resource_attributes() -> None:
    found = identify(TORCHRUN | {"GLIDESLOPE_RUN_ID": "r", "OTEL_RESOURCE_ATTRIBUTES": "dist.rank=99,run.attempt=9"})
    assert found.resource()["dist.rank"] == 3
    assert found.resource()["run.attempt"] == 0


@pytest.mark.parametrize("text", ["a b", "../x", "a/b", "x" * 200, "é", "-x", 'a"b'])
def test_hostile_run_ids_are_made_safe_and_stay_apart(text: str) -> None:
    made = safe_run_id(text)
    assert identity._SAFE.fullmatch(made)
    assert made != safe_run_id(text + "2")
    with pytest.raises(ConfigError, match="not usable"):
        identity.check_run_id(text)


def test_a_fresh_run_id_names_its_script() -> None:
    assert new_run_id("/some/where/pre train.py", 0.0).startswith("pre-train-19700101-000000-")


def test_a_number_that_is_none_is_refused_with_the_variable_s_name() -> None:
    with pytest.raises(ConfigError, match="RANK='zero'"):
        identify({"RANK": "zero"})


def test_attempts_count_up_on_a_host(tmp_path) -> None:  # type: ignore[no-untyped-def]
    home = Home(tmp_path)
    assert next_attempt(home, "r") == 0
    note_attempt(home, "r", 0)
    note_attempt(home, "r", 4)
    assert next_attempt(home, "r") == 5
