# SPDX-License-Identifier: Apache-2.0
"""Run one job of a tool in a fresh process and folder, and account for everything that it started.

In: a job. Out: times of the calls, time to exit, CPU of the whole process tree, bytes on disk; or the steps that
survived a kill. Linux only: the program makes itself the reaper of orphans, so that no CPU second escapes.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Job:
    """What a worker does. The fields up to `limit_s` are the worker's argument too."""

    tool: str
    count: int
    """Values a step."""
    steps: int
    pause_s: float
    """Other work between two steps."""
    warm: int = 10
    """First calls, which are not counted."""
    at_least: int = 6
    """Steps after which `limit_s` may end the job."""
    limit_s: float = 4.0
    kill: bool = False
    replay: str = ""
    """File of float64 (steps, count) to log instead; names stand line by line in the same with `.names`."""


@dataclass
class Result:
    """What a job gave; only `survived` when it was killed."""

    tool: str
    count: int
    paced_ns: list[int] = field(default_factory=list)
    """Each call that came after other work."""
    rushed_ns: list[int] = field(default_factory=list)
    """Each call that came right after the one before."""
    exit_s: float = 0.0
    cpu_s: float = 0.0
    disk_bytes: int = 0
    values: int = 0
    survived: int = -1


@contextmanager
def a_receiver(folder: Path) -> Iterator[str]:
    """An OTLP/HTTP receiver in a process of its own; gives its address."""
    process = subprocess.Popen([sys.executable, HERE / "receiver.py", folder], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run(job: Job, python: str) -> Result:
    """Run a job to its end, or to its kill.

    Raises RuntimeError with the last words of a worker that failed.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        folder, result, log = (Path(scratch, name) for name in ("run", "result.json", "log"))
        folder.mkdir()
        if job.tool == "otel-gauge" and job.kill:
            (folder / "received").mkdir()
        listens = job.tool in ("otel-gauge", "glideslope-sending")
        with a_receiver(folder / "received") as receiver:
            endpoint = receiver if listens else "http://127.0.0.1:9"
            told = asdict(job) | {"folder": str(folder), "result": str(result), "endpoint": endpoint}
            with log.open("wb") as said:
                command = [python, HERE / "worker.py", json.dumps(told)]
                worker = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
                status, cpu, ended = _reap(worker)
        expected = -signal.SIGKILL if job.kill else 0
        if status != expected:
            raise RuntimeError(f"{job.tool} ended with {status}:\n{log.read_text(errors='replace')[-2000:]}")
        if job.kill:
            return Result(job.tool, job.count, survived=_survived(job, python, folder))
        times = json.loads(result.read_text())
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        spent = max(0.0, cpu - times["cpu_s"])
        paced, rushed, values = times["paced_ns"], times["rushed_ns"], job.count * times["logged"]
        return Result(job.tool, job.count, paced, rushed, ended - times["closing"], spent, size, values)


def _reap(worker: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    """(exit status, CPU seconds of the tree, monotonic time of the worker's end)."""
    others = _children() - {worker.pid}
    _, status, usage = os.wait4(worker.pid, 0)
    ended, cpu = time.monotonic(), usage.ru_utime + usage.ru_stime
    worker.returncode = os.waitstatus_to_exitcode(status)
    deadline = ended + _PATIENCE_S
    while orphans := _children() - others:
        if time.monotonic() > deadline:
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            done, _, usage = os.wait4(pid, os.WNOHANG)
            if done:
                cpu += usage.ru_utime + usage.ru_stime
        time.sleep(0.01)
    return worker.returncode, cpu, ended


def _children() -> set[int]:
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        found |= set(map(int, path.read_text().split()))
    return found


def _survived(job: Job, python: str, folder: Path) -> int:
    command = [python, HERE / "readers.py", job.tool, folder, str(job.count)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise RuntimeError(f"what {job.tool} left cannot be read:\n{told.stderr[-2000:]}")
    return int(told.stdout)
