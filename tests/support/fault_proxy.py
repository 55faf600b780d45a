# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that behaves as badly as networks and servers do, and can be told to stop it at any time.

In: the port of a real server. Out: a port that forwards to it, with one of the faults below; counters.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Final, Self

FAULTS: Final = ("pass", "refuse", "silent", "half_open", "slow", "drop_reply", "reset")
"""
pass        forward both ways
refuse      nobody listens; open connections are reset
silent      connections are accepted (and kept) but no byte goes either way
half_open   the first `after` bytes of the client go through, then silence in both directions
slow        one byte a second, both ways
drop_reply  the request goes through, the reply is thrown away and the connection reset
reset       connections are reset after the first bytes
"""
_TICK_S = 0.05
_CHUNK = 1 << 16


class FaultProxy:
    """Forwards connections to `127.0.0.1:upstream`; `fault(name)` changes what happens from now on."""

    def __init__(self, upstream: int, *, port: int = 0) -> None:
        """Listen on `port` (0 takes a free one, kept over outages)."""
        self.port = port
        self.accepted = 0
        """Connections so far."""
        self.lost_replies = 0
        """Replies that were thrown away."""
        self._upstream = upstream
        self._fault = "pass"
        self._after = 0
        self._listener: socket.socket | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._listen()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        """Base URL of the proxied server."""
        return f"http://127.0.0.1:{self.port}"

    def fault(self, name: str, *, after: int = 0) -> None:
        """Begin a fault of `FAULTS`; "pass" heals. Connections that are open feel it too."""
        assert name in FAULTS, name
        with self._lock:
            self._fault, self._after = name, after
            if name == "refuse":
                self._unlisten()
            else:
                self._listen()

    def close(self) -> None:
        """Cut all connections and stop listening."""
        self._done.set()
        with self._lock:
            self._unlisten()
        self._acceptor.join(10)
        for thread in list(self._threads):
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listener.settimeout(_TICK_S)
            self.port = self._listener.getsockname()[1]

    def _unlisten(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        while not self._done.is_set():
            listener = self._listener
            if listener is None:
                time.sleep(_TICK_S)
                continue
            try:
                client, _ = listener.accept()
            except OSError:
                continue
            self.accepted += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.add(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream), 5)
            self._forward(client, server)
        except OSError:
            pass
        finally:
            # A reset instead of a clean end: what was on its way is gone.
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            if server is not None:
                server.close()
            self._threads.discard(threading.current_thread())

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        came = 0
        while not self._done.is_set():
            fault = self._fault
            if fault == "refuse":
                return
            held = fault == "silent" or (fault == "half_open" and came >= self._after)
            if held:
                time.sleep(_TICK_S)
                continue
            ready, _, _ = select.select([client, server], [], [], _TICK_S)
            for source in ready:
                limit = 1 if fault == "slow" else _CHUNK
                if fault == "half_open" and source is client:
                    limit = min(limit, self._after - came)
                data = source.recv(limit) if limit > 0 else b""
                if limit > 0 and not data:
                    return
                if fault == "reset":
                    return
                if source is server and fault == "drop_reply":
                    self.lost_replies += 1
                    return
                came += len(data) if source is client else 0
                (server if source is client else client).sendall(data)
            if fault == "slow" and ready:
                self._done.wait(1.0)
