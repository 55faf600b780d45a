# SPDX-License-Identifier: Apache-2.0
"""Which GPU is which: UUIDs and PCI ids in one spelling, and the GPUs that a process on this host uses.

In: what DCGM, NVML, torch and the kernel log write. Out: `GPU-…` UUIDs, `00000000:18:00.0` PCI ids. Owner of NVML:
`pynvml` (package nvidia-ml-py) is imported here on use and may be missing. Imports env and errors only.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from glideslope import env
from glideslope.errors import ConfigError

_BARE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PREFIXED = re.compile(r"(gpu|mig)-[0-9a-z][0-9a-z-]{0,62}")
_OLD_MIG = re.compile(r"mig-(gpu-[0-9a-z][0-9a-z-]{0,62})/\d+/\d+")
_PCI = re.compile(r"(?:pci:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this host."""

    index: int
    """NVML's index: PCI bus order, not CUDA's."""
    uuid: str
    pci_bus_id: str
    name: str


def uuid(text: str | bytes) -> str:
    """Spell a GPU UUID as DCGM and NVML do: `GPU-` or `MIG-` and lower-case digits.

    Takes NVML's and DCGM's text, torch's bare `…-…-…`, and 16 bytes. The old MIG form `MIG-GPU-…/gi/ci` gives the
    parent's UUID, which is what DCGM puts on MIG series. Raises ConfigError for anything else.
    """
    if isinstance(text, bytes):
        if len(text) != 16:
            raise ConfigError(f"a GPU UUID has 16 bytes, not {len(text)}")
        digits = text.hex()
        text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    lowered = text.strip().lower()
    if old := _OLD_MIG.fullmatch(lowered):
        lowered = old[1]
    if _BARE.fullmatch(lowered):
        return f"GPU-{lowered}"
    if _PREFIXED.fullmatch(lowered):
        return lowered[:3].upper() + lowered[3:]
    raise ConfigError(
        f"{text!r} is no GPU UUID: write it as `nvidia-smi -L` does, GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
    )


def pci_bus_id(text: str) -> str:
    """Spell a PCI id as DCGM does, `00000000:18:00.0`.

    Takes NVML's form, the kernel log's `PCI:0000:18:00` (no function) and torch's numbers formatted as `0:18:0`
    in hexadecimal. Raises ConfigError for anything else.
    """
    match = _PCI.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"{text!r} is no PCI id: write for example 00000000:18:00.0")
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):08X}:{int(bus, 16):02X}:{int(device, 16):02X}.{function or 0}"


def list_gpus(timeout_s: float = 10.0) -> tuple[Gpu, ...]:
    """Ask the driver (NVML) which GPUs this host has; empty when there is no driver, no pynvml, or no answer.

    NVML can hang for good when a GPU has fallen off the bus: the question is asked on a thread of its own and given up
    after `timeout_s`.
    """
    found: list[tuple[Gpu, ...]] = []

    def ask() -> None:
        try:
            found.append(_ask(import_module("pynvml")))
        except Exception:
            # No package, no driver, no permission: all mean that the driver cannot be asked.
            return

    thread = threading.Thread(target=ask, name="glideslope-nvml", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return found[0] if found else ()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _ask(nvml: Any) -> tuple[Gpu, ...]:
    nvml.nvmlInit()
    try:
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(
                Gpu(
                    index,
                    uuid(_text(nvml.nvmlDeviceGetUUID(handle))),
                    pci_bus_id(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
                    _text(nvml.nvmlDeviceGetName(handle)),
                )
            )
        return tuple(gpus)
    finally:
        nvml.nvmlShutdown()


def visible(gpus: Sequence[Gpu], cuda_visible_devices: Sequence[str] | None) -> tuple[str, ...]:
    """UUIDs of the GPUs that CUDA shows to a process, in CUDA's order.

    `cuda_visible_devices` are indices, UUIDs or their unambiguous beginnings; None means all. As in CUDA, the first
    entry that names no GPU ends the list. Indices count in PCI bus order (CUDA_DEVICE_ORDER=PCI_BUS_ID, NVML's).
    """
    if cuda_visible_devices is None:
        return tuple(gpu.uuid for gpu in gpus)
    chosen = []
    for entry in cuda_visible_devices:
        if entry.isdigit():
            matches = [gpu.uuid for gpu in gpus if gpu.index == int(entry)]
        else:
            matches = [gpu.uuid for gpu in gpus if gpu.uuid.lower().startswith(entry.lower())]
        if len(matches) != 1:
            break
        chosen.append(matches[0])
    return tuple(chosen)


def uuids_by_local_rank(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """UUIDs of the GPUs of this host's ranks: GLIDESLOPE_GPU_UUIDS, else what the driver and CUDA_VISIBLE_DEVICES say.

    Raises ConfigError when GLIDESLOPE_GPU_UUIDS holds something that is no UUID.
    """
    named = env.GLIDESLOPE_GPU_UUIDS.get(environ)
    if named:
        return tuple(uuid(text) for text in named)
    return visible(list_gpus(), env.CUDA_VISIBLE_DEVICES.get(environ) or None)
