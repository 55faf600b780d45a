# SPDX-License-Identifier: Apache-2.0
"""Processes of the stack: who they are, who holds a port, how they end.

In: process ids and command lines. Out: identities, exits within a bound. Uses psutil; imports config only.
A process id alone is never trusted: the kernel reuses them, so an identity is the id and the start time.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from glideslope.config import LOOPBACK

_POLL_S = 0.05
_KILL_S = 5.0
# psutil derives the start time from the boot time, which clock corrections move a little.
_START_TOLERANCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for its whole life: its id and when it started (Unix seconds)."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this id now, or None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def process(self) -> psutil.Process | None:
        """The live process, or None when it is gone, a zombie, or another process now has the id."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < _START_TOLERANCE_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None


def start(command: list[str], environment: dict[str, str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a program in `folder`, in its own session, with both streams appended to `log`.

    Raises OSError when it cannot be run.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # Append mode, so that the log can be cut while the program writes to it.
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def stop(identities: Iterable[Identity], patience_s: float) -> list[Identity]:
    """Ask processes to end, wait at most `patience_s` seconds for all of them, kill the rest; returns those killed."""
    alive = _wait([identity for identity in identities if _send(identity, "terminate")], patience_s)
    killed = [identity for identity in alive if _send(identity, "kill")]
    _wait(killed, _KILL_S)
    return killed


def _wait(identities: list[Identity], patience_s: float) -> list[Identity]:
    """Wait until processes are gone; returns those that are not. Their exit codes stay for whoever started them."""
    deadline = time.monotonic() + patience_s
    while True:
        identities = [identity for identity in identities if identity.process() is not None]
        if not identities or time.monotonic() >= deadline:
            return identities
        time.sleep(_POLL_S)


def _send(identity: Identity, method: str) -> bool:
    process = identity.process()
    if process is None:
        return False
    try:
        getattr(process, method)()
    except psutil.Error:
        return False
    return True


def port_is_free(port: int, address: str = LOOPBACK) -> bool:
    """True when a server could bind the port now."""
    with socket.socket() as probe:
        # As servers do, so that closed connections of a stopped program do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def port_holder(port: int) -> str:
    """Say who listens on a port, as well as this user may know: `pid 42 (name)`, or `another process`."""
    try:
        for connection in psutil.net_connections("inet"):
            listens = connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", 0) == port
            if listens and connection.pid:
                return f"pid {connection.pid} ({' '.join(psutil.Process(connection.pid).cmdline())[:120]})"
    except psutil.Error:
        pass
    return "another process"


def tail(log: Path, lines: int = 12, most_bytes: int = 16384) -> str:
    """The last lines of a log file, empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def trim(log: Path, most_bytes: int) -> None:
    """Keep a log bounded: past `most_bytes` it is moved to `<log>.1` by copy and cut, while the program writes on."""
    try:
        if log.stat().st_size <= most_bytes:
            return
        log.with_name(log.name + ".1").write_bytes(log.read_bytes())
        with log.open("r+b") as file:
            file.truncate(0)
    except OSError:
        return
