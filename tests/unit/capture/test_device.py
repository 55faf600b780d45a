# SPDX-License-Identifier: Apache-2.0
"""Values on a device: order, late arrival, a full ring. The copy itself needs a GPU; a stand-in delays it here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glideslope.capture import device
from glideslope.capture.device import BACKLOG, SLOTS, Drain, read
from glideslope.capture.guard import Guard
from glideslope.capture.publish import Publisher
from glideslope.capture.step import Draft, LayerDraft
from glideslope.config import Capture
from glideslope.events import LayerStats, StepDone


class LateCopies:
    """Stands for the pinned copy: values arrive when `arrive` says so."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, values: torch.Tensor, room: torch.Tensor | None) -> tuple[torch.Tensor, Any]:
        class Event:
            done = False

            def query(self) -> bool:
                return self.done

        self.events.append(Event())
        return values.clone(), self.events[-1]

    def arrive(self, count: int) -> None:
        for event in self.events[:count]:
            event.done = True


class Bench:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.dropped: list[str] = []
        self.copies = LateCopies()
        guard = Guard(self.sent.append, lambda: 0)
        self.publisher = Publisher(self.sent.append, guard, None)
        self.drain = Drain(self.publisher.publish, guard.failed, self.dropped.append, self.copies, lambda: True)
        self.drain._thread = _NoThread()  # type: ignore[assignment]  # drained by hand, so that nothing depends on time

    def step(self, loss: float, **parts: Any) -> None:
        draft = Draft(0, 1, torch.tensor(loss, dtype=torch.float64), 1, 1)
        for name, value in parts.items():
            setattr(draft, name, value)
        self.drain.submit(draft)

    @property
    def losses(self) -> list[tuple[int, float | None]]:
        return [(event.step, event.loss) for event in self.sent if isinstance(event, StepDone)]


class _NoThread:
    def join(self, timeout: float) -> None:
        pass


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_steps_are_sent_in_order_when_their_values_have_arrived(bench: Bench) -> None:
    for loss in (1.0, 2.0, 3.0):
        bench.step(loss)
    assert bench.drain.drain() == 3 and bench.losses == []
    bench.copies.arrive(2)
    assert bench.drain.drain() == 1
    assert bench.losses == [(1, 1.0), (2, 2.0)]
    bench.copies.arrive(3)
    bench.drain.drain()
    assert bench.losses == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_step_without_device_values_waits_for_those_before_it(bench: Bench) -> None:
    bench.step(1.0)
    bench.drain.submit(Draft(0, 1, 2.0, 1, 1))
    assert bench.drain.drain() == 2
    bench.copies.arrive(1)
    bench.drain.drain()
    assert bench.losses == [(1, 1.0), (2, 2.0)]


def test_norms_rates_layers_and_the_resumed_count_all_arrive_in_one_copy(bench: Bench) -> None:
    names = ("a", "b", "c")
    bench.step(
        4.0,
        base=torch.tensor(99.0, dtype=torch.float64),
        clips={"all": (torch.tensor(3.0, dtype=torch.float64), 1.0)},
        lrs=(0.5, torch.tensor(0.25, dtype=torch.float64)),
        layers=[LayerDraft(names, [0, 2], torch.tensor([1.0, 2.0], dtype=torch.float64))],
    )
    bench.copies.arrive(1)
    bench.drain.drain()
    done, stats = bench.sent
    assert isinstance(done, StepDone) and isinstance(stats, LayerStats)
    assert (done.step, done.loss, done.grad_norm, done.grad_norm_clipped) == (100, 4.0, 3.0, 1.0)
    assert done.lrs == (0.5, 0.25)
    assert stats.values[:, 0].tolist() == pytest.approx([1.0, float("nan"), 2.0], nan_ok=True)
    assert len(bench.copies.events) == 1


def test_a_skipped_fused_step_is_known_only_on_arrival_and_leaves_no_hole(bench: Bench) -> None:
    bench.step(1.0, found_inf=torch.tensor(1.0, dtype=torch.float64), tokens=5)
    bench.step(2.0, found_inf=torch.tensor(0.0, dtype=torch.float64), tokens=5)
    bench.copies.arrive(2)
    bench.drain.drain()
    assert bench.losses == [(1, 2.0)]
    assert bench.sent[0].tokens == 10
    assert bench.publisher.skipped == 1


def test_a_full_ring_loses_values_but_no_step_and_says_so(bench: Bench) -> None:
    for i in range(SLOTS + 1):
        bench.step(float(i))
    bench.copies.arrive(SLOTS)
    bench.drain.drain()
    assert bench.dropped == ["ring_full"]
    assert bench.losses == [(i + 1, float(i)) for i in range(SLOTS)] + [(SLOTS + 1, None)]
    bench.step(7.0)
    bench.copies.arrive(SLOTS + 1)
    bench.drain.drain()
    assert bench.losses[-1] == (SLOTS + 2, 7.0)


def test_a_device_that_never_answers_costs_bounded_memory(bench: Bench) -> None:
    for i in range(BACKLOG + 10):
        bench.step(float(i))
    assert bench.drain.drain() == BACKLOG
    assert bench.dropped == ["ring_full"] * (BACKLOG - SLOTS) + ["backlog"] * 10


def test_what_has_not_arrived_at_the_end_is_given_up_after_a_bounded_wait(bench: Bench) -> None:
    bench.step(1.0)
    bench.drain.close(timeout_s=0.05)
    assert bench.dropped == ["exit"]


def test_only_what_can_be_read_without_waiting_is_read() -> None:
    assert read(2) == 2.0
    assert read(torch.tensor([[3.0]], requires_grad=True)) == 3.0
    assert read(torch.tensor(0.5, dtype=torch.bfloat16)) == 0.5
    assert read(torch.ones(2)) is None
    assert read(torch.ones((), device="meta")) is None
    assert read("text") is None
    with torch._subclasses.FakeTensorMode():
        assert read(torch.ones(())) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_every_value_arrives_without_one_synchronization(tape: Any) -> None:
    recorder = tape.start(settings=Capture(layers_every=1))
    model = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(8, 64, device="cuda")
    losses, norms = [], []
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True))
            optimizer.step()
            losses.append(loss.detach())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    tape.stop()
    assert [done.loss for done in tape.steps] == [loss.item() for loss in losses]
    assert [done.grad_norm for done in tape.steps] == [norm.item() for norm in norms]
    assert len(tape.layers) == 10
    assert "train.memory.allocated" in tape.steps[0].memory
    assert recorder.errors() == {}
    assert device.SLOTS == SLOTS
