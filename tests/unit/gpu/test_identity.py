# SPDX-License-Identifier: Apache-2.0
"""One spelling for GPU UUIDs and PCI ids; NVML asked with a deadline."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from glideslope.errors import ConfigError
from glideslope.gpu.identity import Gpu, list_gpus, pci_bus_id, uuid, uuids_by_local_rank, visible

FULL = "b9f9d2a4-1c2d-4e5f-8a9b-0c1d2e3f4a5b"
GPUS = (Gpu(0, "GPU-aaa0", "00000000:18:00.0", "X"), Gpu(1, "GPU-aab1", "00000000:20:00.0", "X"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f"GPU-{FULL}", f"GPU-{FULL}"),
        (f"gpu-{FULL.upper()}", f"GPU-{FULL}"),
        (FULL, f"GPU-{FULL}"),
        (f" {FULL}\n", f"GPU-{FULL}"),
        (bytes.fromhex(FULL.replace("-", "")), f"GPU-{FULL}"),
        (f"MIG-{FULL}", f"MIG-{FULL}"),
        (f"MIG-GPU-{FULL}/3/0", f"GPU-{FULL}"),
    ],
)
def test_uuids_are_spelt_as_dcgm_does(written: str | bytes, expected: str) -> None:
    assert uuid(written) == expected


@pytest.mark.parametrize(
    "written", ["", "0", "GPU-", "GPU-a b", 'GPU-a"', "TPU-1", "GPU-" + "a" * 64, b"short", "GPU-a/1"]
)
def test_what_is_no_uuid_is_refused(written: str | bytes) -> None:
    with pytest.raises(ConfigError, match="UUID"):
        uuid(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("00000000:18:00.0", "00000000:18:00.0"),
        ("PCI:0000:18:00", "00000000:18:00.0"),
        ("0000:AF:00.0", "00000000:AF:00.0"),
        ("0000:af:00.1", "00000000:AF:00.1"),
        ("18:0", "00000000:18:00.0"),
        ("00010000:0a:00.0", "00010000:0A:00.0"),
    ],
)
def test_pci_ids_are_spelt_as_dcgm_does(written: str, expected: str) -> None:
    assert pci_bus_id(written) == expected


@pytest.mark.parametrize("written", ["", "18", "0000:18:00.9", "x:y:z", "0000:18:00.0.0"])
def test_what_is_no_pci_id_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="PCI"):
        pci_bus_id(written)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (None, ("GPU-aaa0", "GPU-aab1")),
        (("1", "0"), ("GPU-aab1", "GPU-aaa0")),
        (("GPU-aab",), ("GPU-aab1",)),
        (("GPU-aa",), ()),
        (("1", "7", "0"), ("GPU-aab1",)),
        (("-1",), ()),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(shown: tuple[str, ...] | None, expected: tuple[str, ...]) -> None:
    assert visible(GPUS, shown) == expected


def test_uuids_of_the_environment_come_first() -> None:
    environ = {"GLIDESLOPE_GPU_UUIDS": f"GPU-a,{FULL}"}
    assert uuids_by_local_rank(environ) == ("GPU-a", f"GPU-{FULL}")


def test_a_wrong_uuid_in_the_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="nvidia-smi -L"):
        uuids_by_local_rank({"GLIDESLOPE_GPU_UUIDS": "first,second"})


def nvml(**replaced: Any) -> types.SimpleNamespace:
    functions = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{FULL}".encode(),
        "nvmlDeviceGetPciInfo": lambda handle: types.SimpleNamespace(busId=b"00000000:18:00.0"),
        "nvmlDeviceGetName": lambda handle: "NVIDIA H100 80GB HBM3",
    }
    return types.SimpleNamespace(**(functions | replaced))


def test_the_driver_is_asked_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert list_gpus() == (Gpu(0, f"GPU-{FULL}", "00000000:18:00.0", "NVIDIA H100 80GB HBM3"),)


def test_a_driver_that_fails_means_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("NVML_ERROR_DRIVER_NOT_LOADED")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=fail))
    assert list_gpus() == ()


def test_a_driver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetCount=lambda: released.wait(60) and 0))
    try:
        assert list_gpus(timeout_s=0.05) == ()
    finally:
        released.set()


def test_a_missing_package_means_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list_gpus() == ()
