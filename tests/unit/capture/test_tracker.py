# SPDX-License-Identifier: Apache-2.0
"""The step tracker on plain numbers: what is bounded, and what no small training shows."""

from __future__ import annotations

import pytest
import torch

from glideslope.capture.dataloader import shape_counts
from glideslope.capture.model import plain_name
from glideslope.capture.publish import norms
from glideslope.capture.step import PHASES_KEPT, RATES_KEPT, Draft, StepTracker


@pytest.fixture
def closed() -> list[Draft]:
    return []


@pytest.fixture
def tracker(closed: list[Draft]) -> StepTracker:
    return StepTracker(closed.append, lambda now: None)


def _step(tracker: StepTracker, now: int, optimizer: int = 1) -> None:
    tracker.backward_started(now, 1.0)
    tracker.backward_ended(now + 1)
    tracker.optimizer_started(now + 2, optimizer, False)
    tracker.optimizer_ended(now + 3, optimizer, False)


def test_a_step_of_ten_thousand_micro_steps_keeps_bounded_phases_and_their_whole_time(
    tracker: StepTracker, closed: list[Draft]
) -> None:
    now = 0
    for _ in range(10_000):
        tracker.backward_started(now + 10, 1.0)
        tracker.backward_ended(now + 30)
        now += 30
    tracker.optimizer_started(now, 1, False)
    tracker.optimizer_ended(now + 5, 1, False)
    tracker.flush()
    (draft,) = closed
    assert len(draft.phases) == PHASES_KEPT
    assert draft.micro_steps == 10_000
    assert sum(p.end_ns - p.start_ns for p in draft.phases if p.name == "backward") == 200_000
    assert sum(p.end_ns - p.start_ns for p in draft.phases if p.name == "forward") >= 99_990


def test_batches_that_are_skipped_without_a_backward_take_no_memory(tracker: StepTracker) -> None:
    for i in range(100_000):
        tracker.batch_requested()
        tracker.batch_delivered(i, i + 1, 7, 5, 1)
    assert len(tracker._gap) <= 64
    tracker.backward_started(100_000, 1.0)
    assert tracker.draft is not None and tracker.draft.tokens == 5


def test_many_datasets_take_no_memory(tracker: StepTracker) -> None:
    for source in range(1000):
        tracker.batch_delivered(source, source + 1, source, 1, 1)
    assert len(tracker._batches) <= 16


def test_learning_rates_are_bounded_and_those_of_a_dead_optimizer_vanish(
    tracker: StepTracker, closed: list[Draft]
) -> None:
    for optimizer in range(RATES_KEPT + 10):
        tracker.rates(optimizer, (0.1,))
    _step(tracker, 0)
    tracker.flush()
    assert len(closed[0].lrs) == RATES_KEPT
    for optimizer in range(1, RATES_KEPT + 10):
        tracker.forget(optimizer)
    _step(tracker, 10)
    tracker.flush()
    assert closed[1].lrs == (0.1,)


def test_the_plain_case_closes_at_the_end_of_the_optimizer_step(tracker: StepTracker, closed: list[Draft]) -> None:
    _step(tracker, 0)
    assert closed == []
    _step(tracker, 10)
    assert [draft.end_ns for draft in closed] == [3, 13]


def test_norms_of_nothing_are_unknown_rather_than_zero() -> None:
    assert norms(Draft(0)) == (None, None)
    assert norms(Draft(0, total_norm=2.0)) == (2.0, None)
    assert norms(Draft(0, clips={"a": (float("inf"), 1.0)})) == (float("inf"), None)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("module.layers.0.weight", "layers.0.weight"),
        ("module._orig_mod.layers.0._checkpoint_wrapped_module.weight", "layers.0.weight"),
        ("_fsdp_wrapped_module.head._orig_mod.bias", "head.bias"),
        ("layers.module.weight", "layers.module.weight"),
        ("module", "module"),
    ],
)
def test_wrappers_are_no_part_of_a_name(path: str, name: str) -> None:
    assert plain_name(path) == name


def test_tokens_are_the_integer_matrix_that_is_named_like_them() -> None:
    ids, mask, image = torch.zeros(2, 6, dtype=torch.long), torch.ones(2, 3, dtype=torch.long), torch.zeros(4, 3, 8, 8)
    assert shape_counts({"attention_mask": mask, "input_ids": ids}) == (12, 2)
    assert shape_counts([image, torch.zeros(4, dtype=torch.long)]) == (0, 4)
    assert shape_counts((ids, ids)) == (12, 2)
    assert shape_counts({"batch": {"inputs": [ids]}}) == (12, 2)
    assert shape_counts("text") == (0, 0)
    assert shape_counts([torch.tensor(1.0)]) == (0, 0)
    loop: list[object] = []
    loop.append(loop)
    assert shape_counts(loop) == (0, 0)
