# SPDX-License-Identifier: Apache-2.0
"""Where the load of simulated GPUs comes from: the ranks' own series, a file, or the processes of the ranks.

In: GPU UUIDs. Out: `Load`, never an exception: what cannot be asked is idle. Imports env, errors, gpus and store, and
needs the packages of `glideslope[stack]`.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import psutil

from glideslope import env
from glideslope.errors import ConfigError, StoreError
from glideslope.store.victoria import Victoria, quote
from glideslope.testing.gpus import Load, LoadOf


def load_from_file(path: Path) -> LoadOf:
    """Read loads from a JSON file on every page: `{"GPU-…": {"activity": 0.9, "memory_mib": 1000, "xid": 0}}`.

    A file that is missing or being written means idle.
    """

    def load(uuid: str) -> Load:
        try:
            entry = json.loads(path.read_text("utf-8")).get(uuid, {})
            return Load(float(entry.get("activity", 0)), float(entry.get("memory_mib", 0)), int(entry.get("xid", 0)))
        except (OSError, ValueError, AttributeError, TypeError):
            return Load()

    return load


def load_from_processes() -> LoadOf:
    """Take the CPU use and memory of the processes that the GPU belongs to by GLIDESLOPE_GPU_UUIDS and LOCAL_RANK."""
    known: dict[int, psutil.Process] = {}

    def owner(process: psutil.Process) -> str:
        environ = process.environ()
        rank, uuids = env.LOCAL_RANK.get(environ), env.GLIDESLOPE_GPU_UUIDS.get(environ)
        return uuids[rank] if 0 <= rank < len(uuids) else ""

    def load(uuid: str) -> Load:
        activity, resident = 0.0, 0.0
        for found in psutil.process_iter():
            # CPU use is measured between two calls on the same object.
            process = known.setdefault(found.pid, found)
            try:
                if owner(process) != uuid:
                    continue
                activity += process.cpu_percent() / 100
                resident += process.memory_info().rss / (1 << 20)
            except (psutil.Error, ConfigError):
                known.pop(found.pid, None)
        return Load(min(1.0, activity), resident)

    return load


class LoadFromStore:
    """Takes the load from what the ranks report: the share of a step's time that they compute in, their memory.

    Asks the live store once a second on a thread of its own, so that a page never waits; a rank that said nothing for
    10 s is idle, and so is every GPU while the store is down.
    """

    def __init__(self, url: str, run_id: str = "") -> None:
        """`url` is the live VictoriaMetrics; `run_id` limits it to one run."""
        self._store = Victoria(url, timeout_s=2)
        self._loads: dict[str, Load] = {}
        self._stopping = threading.Event()
        run = f"run_id={quote(run_id)}," if run_id else ""
        owner = f'topk by (hw_id) (1, tlast_over_time(train_rank_info{{{run}hw_id!=""}}[10s])) * 0 + 1'
        join = f"on (run_id, run_attempt, dist_rank) group_left (hw_id) ({owner})"
        rank = "run_id, run_attempt, dist_rank"
        compute = f'last_over_time(train_phase_duration_seconds{{{run}phase=~"forward|backward|optimizer"}}[10s])'
        whole = f"last_over_time(train_step_duration_seconds{{{run}}}[10s])"
        self._activity = f"sum by ({rank}) ({compute}) / sum by ({rank}) ({whole}) * {join}"
        self._memory = f"sum by ({rank}) (last_over_time(process_memory_usage_bytes{{{run}}}[10s])) * {join}"
        self._thread = threading.Thread(target=self._follow, name="glideslope-simulated-load", daemon=True)
        self._thread.start()

    def __call__(self, uuid: str) -> Load:
        """The load of a GPU."""
        return self._loads.get(uuid, Load())

    def refresh(self) -> None:
        """Ask the store now; raises StoreError when it does not answer."""
        activity = {sample.labels["hw_id"]: sample.value for sample in self._store.query(self._activity)}
        memory = {sample.labels["hw_id"]: sample.value / (1 << 20) for sample in self._store.query(self._memory)}
        self._loads = {
            gpu: Load(min(1.0, max(0.0, activity.get(gpu, 0.0))), memory.get(gpu, 0.0)) for gpu in activity | memory
        }

    def _follow(self) -> None:
        while not self._stopping.wait(1):
            try:
                self.refresh()
            except StoreError:
                self._loads = {}

    def close(self) -> None:
        """Stop asking."""
        self._stopping.set()
        self._thread.join(5)
        self._store.close()
