# SPDX-License-Identifier: Apache-2.0
"""HTTP connections that keep one deadline for a whole exchange.

In: a point in time per thread. Out: a urllib3 pool. Imports nothing of glideslope.
urllib3's read timeout begins anew with each received piece, so a server that sends one byte now and then defeats it.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_limit = threading.local()


@contextmanager
def until(deadline: float) -> Iterator[None]:
    """Everything that this thread does on a bounded connection inside ends at `deadline` (monotonic) at the latest."""
    _limit.deadline = deadline
    try:
        yield
    finally:
        del _limit.deadline


def _left() -> float:
    left = float(_limit.deadline) - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _File(io.RawIOBase):
    """What a reply is read from; each piece gets what is left of the time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # Keeps the socket open until the reply was read, as http.client expects.
        self._raw = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._socket.settimeout(_left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Readable:
    """Stands for the socket where http.client makes a file of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_File(self._socket))


def _response(connection: socket.socket, *args: Any, **settings: Any) -> HTTPResponse:
    return HTTPResponse(_Readable(connection), *args, **settings)  # type: ignore[arg-type]


class _Bounded:
    """Mixed into urllib3's connections: sending, waiting and reading share the deadline."""

    sock: socket.socket | None

    def send(self, data: Any) -> None:
        """Send a piece; `sendall` takes the timeout as a bound of the whole."""
        if self.sock is not None:
            self.sock.settimeout(_left())
        super().send(data)  # type: ignore[misc]


class _Http(_Bounded, HTTPConnection):
    response_class = staticmethod(_response)  # type: ignore[assignment]


class _Https(_Bounded, HTTPSConnection):
    response_class = staticmethod(_response)  # type: ignore[assignment]


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


def bounded_pool(**settings: Any) -> urllib3.PoolManager:
    """Make a pool whose connections work inside `until` only; `settings` as for urllib3.PoolManager."""
    pool = urllib3.PoolManager(**settings)
    pool.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return pool
