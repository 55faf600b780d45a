# SPDX-License-Identifier: Apache-2.0
"""The whole chain on one real 2-rank training: script -> hooks -> spool -> collector -> stores, value by value."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glideslope.emit.ids import trace_id
from glideslope.store.logs import VictoriaLogs
from glideslope.store.traces import Jaeger
from glideslope.store.victoria import Series, Victoria

STEPS = 60
RANKS = 2
GPUS = ("GPU-00000000-0000-4000-8000-00000000000a", "GPU-00000000-0000-4000-8000-00000000000b")
TRAIN = Path(__file__).parents[2] / "instrumentation" / "glideslope" / "demo" / "train.py"
SMALL = ["--batch", "4", "--length", "32", "--width", "32", "--depth", "2", "--heads", "2"]


@dataclass(frozen=True)
class Run:
    """One finished training and what its script wrote down itself."""

    run_id: str
    truth: dict[int, list[dict[str, float]]]
    output: str
    began: float


def eventually(check: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Poll until `check` returns something true; the last answer otherwise."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = check()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


@pytest.fixture(scope="module")
def run(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("chain")
    run_id = f"chain-{os.getpid()}"
    exporter = subprocess.Popen(
        [sys.executable, "-m", "glideslope.testing", "gpus", "--uuids", ",".join(GPUS)]
        + ["--port", str(stack.ports.gpu_exporter), "--store", stack.live, "--run", run_id]
    )
    began = time.time()
    try:
        command = [sys.executable, "-m", "glideslope", "run", "--run", run_id, "--name", "chain test", "--"]
        command += [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        command += [str(TRAIN), "--steps", str(STEPS), "--truth", str(folder / "truth"), *SMALL]
        environ = {**os.environ, **stack.env, "GLIDESLOPE_GPU_UUIDS": ",".join(GPUS), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, cwd=folder)
        assert done.returncode == 0, done.stderr
        truth = {
            rank: [json.loads(line) for line in (folder / f"truth.rank{rank}").read_text().splitlines()]
            for rank in range(RANKS)
        }
        yield Run(run_id, truth, done.stdout + done.stderr, began)
    finally:
        exporter.terminate()
        exporter.wait(10)


@pytest.fixture(scope="module")
def live(stack: Any) -> Iterator[Victoria]:
    with Victoria(stack.live) as store:
        yield store


def without_end(series: Series) -> Series:
    """The series without the marker that ends it, which an export shows as a last NaN."""
    stamps, values = series.timestamps_ms, series.values
    if values and math.isnan(values[-1]):
        stamps, values = stamps[:-1], values[:-1]
    assert not any(map(math.isnan, values))
    return Series(series.labels, stamps, values)


def stored(live: Victoria, run: Run, metric: str, rank: int, more: str = "") -> Series:
    """The one series of a metric, run and rank, with every sample as stored but for the marker of its end."""
    live.flush()
    found = list(live.export(f'{metric}{{run_id="{run.run_id}",dist_rank="{rank}"{more}}}'))
    assert len(found) == 1, found
    return without_end(found[0])


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize(
    ("metric", "field", "more"),
    [("train_loss", "loss", ""), ("train_grad_norm", "grad_norm", ""), ("train_lr", "lr", ',optim_group="0"')],
)
def test_the_live_store_holds_exactly_the_script_s_own_values(
    live: Victoria, run: Run, rank: int, metric: str, field: str, more: str
) -> None:
    expected = [record[field] for record in run.truth[rank]]
    assert len(expected) == STEPS
    eventually(lambda: len(stored(live, run, metric, rank, more)) >= STEPS)
    series = stored(live, run, metric, rank, more)
    assert len(series) == STEPS
    if field == "lr":
        # Doubles come back with the twelve significant digits that VictoriaMetrics keeps.
        np.testing.assert_allclose(series.values, expected, rtol=1e-12)
    else:
        assert np.array_equal(np.float32(series.values), np.float32(expected))
    assert all(a < b for a, b in zip(series.timestamps_ms, series.timestamps_ms[1:], strict=False))


@pytest.mark.parametrize("rank", range(RANKS))
def test_each_sample_carries_the_time_of_its_own_step(live: Victoria, run: Run, rank: int) -> None:
    stamps = np.array(stored(live, run, "train_loss", rank).timestamps_ms) / 1e3
    seen = np.array([record["time"] for record in run.truth[rank]])
    # The script notes the time after its own bookkeeping, so the stamp comes a little earlier.
    assert np.all(stamps <= seen + 0.005)
    assert np.all(seen - stamps < 1.0)


@pytest.mark.parametrize("rank", range(RANKS))
def test_steps_count_from_one_without_a_gap(live: Victoria, run: Run, rank: int) -> None:
    assert list(stored(live, run, "train_step", rank).values) == list(range(1, STEPS + 1))


@pytest.mark.parametrize("rank", range(RANKS))
def test_tokens_and_samples_add_up(live: Victoria, run: Run, rank: int) -> None:
    assert stored(live, run, "train_samples_total", rank).values[-1] == STEPS * 4
    assert stored(live, run, "train_tokens_total", rank).values[-1] == STEPS * 4 * 32


@pytest.mark.parametrize("rank", range(RANKS))
def test_phases_of_a_step_are_there_and_fit_into_the_step(live: Victoria, run: Run, rank: int) -> None:
    whole = np.array(stored(live, run, "train_step_duration_seconds", rank).values)
    parts = {
        phase: np.array(stored(live, run, "train_phase_duration_seconds", rank, f',phase="{phase}"').values)
        for phase in ("data", "forward", "backward", "optimizer")
    }
    assert {phase: len(values) for phase, values in parts.items()} == dict.fromkeys(parts, STEPS)
    assert np.all(sum(parts.values()) <= whole + 0.002)
    assert parts["backward"].sum() > 0.1 * whole.sum()


def test_every_parameter_has_its_gradient_norm_once_and_they_add_up_to_the_global_one(live: Victoria, run: Run) -> None:
    live.flush()
    selector = f'train_layer{{run_id="{run.run_id}",tensor_kind="grad",stat="norm"}}'
    layers = {series.labels["layer_name"]: series for series in map(without_end, live.export(selector))}
    assert "blocks.0.attention.qkv.weight" in layers
    assert {series.labels["dist_rank"] for series in layers.values()} == {"0"}
    sampled = {len(series) for series in layers.values()}
    assert sampled == {STEPS // 10} or sampled == {STEPS // 10 + 1}
    clipped = dict(zip(*_pairs(stored(live, run, "train_grad_norm_clipped", 0)), strict=True))
    stamps = next(iter(layers.values())).timestamps_ms
    for at, stamp in enumerate(stamps):
        total = np.sqrt(sum(series.values[at] ** 2 for series in layers.values()))
        nearest = min(clipped, key=lambda time, stamp=stamp: abs(time - stamp))
        assert total == pytest.approx(clipped[nearest], rel=1e-4)


def _pairs(series: Series) -> tuple[tuple[int, ...], tuple[float, ...]]:
    return series.timestamps_ms, series.values


def test_one_step_s_trace_holds_the_spans_of_both_ranks(stack: Any, run: Run) -> None:
    wanted = trace_id(run.run_id, 0, 3).hex()

    def complete() -> Any:
        with Jaeger(stack.traces) as jaeger:
            trace = jaeger.trace(wanted)
        return trace if trace and sum(span.name == "train.step" for span in trace.spans) == RANKS else None

    trace = eventually(complete)
    assert trace is not None
    steps = [span for span in trace.spans if span.name == "train.step"]
    assert {span.resource["dist.rank"] for span in steps} == {0, 1}
    roots = [span for span in trace.spans if not span.parent_id]
    assert len(roots) == 1
    assert {span.parent_id for span in steps} == {roots[0].span_id}
    for step in steps:
        inner = {span.name for span in trace.spans if span.parent_id == step.span_id}
        assert {"data", "forward", "backward", "optimizer"} <= inner


def test_log_events_of_the_run_carry_run_attempt_and_rank(stack: Any, run: Run) -> None:
    def both() -> Any:
        with VictoriaLogs(stack.logs) as logs:
            found = [record for record in logs.query(f'"run.id":="{run.run_id}"')]
        return found if sum("ended" in r.message or "finished" in r.message for r in found) == RANKS else None

    records = eventually(both)
    assert records
    assert {record.fields["dist.rank"] for record in records} == {"0", "1"}
    assert {record.fields["run.attempt"] for record in records} == {"0"}


def test_gpu_series_carry_the_run_and_rank_of_their_owner(live: Victoria, run: Run) -> None:
    join = (
        "max_over_time(DCGM_FI_DEV_GPU_UTIL[5m]) * on (hw_id) group_left (run_id, dist_rank) "
        f'max by (hw_id, run_id, dist_rank) (max_over_time(train_rank_info{{run_id="{run.run_id}",hw_id!=""}}[5m]))'
    )
    found = eventually(lambda: (lambda s: s if len(s) == RANKS else None)(list(live.query(join))))
    assert found, list(live.export("DCGM_FI_DEV_GPU_UTIL"))
    owners = {sample.labels["hw_id"]: (sample.labels["run_id"], sample.labels["dist_rank"]) for sample in found}
    assert owners == {GPUS[rank]: (run.run_id, str(rank)) for rank in range(RANKS)}


def test_the_launcher_and_the_workers_sent_nothing(live: Victoria, run: Run) -> None:
    found = list(
        live.query(f'count by (dist_rank, process_pid) (max_over_time(train_rank_info{{run_id="{run.run_id}"}}[1h]))')
    )
    assert len(found) == RANKS


def test_the_script_s_own_output_is_untouched(run: Run) -> None:
    assert f"step {STEPS:5d}  loss" in run.output
    assert "Traceback" not in run.output
