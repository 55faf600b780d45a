# SPDX-License-Identifier: Apache-2.0
"""Steps, losses, rates and phases of real trainings, compared with what the loop itself computes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def _loss(model: torch.nn.Module) -> torch.Tensor:
    return functional.mse_loss(model(torch.randn(3, 4)), torch.randn(3, 1))


@pytest.mark.usefixtures("recorder")
def test_loss_rate_and_norm_are_those_of_the_loop_and_are_there_when_the_step_returns(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.AdamW(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 5e-3}], lr=1e-2
    )
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for i in range(4):
        optimizer.zero_grad()
        loss = _loss(model)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        rates = tuple(group["lr"] for group in optimizer.param_groups)
        optimizer.step()
        if i:  # the first step waits to see whether another optimizer belongs to it
            done = tape.steps[-1]
            assert (done.step, done.loss, done.lrs, done.grad_norm) == (i + 1, loss.item(), rates, norm.item())
            assert done.grad_norm_clipped == min(norm.item(), 0.1)
        scheduler.step()
    assert [done.step for done in tape.steps] == [1, 2, 3, 4]
    assert [done.micro_steps for done in tape.steps] == [1] * 4


def test_the_only_step_of_a_training_is_sent_at_uninstall(tape: Any, recorder: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _loss(model).backward()
    optimizer.step()
    assert tape.steps == []
    recorder.uninstall()
    assert [done.step for done in tape.steps] == [1]


@pytest.mark.usefixtures("recorder")
def test_accumulated_micro_steps_are_one_step_with_their_mean_loss(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    means = []
    for _ in range(3):
        losses = []
        for _ in range(4):
            loss = _loss(model)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        means.append(sum(losses) / 4)
    tape.stop()
    assert [done.loss for done in tape.steps] == means
    assert [done.micro_steps for done in tape.steps] == [4, 4, 4]
    assert [phase.name for phase in tape.steps[1].phases] == ["forward", "backward"] * 4 + ["optimizer"]


@pytest.mark.usefixtures("recorder")
def test_optimizers_that_share_a_backward_share_a_step(tape: Any) -> None:
    model = _model()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.AdamW(model[2].parameters(), lr=0.2)
    for _ in range(4):
        _loss(model).backward()
        first.step()
        second.step()
    tape.stop()
    assert [(done.step, done.lrs) for done in tape.steps] == [(n, (0.1, 0.2)) for n in (1, 2, 3, 4)]
    assert all([p.name for p in done.phases].count("optimizer") == 2 for done in tape.steps)


@pytest.mark.usefixtures("recorder")
def test_an_optimizer_that_joins_later_does_not_make_steps_of_its_own(tape: Any) -> None:
    model = _model()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.SGD(model[2].parameters(), lr=0.2)
    for i in range(6):
        _loss(model).backward()
        first.step()
        if i >= 3:
            second.step()
    tape.stop()
    assert [done.step for done in tape.steps] == [1, 2, 3, 4, 5, 6]
    assert [done.micro_steps for done in tape.steps] == [1] * 6


@pytest.mark.usefixtures("recorder")
def test_optimizers_that_alternate_with_a_backward_each_make_steps_of_their_own(tape: Any) -> None:
    generator, critic = _model(), _model()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (generator, critic)]
    losses = []
    for _ in range(3):
        for model, optimizer in zip((generator, critic), optimizers, strict=True):
            loss = _loss(model)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    tape.stop()
    assert [done.loss for done in tape.steps] == losses


@pytest.mark.usefixtures("recorder")
def test_a_closure_that_is_evaluated_many_times_is_one_step_with_its_first_loss(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    x, y = torch.randn(3, 4), torch.randn(3, 1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    returned = [optimizer.step(closure).item() for _ in range(3)]
    tape.stop()
    assert [done.loss for done in tape.steps] == returned
    assert all(done.micro_steps > 1 for done in tape.steps)


@pytest.mark.usefixtures("recorder")
def test_a_closure_as_lightning_uses_it_counts_the_micro_steps_before_it(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    losses: list[float] = []

    def closure() -> torch.Tensor:
        loss = _loss(model)
        loss.backward()
        losses.append(loss.item())
        return loss

    means = []
    for _ in range(3):
        losses.clear()
        closure()
        optimizer.step(closure)
        optimizer.zero_grad()
        means.append(sum(losses) / 2)
    tape.stop()
    assert [(done.loss, done.micro_steps) for done in tape.steps] == [(mean, 2) for mean in means]


@pytest.mark.usefixtures("recorder")
def test_a_step_that_calls_the_step_of_its_base_class_counts_once(tape: Any) -> None:
    class Nested(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    model = _model()
    torch.optim.SGD(model.parameters(), lr=0.1)  # its construction hooks the base class as well
    optimizer = Nested(model.parameters(), lr=0.1)
    for _ in range(3):
        _loss(model).backward()
        optimizer.step()
    tape.stop()
    assert [done.step for done in tape.steps] == [1, 2, 3]


@pytest.mark.usefixtures("recorder")
def test_a_step_that_raised_does_not_swallow_the_steps_after_it(tape: Any) -> None:
    class Fragile(torch.optim.SGD):
        broken = False

        def step(self, closure: Any = None) -> Any:
            if self.broken:
                raise RuntimeError("out of memory")
            return super().step(closure)

    model = _model()
    optimizer = Fragile(model.parameters(), lr=0.1)
    for i in range(5):
        _loss(model).backward()
        optimizer.broken = i == 2
        if i == 2:
            with pytest.raises(RuntimeError, match="out of memory"):
                optimizer.step()
        else:
            optimizer.step()
    tape.stop()
    assert [done.step for done in tape.steps] == [1, 2, 3, 4]


@pytest.mark.usefixtures("recorder")
def test_optimizers_inside_the_backward_pass_make_one_step_per_backward(tape: Any) -> None:
    model = _model()
    inside = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        inside[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    losses = []
    for _ in range(4):
        loss = _loss(model)
        loss.backward()
        losses.append(loss.item())
    tape.stop()
    assert [done.loss for done in tape.steps] == losses


@pytest.mark.usefixtures("recorder")
def test_without_optimizer_hooks_zero_grad_closes_the_step(tape: Any) -> None:
    class Bare(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            self.param_groups = [{"params": list(parameters), "lr": 0.1}]

        def step(self) -> None:  # type: ignore[override]
            pass

        def zero_grad(self, set_to_none: bool = True) -> None:
            model.zero_grad(set_to_none)

    model = _model()
    optimizer = Bare(model.parameters())
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = _loss(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.zero_grad()
    assert [done.loss for done in tape.steps] == losses


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.usefixtures("recorder")
def test_activation_checkpointing_counts_nothing_twice(tape: Any, use_reentrant: bool) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        hidden = checkpoint(model[:2], x, use_reentrant=use_reentrant)
        loss = checkpoint(model[2], hidden, use_reentrant=use_reentrant).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tape.stop()
    assert [(done.loss, done.micro_steps) for done in tape.steps] == [(loss, 1) for loss in losses]


class _Inner(torch.autograd.Function):
    """Runs a backward of its own inside the backward pass, as reentrant checkpointing does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            torch.ones(1, requires_grad=True).sum().backward()
        return gradient * 2


