# SPDX-License-Identifier: Apache-2.0
"""Values on their way from a device: delivered in order once they arrived, bounded, counted when given up.

No GPU is needed: copies are made by hand and arrive when the test says so.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from glideslope.capture import pending, tensors
from glideslope.capture.distributions import BINS, EDGES, from_values, unpack
from glideslope.capture.pending import Copied, Pending, copy_tensors
from glideslope.capture.values import MetricReader


class Event:
    def __init__(self) -> None:
        self.arrived = False
        self.asked = 0

    def query(self) -> bool:
        self.asked += 1
        return self.arrived


class Device:
    """Copies that wait for the test."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dropped: list[tuple[str, int]] = []
        self.pending = Pending(lambda reason, count: self.dropped.append((reason, count)), self.copy)

    def copy(self, some: tuple[Any, ...]) -> list[Copied]:
        copies = []
        for members, flat in tensors.flat_by_device(some):
            self.events.append(Event())
            sizes = [some[member].numel() for member in members]
            copies.append(Copied(members, flat, sizes, self.events[-1]))
        return copies


@pytest.fixture
def device() -> Device:
    return Device()


def test_values_are_delivered_once_when_they_arrived_and_in_the_order_of_the_calls(device: Device) -> None:
    got: list[list[float]] = []
    for value in (1.0, 2.0, 3.0):
        device.pending.add((torch.tensor(value), torch.tensor(-value)), lambda found: got.append(found.tolist()))
    device.events[1].arrived = True
    assert device.pending.drain() == 3
    device.events[0].arrived = True
    assert device.pending.drain() == 1
    assert got == [[1.0, -1.0], [2.0, -2.0]]
    device.events[2].arrived = True
    assert device.pending.drain() == 0
    assert device.pending.drain() == 0
    assert got[2:] == [[3.0, -3.0]]
    assert device.dropped == []


def test_adding_never_waits_and_never_asks_twice(device: Device) -> None:
    device.pending.add((torch.tensor(1.0),), lambda found: None)
    assert device.events[0].asked == 0
    device.pending.drain()
    assert device.events[0].asked == 1


def test_what_the_training_writes_afterwards_does_not_change_what_was_logged(device: Device) -> None:
    got: list[float] = []
    for dtype in (torch.float64, torch.float32):
        value = torch.tensor(1.0, dtype=dtype)
        device.pending.add((value,), lambda found: got.append(found.item()))
        value.fill_(9.0)
        device.events[-1].arrived = True
    device.pending.drain()
    assert got == [1.0, 1.0]


def test_tensors_of_several_dtypes_and_shapes_come_back_in_their_order(device: Device) -> None:
    got: list[Any] = []
    some = (torch.tensor(1, dtype=torch.int8), torch.arange(3, dtype=torch.bfloat16), torch.tensor(True))
    device.pending.add(some, lambda found: got.append(found.tolist()))
    device.events[0].arrived = True
    device.pending.drain()
    assert got == [[1.0, 0.0, 1.0, 2.0, 1.0]]


def test_values_of_two_devices_are_put_together_again() -> None:
    event = Event()
    event.arrived = True
    got: list[Any] = []

    def copy(some: tuple[Any, ...]) -> list[Copied]:
        return [
            Copied([0, 2], np.array([1.0, 3.0, 4.0]), [1, 2], event),
            Copied([1], np.array([2.0, 0.0]), [1], event),  # rooms may be larger than their values
        ]

    waiting = Pending(lambda reason, count: None, copy)
    waiting.add(("a", "b", "c"), lambda found: got.append(found.tolist()))
    waiting.drain()
    assert got == [[1.0, 2.0, 3.0, 4.0]]


def test_a_full_ring_drops_the_oldest_and_counts_its_values(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "CALLS", 3)
    got: list[float] = []
    for value in range(5):
        device.pending.add((torch.full((2,), float(value)),), lambda found: got.append(found[0]))
    assert device.dropped == [("ring_full", 2)] * 2
    for event in device.events:
        event.arrived = True
    device.pending.drain()
    assert got == [2.0, 3.0, 4.0]


