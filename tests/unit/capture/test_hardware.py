# SPDX-License-Identifier: Apache-2.0
"""The GPU of a rank, asked from a torch stand-in where there is no GPU, and from the real one where there is."""

import sys
from types import SimpleNamespace

import pytest
import torch

from glideslope.capture.hardware import gpu_uuid


def stand_in(uuid: object, initialized: bool = True) -> SimpleNamespace:
    cuda = SimpleNamespace(
        is_initialized=lambda: initialized,
        current_device=lambda: 1,
        get_device_properties=lambda index: SimpleNamespace(uuid=uuid) if index == 1 else SimpleNamespace(),
    )
    return SimpleNamespace(cuda=cuda)


def test_the_uuid_is_spelled_as_dcgm_spells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", stand_in("1a2b-3c"))
    assert gpu_uuid() == "GPU-1a2b-3c"
    monkeypatch.setitem(sys.modules, "torch", stand_in("GPU-1a2b-3c"))
    assert gpu_uuid() == "GPU-1a2b-3c"


def test_cuda_is_not_started_by_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", stand_in("x", initialized=False))
    assert gpu_uuid() == ""
    monkeypatch.delitem(sys.modules, "torch")
    assert gpu_uuid() == ""


def test_an_old_torch_without_uuids_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_without = stand_in("x")
    torch_without.cuda.get_device_properties = lambda index: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch", torch_without)
    assert gpu_uuid() == ""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_gpu_has_a_uuid() -> None:
    torch.zeros(1, device="cuda")
    assert gpu_uuid().startswith(("GPU-", "MIG-"))
