# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs: exporter pages in the exact format of DCGM exporter, driven by a real load.

In: GPU UUIDs and a function that gives their load. Out: pages on a loopback port, in which every series says
`gpu_simulated="true"` and a model name that ends in "(simulated)". Made for machines without a GPU; nothing here is
measured on one. Imports config and gpu.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

from glideslope.config import LOOPBACK
from glideslope.gpu.fields import BLANK_INT64, ClockReason, field
from glideslope.gpu.identity import uuid
from glideslope.gpu.page import format_page
from glideslope.gpu.xid import xid
from glideslope.testing.loopback import LoopbackServer

MODEL = "NVIDIA H100 80GB HBM3 (simulated)"
DRIVER = "550.127.08"
_MEMORY_MIB = 81_559
_RESERVED_MIB = 551


@dataclass(frozen=True, slots=True)
class Load:
    """What one GPU is doing."""

    activity: float = 0.0
    """Share of time it computes, 0 to 1."""
    memory_mib: float = 0.0
    xid: int = 0
    """Last XID code."""


LoadOf = Callable[[str], Load]


class SimulatedGpu:
    """One GPU whose heat, power and energy follow its load with the inertia of a real one."""

    def __init__(self, index: int, uuid: str) -> None:
        """`index` is its place on the host."""
        self.index = index
        self.uuid = uuid
        self.load = Load()
        self.temperature = 31.0
        self.power = 72.0
        self.energy_mj = 0.0

    def advance(self, seconds: float, load: Load) -> None:
        """Let time pass under a load."""
        self.load = load
        near = 1 - math.exp(-seconds / 2.0)
        far = 1 - math.exp(-seconds / 20.0)
        self.power += (72.0 + 610.0 * load.activity - self.power) * near
        self.temperature += (31.0 + 0.052 * (self.power - 72.0) - self.temperature) * far
        self.energy_mj += self.power * seconds * 1000

    def values(self) -> dict[str, float | int]:
        """Value by DCGM field name; an int is written without decimals."""
        activity = min(1.0, max(0.0, self.load.activity))
        used = min(_MEMORY_MIB - _RESERVED_MIB, round(4 + self.load.memory_mib))
        busy = activity > 0.02
        reason = ClockReason.SOFTWARE_POWER_CAP if activity > 0.95 else ClockReason(0)
        return {
            "DCGM_FI_DEV_SM_CLOCK": 1980 if busy else 345,
            "DCGM_FI_DEV_MEM_CLOCK": 2619,
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": int(reason if busy else ClockReason.IDLE),
            "DCGM_FI_DEV_MEMORY_TEMP": round(self.temperature + 6),
            "DCGM_FI_DEV_GPU_TEMP": round(self.temperature),
            "DCGM_FI_DEV_GPU_TEMP_LIMIT": round(87 - self.temperature),
            "DCGM_FI_DEV_POWER_USAGE": float(self.power),
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": int(self.energy_mj),
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0,
            "DCGM_FI_DEV_GPU_UTIL": round(100 * activity),
            "DCGM_FI_DEV_MEM_COPY_UTIL": round(48 * activity),
            "DCGM_FI_DEV_XID_ERRORS": self.load.xid,
            "DCGM_FI_DEV_PCIE_LINK_GEN": 5,
            "DCGM_FI_DEV_PCIE_LINK_WIDTH": 16,
            "DCGM_FI_DEV_POWER_VIOLATION": 0,
            "DCGM_FI_DEV_THERMAL_VIOLATION": 0,
            "DCGM_FI_DEV_FB_FREE": _MEMORY_MIB - _RESERVED_MIB - used,
            "DCGM_FI_DEV_FB_USED": used,
            "DCGM_FI_DEV_FB_RESERVED": _RESERVED_MIB,
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 0,
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0,
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
            "DCGM_FI_DEV_ROW_REMAP_PENDING": 0,
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": activity,
            "DCGM_FI_PROF_SM_ACTIVE": 0.86 * activity,
            "DCGM_FI_PROF_SM_OCCUPANCY": 0.31 * activity,
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.42 * activity,
            "DCGM_FI_PROF_DRAM_ACTIVE": 0.37 * activity,
            "DCGM_FI_PROF_PCIE_TX_BYTES": 9.0e8 * activity,
            "DCGM_FI_PROF_PCIE_RX_BYTES": 7.0e8 * activity,
            "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION": 0,
        }


