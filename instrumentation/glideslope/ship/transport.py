# SPDX-License-Identifier: Apache-2.0
"""One OTLP/HTTP request: protobuf, zstd, keep-alive, bounded in time.

In: signal and body. Out: an `Answer`; nothing is raised. Imports config and `deadline`.
"""

from __future__ import annotations

import email.utils
import http.client
import time
from collections.abc import Mapping
from typing import NamedTuple

import urllib3
import zstandard

from glideslope._version import __version__
from glideslope.config import Export
from glideslope.ship.deadline import bounded_pool, until

PATHS: Mapping[str, str] = {"metrics": "/v1/metrics", "traces": "/v1/traces", "logs": "/v1/logs"}
CONNECT_S = 1.0
READ_S = 10.0
_REPLY_BYTES = 64 << 10
EPOCH_HEADER = "Glideslope-Store-Epoch"
"""Names the life of the metrics store behind the receiver: another text means that the store was restarted."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    """HTTP status; 0 when there was no answer."""
    message: str
    """Reason for people: text of the reply, or the error."""
    retry_after_s: float | None = None
    rejected: int = 0
    """Points, spans or logs that the receiver refused inside a 2xx (OTLP partial success)."""
    epoch: str = ""
    """The life of the metrics store behind the receiver; empty when the receiver does not say."""


class Transport:
    """Posts compressed bodies to one OTLP/HTTP receiver; as many kept-alive connections as requests in flight."""

    def __init__(self, export: Export, paths: Mapping[str, str] = PATHS, connections: int = 8) -> None:
        """`paths` maps a signal to what is appended to the endpoint."""
        self._urls = {signal: export.endpoint.rstrip("/") + path for signal, path in paths.items()}
        self._headers = {
            **export.headers,
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "zstd",
            "User-Agent": f"glideslope/{__version__}",
        }
        self._pool = bounded_pool(
            num_pools=1,
            maxsize=connections,
            retries=False,
            ca_certs=export.certificate or None,
            cert_reqs="CERT_REQUIRED",
        )
        self._compressor = zstandard.ZstdCompressor(level=1)

    def compress(self, body: bytes) -> bytes:
        """Compress a body the way `post` announces it."""
        return self._compressor.compress(body)

    def post(self, signal: str, body: bytes, read_s: float = READ_S) -> Answer:
        """Post a compressed body; the whole exchange takes at most about `read_s` seconds, whatever the server does."""
        read_s = max(0.05, read_s)
        timeout = urllib3.Timeout(connect=CONNECT_S, total=read_s)
        try:
            with until(time.monotonic() + read_s):
                reply = self._pool.request(
                    "POST",
                    self._urls[signal],
                    body=body,
                    headers=self._headers,
                    timeout=timeout,
                    redirect=False,
                    preload_content=False,
                )
                content = reply.read(_REPLY_BYTES)
            if len(content) >= _REPLY_BYTES:
                # Perhaps an endless reply: the connection is of no use any more.
                reply.close()
            reply.release_conn()
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            return Answer(0, _reason(error))
        epoch = reply.headers.get(EPOCH_HEADER, "")[:200]
        retry_after = retry_after_s(reply.headers.get("Retry-After", ""))
        if 200 <= reply.status < 300:
            rejected, message = partial_success(content)
            return Answer(reply.status, message, retry_after, rejected, epoch)
        text = content[:200].decode("utf-8", "replace")
        printable = "".join(c if c.isprintable() else " " for c in text).strip()
        return Answer(reply.status, f"HTTP {reply.status} {printable}".strip(), retry_after, 0, epoch)

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None or isinstance(error.__context__, OSError):
        error = error.__cause__ or error.__context__ or error
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
    return f"{type(error).__name__}: {error}"[:200]


def retry_after_s(text: str) -> float | None:
    """Seconds of a Retry-After header (a number or an HTTP date); None when there is none or it cannot be read."""
    text = text.strip()
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        moment = email.utils.parsedate_tz(text)
        return None if moment is None else max(0.0, email.utils.mktime_tz(moment) - time.time())


def partial_success(content: bytes) -> tuple[int, str]:
    """(rejected, message) of an Export…ServiceResponse; (0, "") for anything that cannot be read.

    All three signals share the layout: field 1 partial_success {1: rejected, varint; 2: error_message}.
    """
    outer = _fields(content)
    inner = outer.get(1)
    if not isinstance(inner, bytes):
        return 0, ""
    fields = _fields(inner)
    rejected, message = fields.get(1, 0), fields.get(2, b"")
    return (
        rejected if isinstance(rejected, int) else 0,
        message.decode("utf-8", "replace") if isinstance(message, bytes) else "",
    )


def _fields(data: bytes) -> dict[int, int | bytes]:
    """Varint and length-delimited fields of a protobuf message, up to the first thing that is neither."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if at < 0 or key & 7 not in (0, 2):
            break
        if key & 7 == 2:
            if at + value > len(data):
                break
            found[key >> 3] = data[at : at + value]
            at += value
        else:
            found[key >> 3] = value
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at < 0 or at >= len(data):
            return 0, -1
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, -1
