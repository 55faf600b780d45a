# SPDX-License-Identifier: Apache-2.0
"""Whether the process that wrote or ships a spool still lives.

In: a folder. Out: marker files that name a process by id, start time, host and boot; the answer.
Imports nothing of glideslope.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WRITER = "writer.json"
SHIPPER = "shipper.json"
_OTHER_HOST_S = 120.0
"""A writer on another host counts as alive while a file of its spool changed within this time."""


def _started(pid: int) -> str:
    """Start time in clock ticks since boot (proc(5), field 22), or "" where /proc is absent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "started": _started(pid), "host": socket.gethostname(), "boot": _boot()}


def mark(directory: Path, name: str = WRITER) -> None:
    """Write the marker of this process; raises OSError."""
    temporary = directory / f".{name}.{os.getpid()}"
    temporary.write_text(json.dumps(_myself()))
    os.replace(temporary, directory / name)


def claim(directory: Path, name: str = SHIPPER) -> bool:
    """Take the marker unless a living process holds it; raises OSError when the folder cannot be written.

    Of several that try at once one succeeds, where the file system has locks.
    """
    with _alone(directory / f".{name}.lock"):
        if lives(directory, name):
            return False
        mark(directory, name)
        return True


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process or thread at a time; without a lock where the file system has none."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said aloud: a process forked meanwhile has the handle too.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def release(directory: Path, name: str = SHIPPER) -> None:
    """Give a claimed marker back."""
    with contextlib.suppress(OSError):
        (directory / name).unlink(missing_ok=True)


def lives(directory: Path, name: str = WRITER) -> bool:
    """Whether the process of a marker is alive; without a readable marker it is not."""
    try:
        seen = json.loads((directory / name).read_text())
        pid, started, host, boot = int(seen["pid"]), seen["started"], seen["host"], seen["boot"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if host != socket.gethostname():
        return time.time() - last_change(directory) < _OTHER_HOST_S
    if boot != _boot():
        return False
    if started:
        return bool(_started(pid) == started)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def last_change(directory: Path) -> float:
    """Newest modification time in a folder, seconds since the epoch; 0 for an empty one."""
    newest = 0.0
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            with contextlib.suppress(OSError):
                newest = max(newest, path.stat().st_mtime)
    return newest