def dcgm_page(
    gpus: Iterable[SimulatedGpu], *, hostname: str = "", old_host_label: bool = False, blank: Sequence[str] = ()
) -> str:
    """Write the page that DCGM exporter would serve for these GPUs, marked as simulated.

    `hostname` defaults to this host; `old_host_label` spells it `Hostname`, as up to version 4.8.2. `blank` names
    fields for which DCGM has no value: they hold 9223372036854775794, which old exporters print.
    """
    host = hostname or socket.gethostname()
    series: dict[str, list[tuple[Mapping[str, str], float | int]]] = {}
    for gpu in gpus:
        labels = {
            "gpu": str(gpu.index),
            "UUID": gpu.uuid,
            "pci_bus_id": f"00000000:{24 + 8 * gpu.index:02X}:00.0",
            "device": f"nvidia{gpu.index}",
            "modelName": MODEL,
            "Hostname" if old_host_label else "hostname": host,
            "DCGM_FI_DRIVER_VERSION": DRIVER,
        }
        for name, value in gpu.values().items():
            code = {"err_code": str(value), "err_msg": xid(int(value)).meaning} if name.endswith("_XID_ERRORS") else {}
            shown = BLANK_INT64 + 2 if name in blank else value
            series.setdefault(name, []).append((labels | code | {"gpu_simulated": "true"}, shown))
    # The exporter's template walks a map, which Go's templates do in the order of its keys: the field number first.
    ordered = sorted(series, key=lambda name: field(name).number)
    return format_page((name, field(name).kind, field(name).help, series[name]) for name in ordered)


class SimulatedGpus:
    """A DCGM exporter of simulated GPUs on a loopback port; a context manager.

    with SimulatedGpus(["GPU-…0", "GPU-…1"], load=lambda uuid: Load(activity=0.9)) as exporter: scrape(exporter.url)
    """

    def __init__(
        self,
        uuids: Sequence[str],
        load: LoadOf = lambda uuid: Load(),
        *,
        port: int = 0,
        hostname: str = "",
        old_host_label: bool = False,
        blank: Sequence[str] = (),
    ) -> None:
        """`load` is asked for every GPU on every page; `port` 0 takes a free one; the rest is as in `dcgm_page`.

        Raises ConfigError for what is no GPU UUID.
        """
        self.gpus = [SimulatedGpu(index, uuid(text)) for index, text in enumerate(uuids)]
        self.port = port
        self._load = load
        self._page_options: dict[str, Any] = {
            "hostname": hostname,
            "old_host_label": old_host_label,
            "blank": tuple(blank),
        }
        self._guard = threading.Lock()
        self._last = time.monotonic()
        self._server: LoopbackServer | None = None

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self.port}/metrics"

    def page(self) -> str:
        """The page as of now."""
        with self._guard:
            now = time.monotonic()
            elapsed, self._last = now - self._last, now
            for gpu in self.gpus:
                gpu.advance(elapsed, self._load(gpu.uuid))
            return dcgm_page(self.gpus, **self._page_options)

    def start(self) -> Self:
        """Begin to serve; does nothing while it serves. Raises OSError when the port is taken."""
        if self._server is not None:
            return self
        simulated = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/metrics", "/health")
                body = simulated.page().encode() if found else b"404 page not found\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = LoopbackServer(self.port, Handler)
        self.port = self._server.server_address[1]
        return self

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
