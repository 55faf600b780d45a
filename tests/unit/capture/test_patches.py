# SPDX-License-Identifier: Apache-2.0
"""What must never happen to a training: an exception of ours, a changed traceback, a function that is not put back."""

from __future__ import annotations

import logging
import os
import traceback
from typing import Any

import pytest
import torch
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from glideslope.capture import dataloader, layers, loss, memory, model, norms, optimizer
from glideslope.capture.guard import ERROR_LIMIT
from glideslope.config import Capture

PLACES = [
    (torch.autograd, "backward"),
    (torch.nn.utils.clip_grad, "_get_total_norm"),
    (torch.nn.utils.clip_grad, "_clip_grads_with_norm_"),
    (torch.nn.utils, "get_total_norm"),
    (torch.nn.utils, "clip_grads_with_norm_"),
    (_BaseDataLoaderIter, "__next__"),
    (torch.amp.GradScaler, "scale"),
    (torch.amp.GradScaler, "update"),
    (torch.optim.Optimizer, "zero_grad"),
    (torch.nn.Module, "zero_grad"),
    (torch.optim.lr_scheduler.LRScheduler, "_initial_step"),
]
TABLES = [
    optimizers._global_optimizer_pre_hooks,
    optimizers._global_optimizer_post_hooks,
    torch.nn.modules.module._global_module_registration_hooks,
    torch.nn.modules.module._global_parameter_registration_hooks,
]


def _train(steps: int = 8, scaled: bool = True) -> list[float]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Flatten(), torch.nn.Linear(8, 1))
    adam = torch.optim.AdamW(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ConstantLR(adam)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    found = []
    for (ids,) in DataLoader(TensorDataset(torch.randint(0, 10, (steps, 2))), batch_size=1):
        adam.zero_grad()
        value = net(ids).square().sum()
        scaler.scale(value).backward()
        scaler.unscale_(adam)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(adam)
        scaler.update()
        scheduler.step()
        found.append(value.item())
    return found


def test_every_replaced_object_and_every_hook_table_is_as_it_was(tape: Any) -> None:
    before = [vars(owner)[name] for owner, name in PLACES]
    hooks = [dict(table) for table in TABLES]
    recorder = tape.start()
    recorder.install()  # a second time does nothing
    assert all(vars(owner)[name] is not old for (owner, name), old in zip(PLACES, before, strict=True))
    _train()
    recorder.uninstall()
    assert all(vars(owner)[name] is old for (owner, name), old in zip(PLACES, before, strict=True))
    assert [dict(table) for table in TABLES] == hooks
    sent = len(tape.events)
    _train()
    assert len(tape.events) == sent


def test_a_recorder_can_be_installed_again(tape: Any) -> None:
    recorder = tape.start()
    recorder.uninstall()
    recorder.install()
    _train()
    assert len(tape.steps) >= 7


def test_somebody_elses_patch_over_ours_stays_and_keeps_working(tape: Any, monkeypatch: Any) -> None:
    tape.start()
    ours = torch.autograd.backward
    calls = []

    def theirs(*args: Any, **kwargs: Any) -> None:
        calls.append(1)
        ours(*args, **kwargs)

    original = ours.__wrapped__
    torch.autograd.backward = theirs
    try:
        tape.stop()
        assert torch.autograd.backward is theirs
        _train(2)
        assert len(calls) == 2
    finally:
        torch.autograd.backward = original


def test_values_of_the_training_are_the_same_with_and_without_us(tape: Any) -> None:
    plain = _train()
    tape.start(settings=Capture(layers_every=1))
    assert _train() == plain


FAULTS = [
    (loss.Backward, "started"),
    (loss.Backward, "ended"),
    (loss.Backward, "scaling"),
    (loss.Backward, "scaled"),
    (loss.Backward, "updating"),
    (loss.Backward, "updated"),
    (norms.Norms, "halves_called"),
    (norms.Norms, "norm_returned"),
    (norms.Norms, "clip_called"),
    (dataloader.Batches, "requested"),
    (dataloader.Batches, "delivered"),
    (optimizer.Steps, "started"),
    (optimizer.Steps, "ended"),
    (optimizer.Steps, "gradients_cleared"),
    (optimizer.Steps, "scheduler_made"),
    (layers.GradientNorms, "measure"),
    (memory.Memory, "read"),
    (model.ModuleTree, "_child"),
    (model.ModuleTree, "_parameter"),
]


@pytest.mark.parametrize(("owner", "name"), FAULTS, ids=[f"{owner.__name__}.{name}" for owner, name in FAULTS])
def test_a_callback_that_fails_is_counted_and_goes_off_and_the_training_notices_nothing(
    tape: Any, monkeypatch: Any, caplog: Any, owner: type, name: str
) -> None:
    plain = _train()

    def broken(*_args: Any) -> None:
        raise LookupError("broken on purpose")

    monkeypatch.setattr(owner, name, broken)
    with caplog.at_level(logging.WARNING, "glideslope"):
        recorder = tape.start(settings=Capture(layers_every=1))
        for _ in range(ERROR_LIMIT):
            assert _train() == plain
        tape.stop()
    (count,) = recorder.errors().values()
    assert count == ERROR_LIMIT
    assert len(caplog.records) == 1
    assert [event.name for event in tape.happened] == ["train.telemetry.disabled"]
    assert tape.happened[0].attributes == {"callback": next(iter(recorder.errors())), "error.type": "LookupError"}


def test_a_sink_that_raises_is_counted_and_the_training_notices_nothing(tape: Any, caplog: Any) -> None:
    plain = _train()

    def broken(_event: Any) -> None:
        raise OSError("disk full")

    recorder = tape.start(sink=broken)
    with caplog.at_level(logging.WARNING, "glideslope"):
        assert _train() == plain
        tape.stop()
    assert recorder.errors() == {"sink": 8 + 1}  # eight steps, one report that the sink is broken
    assert len(caplog.records) == 1


def test_the_session_is_asked_once_on_the_training_thread_before_the_first_event(tape: Any) -> None:
    asked: list[int] = []
    tape.start(on_active=lambda: asked.append(len(tape.events)))
    _train()
    assert asked == [0]


@pytest.mark.parametrize("first_sign", ["backward", "optimizer"])
def test_a_session_that_declines_leaves_the_process_alone(tape: Any, first_sign: str) -> None:
    original = torch.autograd.backward
    recorder = tape.start(on_active=lambda: False)
    weight = torch.ones(1, requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=0.1)
    if first_sign == "optimizer":
        sgd.step()
    _train()
    assert torch.autograd.backward is original
    recorder.uninstall()
    assert tape.events == []


def test_a_session_that_raises_when_asked_leaves_the_process_alone(tape: Any) -> None:
    def broken() -> None:
        raise OSError("no space")

    recorder = tape.start(on_active=broken)
    _train()
    tape.stop()
    assert tape.events == [] and recorder.errors() == {"backward": 1}


class _Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise ValueError("the user's own mistake")


class _BadData(TensorDataset):
    def __getitem__(self, index: int) -> Any:
        raise KeyError("the user's own mistake")


def _raise_in_backward() -> None:
    _Bad.apply(torch.ones(1, requires_grad=True)).sum().backward()


def _raise_in_data() -> None:
    next(iter(DataLoader(_BadData(torch.ones(3)))))


def _raise_in_clip() -> None:
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.full((1,), float("nan"))
    torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


def _raise_in_step() -> None:
    def closure() -> float:
        raise ValueError("the user's own mistake")

    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step(closure)


def _raise_in_scheduler() -> None:
    def schedule(_step: int) -> float:
        raise ValueError("the user's own mistake")

    torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1), schedule)


