# SPDX-License-Identifier: Apache-2.0
"""Training processes are instrumented; what launchers and frameworks start beside them is not."""

import os

import pytest

from glideslope.run.gate import reason_to_stay_out

RANK = {"RANK": "0"}


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py"],
        ["python", "-u", "train.py", "--lr", "1"],
        ["python", "-m", "my.trainer"],
        ["python", "-c", "import torch"],
    ],
)
def test_a_plain_training_process_is_instrumented(argv: list[str]) -> None:
    assert reason_to_stay_out({}, argv, child=False) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "/venv/bin/torchrun", "--nproc-per-node", "2", "train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["python", "-m", "torch.distributed.launch", "train.py"],
        ["python", "/venv/bin/accelerate", "launch", "train.py"],
        ["python", "-m", "pip", "install", "x"],
    ],
)
def test_launchers_stay_out(argv: list[str]) -> None:
    assert reason_to_stay_out({}, argv, child=False) is not None


def test_a_rank_that_torchrun_started_is_instrumented() -> None:
    assert reason_to_stay_out(RANK, ["python", "-u", "train.py"], child=False) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork"],
        ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
        ["python", "-m", "torch._inductor.compile_worker"],
    ],
)
def test_workers_stay_out_even_with_a_rank(argv: list[str]) -> None:
    assert reason_to_stay_out(RANK, argv, child=False) is not None


def test_a_child_of_multiprocessing_stays_out() -> None:
    assert reason_to_stay_out(RANK, ["python", "train.py"], child=True) == "a child of multiprocessing"


def test_a_child_of_an_instrumented_process_stays_out_but_the_process_itself_goes_on() -> None:
    assert reason_to_stay_out({"GLIDESLOPE_ACTIVE": "1"}, ["python", "x.py"], child=False) is not None
    own = {"GLIDESLOPE_ACTIVE": str(os.getpid())}
    assert reason_to_stay_out(own, ["python", "x.py"], child=False) is None


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "glideslope,x"},
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"},
    ],
)
def test_opentelemetry_s_own_switches_are_obeyed(environ: dict[str, str]) -> None:
    assert reason_to_stay_out(environ, ["python", "train.py"], child=False) is not None
