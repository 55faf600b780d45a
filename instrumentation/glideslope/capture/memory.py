# SPDX-License-Identifier: Apache-2.0
"""Memory of the process and of its CUDA device, in bytes.

In: nothing. Out: a mapping from registry metric names to bytes. Imports torch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import torch

PAUSE_NS = 10**9
"""Device statistics are read at most once in this time: the allocator's answer costs tens of microseconds."""


_cuda_started: Callable[[], bool] = torch.cuda.is_initialized


class Memory:
    """Reads resident memory at each step and the five allocator figures now and then."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        self._statm = -1
        with contextlib.suppress(OSError):  # no procfs: resident memory stays unknown
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._asked_ns = 0

    def read(self, now_ns: int) -> dict[str, int]:
        """Bytes by metric name; names that cannot be known here are absent."""
        found: dict[str, int] = {}
        if self._statm >= 0:
            found["process.memory.usage"] = int(os.pread(self._statm, 64, 0).split()[1]) * self._page
        if _cuda_started() and now_ns - self._asked_ns >= PAUSE_NS:
            self._asked_ns = now_ns
            stats = torch.cuda.memory_stats_as_nested_dict()
            for metric, key in (
                ("train.memory.allocated", "allocated_bytes"),
                ("train.memory.reserved", "reserved_bytes"),
            ):
                total = stats.get(key, {}).get("all", {})
                found[metric] = int(total.get("current", 0))
                found[f"{metric}.peak"] = int(total.get("peak", 0))
            found["train.memory.retries"] = int(stats.get("num_alloc_retries", 0))
        return found

    def close(self) -> None:
        """Release the file."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1