def test_the_ring_is_bounded_by_its_values_too(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "VALUES", 10)
    for _ in range(3):
        device.pending.add((torch.zeros(6),), lambda found: None)
    assert device.dropped == [("ring_full", 6)] * 2
    device.pending.add((torch.zeros(20),), lambda found: None)
    assert len(device.pending) == 1


def test_waiting_ends_when_time_is_up_and_closing_counts_what_is_left(device: Device) -> None:
    device.pending.add((torch.zeros(2),), lambda found: None)
    assert not device.pending.wait(0.01)
    device.pending.close(0.01)
    assert device.dropped == [("exit", 2)]
    assert len(device.pending) == 0


def test_waiting_sees_what_arrives_meanwhile(device: Device) -> None:
    got: list[float] = []
    device.pending.add((torch.tensor(5.0),), lambda found: got.append(found.item()))
    timer = threading.Timer(0.05, lambda: setattr(device.events[0], "arrived", True))
    timer.start()
    assert device.pending.wait(30)
    timer.join()
    assert got == [5.0]


def test_logging_from_inside_a_delivery_waits_for_nobody(device: Device) -> None:
    got: list[float] = []

    def deliver(found: Any) -> None:
        got.append(found.item())
        if len(got) == 1:
            device.pending.add((torch.tensor(2.0),), deliver)
            device.events[-1].arrived = True
            assert device.pending.drain() == 1  # this very turn delivers it

    device.pending.add((torch.tensor(1.0),), deliver)
    device.events[0].arrived = True
    device.pending.drain()
    assert got == [1.0, 2.0]


def test_a_delivery_that_fails_loses_itself_alone(device: Device) -> None:
    got: list[float] = []

    def fail(found: Any) -> None:
        raise RuntimeError("mistake")

    device.pending.add((torch.tensor(1.0),), fail)
    device.pending.add((torch.tensor(2.0),), lambda found: got.append(found.item()))
    for event in device.events:
        event.arrived = True
    with pytest.raises(RuntimeError, match="mistake"):
        device.pending.drain()
    device.pending.drain()
    assert got == [2.0]


def test_many_threads_deliver_each_call_once() -> None:
    device = Device()
    got: list[float] = []

    def work() -> None:
        for _ in range(200):
            device.pending.add((torch.tensor(1.0),), lambda found: got.append(found.item()))
            device.events[-1].arrived = True
            device.pending.drain()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for event in device.events:
        event.arrived = True
    device.pending.drain()
    assert len(got) + sum(count for _, count in device.dropped) == 800


def test_counting_on_a_device_gives_the_histogram_of_the_host() -> None:
    generator = torch.Generator().manual_seed(1)
    sample = torch.randn(1000, generator=generator, dtype=torch.float64) * 10 ** torch.arange(-12, 8, 0.02)
    sample[:5] = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf, EDGES[40]])
    host = from_values(sample)
    there = unpack(tensors.counted(sample, EDGES).numpy())
    assert np.array_equal(there.counts, host.counts)
    assert there.total == pytest.approx(host.total, rel=1e-12)
    assert there.nonfinite == host.nonfinite == 3
    assert host.counts.sum() == 997
    assert there.counts.shape == (BINS,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_scalars_are_logged_without_a_synchronisation() -> None:
    got: list[Any] = []
    waiting = Pending(lambda reason, count: None, copy_tensors)
    reader = MetricReader()
    loss = torch.tensor(1.5, device="cuda", requires_grad=True) * 2
    copy_tensors((loss.detach(),))  # the first pinned allocation may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = reader.read({"loss": loss, "norm": loss.to(torch.bfloat16), "host": 1.0})
        waiting.add(found.late, lambda values: got.append(values.tolist()))
        waiting.add((from_values(torch.ones(10, device="cuda")),), lambda values: got.append(values.sum()))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (found.names, found.late_names) == (("host",), ("loss", "norm"))
    assert waiting.wait(30)
    assert got == [[3.0, 3.0], 20.0]
