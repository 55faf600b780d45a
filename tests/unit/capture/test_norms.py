# SPDX-License-Identifier: Apache-2.0
"""Gradient norms: every way of clipping, scaled gradients, and the pass over all parameters."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.amp import GradScaler

# Imported before any recorder patches torch, as a script may do it.
from torch.nn.utils import clip_grad_norm_ as imported_early
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from glideslope.capture.device import local
from glideslope.config import Capture


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def _halves(parameters: Any, limit: float) -> torch.Tensor:
    parameters = list(parameters)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


CLIPS: dict[str, Callable[[Any, float], torch.Tensor]] = {
    "looked up": lambda parameters, limit: torch.nn.utils.clip_grad_norm_(parameters, limit),
    "its own module": lambda parameters, limit: torch.nn.utils.clip_grad.clip_grad_norm_(parameters, max_norm=limit),
    "imported early": imported_early,
    "two halves": _halves,
    "infinity norm": lambda parameters, limit: imported_early(parameters, limit, norm_type=math.inf),
    "not foreach": lambda parameters, limit: imported_early(parameters, limit, foreach=False),
}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS.keys())
@pytest.mark.usefixtures("recorder")
def test_norm_before_and_after_clipping_is_that_of_the_clip_function(tape: Any, clip: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for limit in (1e-3, 1e3):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        norm = clip(model.parameters(), limit).item()
        optimizer.step()
        seen.append((norm, min(norm, limit)))
    tape.stop()
    assert [(done.grad_norm, done.grad_norm_clipped) for done in tape.steps] == seen


@pytest.mark.usefixtures("recorder")
def test_without_clipping_a_total_norm_of_gradients_counts_and_one_of_weights_does_not(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        torch.nn.utils.get_total_norm(list(model.parameters()))
        optimizer.step()
    assert (tape.steps[-1].grad_norm, tape.steps[-1].grad_norm_clipped) == (norm.item(), None)


@pytest.mark.usefixtures("recorder")
def test_sets_that_are_clipped_apart_join_as_the_root_of_the_sum_of_squares(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        total = get_total_norm([p.grad for p in model.parameters()]).item()
        for part in (model[0], model[2]):
            torch.nn.utils.clip_grad_norm_(part.parameters(), 1e-3)
        optimizer.step()
    assert tape.steps[-1].grad_norm == pytest.approx(total, rel=1e-6)
    assert tape.steps[-1].grad_norm_clipped == pytest.approx(math.sqrt(2) * 1e-3)


@pytest.mark.usefixtures("recorder")
def test_clipping_the_same_set_twice_keeps_the_first_norm(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf).item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5 * norm)
        optimizer.step()
    assert (tape.steps[-1].grad_norm, tape.steps[-1].grad_norm_clipped) == (norm, 0.5 * norm)


@pytest.mark.parametrize("unscale", [True, False], ids=["unscaled first", "clipped while scaled"])
@pytest.mark.usefixtures("recorder")
def test_a_gradient_scaler_leaves_no_trace_in_loss_and_norm(tape: Any, unscale: bool) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4)).square().sum()
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item() / (1 if unscale else 1024)
        scaler.step(optimizer)
        scaler.update()
        expected = (loss.item(), norm)
    tape.stop()
    assert (tape.steps[-1].loss, tape.steps[-1].grad_norm) == expected


@pytest.mark.usefixtures("recorder")
def test_a_scaled_loss_that_is_divided_afterwards_is_unscaled_too(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=1024.0)
    losses = []
    for _ in range(2):
        loss = model(torch.randn(3, 4)).square().sum()
        (scaler.scale(loss) / 4).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item() / 4)
    tape.stop()
    assert [done.loss for done in tape.steps] == losses


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_the_scaler_skips_is_no_step_and_leaves_no_loss_behind(tape: Any, fused: bool) -> None:
    recorder = tape.start()
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = GradScaler("cpu", init_scale=8.0)
    losses = []
    for i in range(5):
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4)).square().sum() * (float("inf") if i in (0, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    tape.stop()
    assert [(done.step, done.loss) for done in tape.steps] == [(1, losses[1]), (2, losses[3]), (3, losses[4])]
    assert recorder.skipped_steps == 2
    assert tape.happened == []
    assert recorder.errors() == {}


@pytest.mark.parametrize("fused", [False, True])
def test_layer_norms_are_those_of_each_parameter_every_so_many_steps(tape: Any, fused: bool) -> None:
    recorder = tape.start(settings=Capture(layers_every=2))
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = GradScaler("cpu", init_scale=16.0)
    expected = {}
    for step in range(1, 7):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(3, 4)).square().sum()).backward()
        expected[step] = [p.grad.norm().item() / 16 for p in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
    tape.stop()
    assert [stats.step for stats in tape.layers] == [2, 4, 6]
    for stats in tape.layers:
        assert stats.layers == ("0.weight", "0.bias", "2.weight", "2.bias")
        assert (stats.kind, stats.stats, stats.values.shape) == ("grad", ("norm",), (4, 1))
        assert stats.values[:, 0].tolist() == pytest.approx(expected[stats.step], rel=1e-6)
    assert len({id(stats.layers) for stats in tape.layers}) == 1
    assert recorder.errors() == {}


def test_a_parameter_without_gradient_has_no_norm(tape: Any) -> None:
    tape.start(settings=Capture(layers_every=1))
    model = _model()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
    assert [math.isnan(value) for value in tape.layers[-1].values[:, 0]] == [True, True, False, False]


def test_layer_norms_of_a_closure_are_taken_after_it_ran(tape: Any) -> None:
    tape.start(settings=Capture(layers_every=1))
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.randn(3, 4)).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    tape.stop()
    assert [stats.step for stats in tape.layers] == [1, 2]
    assert tape.layers[-1].values[:, 0].tolist() == pytest.approx([p.grad.norm().item() for p in model.parameters()])


def test_half_precision_gradients_are_summed_where_their_squares_fit(tape: Any) -> None:
    tape.start(settings=Capture(layers_every=1))
    weight = torch.ones(100, dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for _ in range(2):
        weight.grad = torch.full((100,), 1e4, dtype=torch.float16)
        optimizer.step()
    assert tape.layers[-1].values[0, 0] == pytest.approx(1e5, rel=1e-3)


def test_only_the_process_that_is_told_to_sends_layers(tape: Any) -> None:
    tape.start(settings=Capture(layers_every=1), emit_layers=False)
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
    assert len(tape.steps) == 3 and tape.layers == []


def test_names_are_those_of_the_model_without_its_wrappers(tape: Any) -> None:
    tape.start(settings=Capture(layers_every=1))

    class Wrapper(torch.nn.Module):
        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.module(x)

    model = Wrapper(torch.compile(_model(), backend="eager"))
    criterion = torch.nn.Linear(2, 2)  # a second root that the optimizer knows nothing of
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
    assert tape.layers[-1].layers == ("0.weight", "0.bias", "2.weight", "2.bias")
    del criterion


def test_a_model_that_was_built_before_us_is_named_by_the_optimizer_or_by_position(tape: Any) -> None:
    model, other = _model(), _model()
    tape.start(settings=Capture(layers_every=1))
    named = torch.optim.SGD(model.named_parameters(), lr=0.1)
    plain = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(2):
        (model(torch.randn(3, 4)) + other(torch.randn(3, 4))).sum().backward()
        named.step()
        plain.step()
    tape.stop()
    assert [stats.layers for stats in tape.layers[-2:]] == [
        ("0.weight", "0.bias", "2.weight", "2.bias"),
        ("param.0", "param.1", "param.2", "param.3"),
    ]


@pytest.mark.usefixtures("recorder")
def test_a_model_in_training_can_be_copied_and_pickled_as_if_we_were_not_there(tmp_path: Any) -> None:
    model = _model()
    before = pickle.dumps(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    copy.deepcopy(model)
    copy.deepcopy(optimizer)
    torch.save(model, tmp_path / "model.pt")
    assert b"glideslope" not in pickle.dumps(model) + pickle.dumps(optimizer)
    assert b"glideslope" not in (tmp_path / "model.pt").read_bytes()
    assert len(pickle.dumps(model)) == len(before)
    assert pickle.loads(pickle.dumps(torch.nn.utils.clip_grad_norm_)) is torch.nn.utils.clip_grad_norm_
    assert pickle.loads(pickle.dumps(torch.autograd.backward)) is torch.autograd.backward


def test_a_sharded_or_partial_value_is_not_read() -> None:
    class Placement:
        def __init__(self, replica: bool) -> None:
            self.is_replicate = lambda: replica

    class Distributed(torch.Tensor):
        """What `local` looks at of a DTensor; a real one needs a process group (test_processes.py)."""

    value = torch.ones(()).as_subclass(Distributed)
    value._local_tensor = torch.full((), 3.0)
    value.placements = [Placement(True), Placement(False)]
    assert local(value) is None
    value.placements = [Placement(True)]
    assert local(value) is value._local_tensor


def test_uninstall_puts_the_very_same_functions_back(tape: Any) -> None:
    tape.start()
    assert torch.nn.utils.clip_grads_with_norm_ is not clip_grads_with_norm_
    tape.stop()
    assert torch.nn.utils.clip_grads_with_norm_ is clip_grads_with_norm_
    assert torch.nn.utils.clip_grad._clip_grads_with_norm_ is clip_grads_with_norm_
    assert torch.nn.utils.get_total_norm is get_total_norm
