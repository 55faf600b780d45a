# SPDX-License-Identifier: Apache-2.0
"""An OTLP/HTTP receiver that acknowledges at once; a process of its own, so that it takes no time of the tool's.

In: a folder. Out: its port on the first line of output; metrics bodies as files in the folder when it exists (one that
is not there is not made: then bodies are dropped). Imports the standard library only.
"""

import itertools
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = Path(sys.argv[1])
    numbers = itertools.count()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/metrics" and self.folder.is_dir():
            (self.folder / f"{next(self.numbers):06d}").write_bytes(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
