# SPDX-License-Identifier: Apache-2.0
"""A client of VictoriaLogs: LogsQL in, log records out, one at a time as they arrive.

Times are Unix nanoseconds (int). Imports errors only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from glideslope.errors import StoreError
from glideslope.store.connection import StoreClient

__all__ = ["LogRecord", "VictoriaLogs"]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One stored log record."""

    time_ns: int
    """0 when the query returned no `_time` field."""
    message: str
    stream: str
    fields: Mapping[str, str]
    """Every other field, as VictoriaLogs spells it, such as `run.id`."""


class VictoriaLogs(StoreClient):
    """A single-node VictoriaLogs."""

    name = "VictoriaLogs"

    def query(
        self, logsql: str, *, start_ns: int | None = None, end_ns: int | None = None, limit: int | None = None
    ) -> Iterator[LogRecord]:
        """Yield the records that match a LogsQL expression, in the order of the store unless the expression sorts.

        `end_ns` is exclusive; `limit` returns the newest so many. Raises StoreError for a bad expression.
        """
        form = {"query": logsql, "start": _stamp(start_ns), "end": _stamp(end_ns), "limit": limit}
        for line in self._connection.json_lines("POST", "select/logsql/query", form=form):
            fields = {name: str(value) for name, value in line.items()}
            time = fields.pop("_time", "")
            message, stream = fields.pop("_msg", ""), fields.pop("_stream", "")
            fields.pop("_stream_id", None)
            yield LogRecord(_nanoseconds(time) if time else 0, message, stream, fields)

    def field_values(
        self, field: str, logsql: str = "*", *, start_ns: int | None = None, end_ns: int | None = None
    ) -> dict[str, int]:
        """Count the records for each value of a field."""
        form = {"query": logsql, "field": field, "start": _stamp(start_ns), "end": _stamp(end_ns)}
        answer: dict[str, Any] = self._connection.json("POST", "select/logsql/field_values", form=form)
        return {entry["value"]: int(entry["hits"]) for entry in answer.get("values", [])}

    def write_otlp(self, body: bytes, *, encoding: str = "identity") -> None:
        """Write an OTLP ExportLogsServiceRequest (protobuf bytes); `encoding` is identity, gzip or zstd."""
        headers = {"Content-Type": "application/x-protobuf"}
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        self._connection.request("POST", "insert/opentelemetry/v1/logs", body=body, headers=headers)

    def flush(self) -> None:
        """Make everything that was written visible to queries now."""
        self._connection.request("GET", "internal/force_flush")

    def health(self) -> bool:
        """True when the server says it is healthy; raises StoreError when it cannot be reached."""
        return self._connection.request("GET", "health").text.strip() == "OK"


def _stamp(time_ns: int | None) -> str | None:
    if time_ns is None:
        return None
    whole = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{time_ns % 1_000_000_000:09d}Z"


def _nanoseconds(text: str) -> int:
    """Read an RFC 3339 time with up to nine decimals; `datetime` would cut it to microseconds."""
    head, _, tail = text.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
        return seconds * 1_000_000_000 + int(tail[:9].ljust(9, "0") if tail else 0)
    except ValueError:
        raise StoreError(f"VictoriaLogs sent a time that cannot be read: {text!r}") from None
