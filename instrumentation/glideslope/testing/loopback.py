# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on loopback that a test can stop at once.

In: a request handler class. Out: a listening server with its own thread. Imports config only.
"""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from glideslope.config import LOOPBACK


class LoopbackServer(ThreadingHTTPServer):
    """Listens from the moment it is made; kept-alive connections do not outlive `stop`."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((LOOPBACK, port), handler)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="glideslope-testing", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        with self._guard:
            return len(self._open)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection and remember it."""
        connection, address = super().get_request()
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no event worth a traceback."""

    def stop(self) -> None:
        """Stop listening, cut every open connection and wait for the handler threads."""
        self.shutdown()
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self.server_close()
        self._thread.join()