def _raise_in_scaler() -> None:
    torch.amp.GradScaler("cpu").update()


@pytest.mark.parametrize(
    "mistake",
    [_raise_in_backward, _raise_in_data, _raise_in_clip, _raise_in_step, _raise_in_scheduler, _raise_in_scaler],
)
@pytest.mark.parametrize("agree", [True, False], ids=["recording", "declined"])
def test_tracebacks_of_the_user_do_not_show_us(tape: Any, mistake: Any, agree: bool) -> None:
    def printed() -> str:
        try:
            mistake()
        except Exception:
            return traceback.format_exc()
        pytest.fail("it did not raise")

    plain = printed()
    tape.start(on_active=lambda: agree)
    assert printed() == plain
    assert printed() == plain


def test_a_forked_child_is_silent_and_the_parent_goes_on(tape: Any) -> None:
    read, write = os.pipe()
    recorder = tape.start(sink=lambda event: os.write(write, b"."))
    _train(3)
    assert recorder.step() >= 2
    os.read(read, 100)
    child = os.fork()
    if not child:
        # No backward here: the autograd engine refuses to run in a fork of a process that has used it.
        weight = torch.ones(1, requires_grad=True)
        weight.grad = torch.ones(1)
        sgd = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            sgd.step()
        os._exit(7 if recorder.active else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 100)
    _train(3)
    assert os.read(read, 100)
    tape.stop()
    os.close(read)
    os.close(write)
