# SPDX-License-Identifier: Apache-2.0
"""Frames, spools, an encoder that needs no OTLP, and servers that misbehave below HTTP."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from glideslope.config import Export
from glideslope.ship.reader import SpoolReader
from glideslope.ship.spool import SpoolWriter
from glideslope.testing import OtlpReceiver

DEFINE, VALUES = 0x01, 0x02


class Sent(NamedTuple):
    signal: str
    body: bytes
    points: int


def frame(number: int, size: int = 8, context: int = 1, count: int = 1) -> bytes:
    return struct.pack("<IIQ", context, count, number) + bytes(size - 8)


def number_of(payload: bytes) -> int:
    return int(struct.unpack_from("<Q", payload, 8)[0])


class Kit:
    frame, number_of = staticmethod(frame), staticmethod(number_of)
    DEFINE, VALUES, LAYERS, TRACES, LOGS = DEFINE, VALUES, 0x12, 0x24, 0x35

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run" / "0" / "rank0-1"

    def writer(self, **settings: Any) -> SpoolWriter:
        return SpoolWriter(self.folder, **({"quota_bytes": 1 << 30} | settings))

    def reader(self, live: bool = False) -> SpoolReader:
        return SpoolReader(self.folder, live=lambda: live)

    def numbers(self, reader: SpoolReader | None = None, max_bytes: int = 1 << 20) -> list[int]:
        reader = reader or self.reader()
        found: list[int] = []
        before = None
        while reader.position != before:
            before = reader.position
            found += [number_of(r.payload) for r in reader.read(max_bytes) if r.kind & 15 != 1]
        return found

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.seg"))


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def export(receiver: OtlpReceiver) -> Export:
    return Export(endpoint=receiver.endpoint)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    def wait(check: Callable[[], Any], timeout_s: float = 15.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (found := check()):
            assert time.monotonic() < deadline, "the condition did not come true"
            time.sleep(0.01)
        return found

    return wait


class RawServer:
    """Accepts connections and hands each to `handle`; below HTTP, so that it can misbehave."""

    def __init__(self, handle: Callable[[socket.socket], None]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.accepted: list[socket.socket] = []
        self._handle = handle
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.accepted.append(connection)
            self._handle(connection)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
        for connection in self.accepted:
            connection.close()


@pytest.fixture
def raw_server() -> Iterator[Callable[[Callable[[socket.socket], None]], RawServer]]:
    made: list[RawServer] = []

    def make(handle: Callable[[socket.socket], None]) -> RawServer:
        made.append(RawServer(handle))
        return made[-1]

    yield make
    for server in made:
        server.close()