@pytest.mark.usefixtures("recorder")
def test_a_backward_inside_autograd_grad_is_no_micro_step(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.ones(1, requires_grad=True)
        torch.autograd.grad(_Inner.apply(x).sum(), x)
        _loss(model).backward()
        optimizer.step()
    tape.stop()
    assert [done.micro_steps for done in tape.steps] == [1, 1]


@pytest.mark.usefixtures("recorder")
def test_a_backward_that_raised_is_not_counted(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            torch.ones(1).sum().backward()
        loss = _loss(model)
        loss.backward()
        optimizer.step()
    tape.stop()
    assert [done.micro_steps for done in tape.steps] == [1, 1, 1]
    assert tape.steps[-1].loss == loss.item()


@pytest.mark.usefixtures("recorder")
def test_several_scalar_roots_add_up_and_a_root_that_is_no_scalar_has_no_loss(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one, two = _loss(model), _loss(model)
    torch.autograd.backward([one, two])
    optimizer.step()
    out = model(torch.randn(3, 4))
    torch.autograd.backward(out, torch.ones_like(out))
    optimizer.step()
    assert [done.loss for done in tape.steps] == [one.item() + two.item(), None]


@pytest.mark.usefixtures("recorder")
def test_a_resumed_optimizer_continues_its_own_count(tape: Any) -> None:
    model = _model()
    old = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        old.state[parameter] = {
            "step": torch.tensor(41.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.ones_like(parameter),
        }
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(old.state_dict())
    for _ in range(3):
        _loss(model).backward()
        optimizer.step()
    assert [done.step for done in tape.steps] == [42, 43, 44]


@pytest.mark.usefixtures("recorder")
def test_an_optimizer_that_does_not_count_continues_the_count_of_its_scheduler(tape: Any) -> None:
    optimizer = torch.optim.SGD(_model().parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    scheduler.load_state_dict({**scheduler.state_dict(), "last_epoch": 10})
    for _ in range(2):
        torch.nn.functional.mse_loss(torch.ones(1, requires_grad=True), torch.zeros(1)).backward()
        optimizer.step()
    assert [done.step for done in tape.steps] == [11, 12]


def test_first_step_overrides_what_the_optimizer_says(tape: Any) -> None:
    tape.start(first_step=100)
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        _loss(model).backward()
        optimizer.step()
    assert [done.step for done in tape.steps] == [100, 101]
    assert tape.recorder.step() == 101


@pytest.mark.usefixtures("recorder")
def test_phases_lie_inside_their_step_in_order_and_steps_join_without_gap(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(12, 4)), batch_size=3):
        model(x).sum().backward()
        optimizer.step()
    for before, after in zip(tape.steps, tape.steps[1:], strict=False):
        assert before.end_ns == after.start_ns
    for done in tape.steps:
        assert [phase.name for phase in done.phases] == ["data", "forward", "backward", "optimizer"]
        marks = [done.start_ns, *(t for phase in done.phases for t in (phase.start_ns, phase.end_ns)), done.end_ns]
        assert marks == sorted(marks)


@pytest.mark.usefixtures("recorder")
def test_an_evaluation_between_steps_is_a_phase_of_its_own_and_adds_no_samples(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train, held_out = TensorDataset(torch.randn(6, 4)), TensorDataset(torch.randn(20, 4))
    for _ in range(2):
        for (x,) in DataLoader(train, batch_size=3):
            model(x).sum().backward()
            optimizer.step()
        with torch.no_grad():
            for (x,) in DataLoader(held_out, batch_size=2):
                model(x)
    assert [done.samples for done in tape.steps] == [3, 3, 3, 3]
    assert [phase.name for phase in tape.steps[2].phases] == ["eval", "data", "forward", "backward", "optimizer"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("recorder")
def test_tokens_and_samples_come_from_the_shapes_of_the_batch(tape: Any, workers: int) -> None:
    model = torch.nn.Embedding(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randint(0, 10, (7, 5)), torch.randn(7, 2))
    for ids, _ in DataLoader(data, batch_size=3, num_workers=workers):
        model(ids).sum().backward()
        optimizer.step()
    tape.stop()
    assert [(done.tokens, done.samples) for done in tape.steps] == [(15, 3), (15, 3), (5, 1)]


@pytest.mark.usefixtures("recorder")
def test_a_batch_that_feeds_two_backwards_is_counted_once(tape: Any) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=3):
        model(x[:1]).sum().backward()
        model(x[1:]).sum().backward()
        optimizer.step()
    tape.stop()
    assert [(done.samples, done.micro_steps) for done in tape.steps] == [(3, 2), (3, 2)]


@pytest.mark.usefixtures("recorder")
def test_a_loss_that_is_not_finite_is_named_in_every_step(tape: Any) -> None:
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for factor in (1.0, float("nan"), float("inf"), 1.0):
        weight.grad = None
        (weight * factor).sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer.step()
        weight.data.fill_(1.0)
    tape.stop()
    wrong = ("loss", "grad.norm")
    assert [done.nonfinite for done in tape.steps] == [(), wrong, wrong, ()]


@pytest.mark.usefixtures("recorder")
def test_resident_memory_of_the_process_is_in_every_step(tape: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        _loss(model).backward()
        optimizer.step()
    with open("/proc/self/status") as status:
        resident = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
    assert abs(tape.steps[-1].memory["process.memory.usage"] - resident) < resident / 4


@pytest.mark.usefixtures("recorder")
def test_what_callbacks_cost_is_in_every_step_and_adds_up(tape: Any, recorder: Any) -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        _loss(model).backward()
        optimizer.step()
    tape.stop()
    assert all(done.overhead_s > 0 for done in tape.steps)
    assert sum(done.overhead_s for done in tape.steps) <= recorder.overhead_s


@pytest.mark.usefixtures("recorder")
def test_another_thread_that_trains_something_does_not_disturb_the_training(tape: Any) -> None:
    def other() -> None:
        model = _model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
            model(x).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = _loss(model)
        loss.backward()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        optimizer.step()
        losses.append(loss.item())
    tape.stop()
    assert [(done.loss, done.micro_steps, done.samples, done.grad_norm) for done in tape.steps] == [
        (loss, 1, 0, None) for loss in losses
    ]
