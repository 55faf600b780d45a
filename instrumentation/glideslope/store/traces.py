# SPDX-License-Identifier: Apache-2.0
"""A client of Jaeger's query API (VictoriaTraces answers the same under `/select/jaeger`): traces as dataclasses.

Times are Unix microseconds (int), as Jaeger keeps them. Imports errors only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glideslope.errors import StoreError
from glideslope.store.connection import StoreClient

__all__ = ["Jaeger", "Span", "Trace"]

_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")


@dataclass(frozen=True, slots=True)
class Span:
    """One span of a trace."""

    name: str
    span_id: str
    parent_id: str
    """Empty for a root."""
    start_us: int
    duration_us: int
    tags: Mapping[str, str | int | float | bool]
    service: str
    resource: Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Trace:
    """All spans that share a trace id, by start time."""

    trace_id: str
    spans: tuple[Span, ...]


class Jaeger(StoreClient):
    """Jaeger's HTTP query service."""

    name = "Jaeger"

    def trace(self, trace_id: str) -> Trace | None:
        """Return one trace by its id in hex, or None when the store does not have it (yet)."""
        if not _TRACE_ID.fullmatch(trace_id):
            raise StoreError(f"{trace_id!r} is no trace id: write up to 32 hexadecimal digits")
        response = self._connection.request("GET", f"api/traces/{trace_id}", accept=(404,))
        if response.status_code == 404:
            return None
        traces = _traces(response.json())
        return traces[0] if traces else None

    def services(self) -> list[str]:
        """List the names of the services that sent spans."""
        return sorted(self._connection.json("GET", "api/services").get("data") or [])

    def find(
        self,
        service: str,
        *,
        operation: str | None = None,
        tags: Mapping[str, str] | None = None,
        start_us: int | None = None,
        end_us: int | None = None,
        min_duration_us: int | None = None,
        limit: int = 20,
    ) -> list[Trace]:
        """Find traces with a span of `service` that matches everything given; the newest `limit` of them."""
        params = {
            "service": service,
            "operation": operation,
            "tags": json.dumps(dict(tags)) if tags else None,
            "start": start_us,
            "end": end_us,
            "minDuration": None if min_duration_us is None else f"{min_duration_us}us",
            "limit": limit,
        }
        return _traces(self._connection.json("GET", "api/traces", params=params))

    def health(self) -> bool:
        """True when the query service answers; raises StoreError when it cannot be reached."""
        return self._connection.request("GET", "api/services").status_code == 200


def _tags(entries: Any) -> dict[str, str | int | float | bool]:
    return {entry["key"]: entry["value"] for entry in entries or []}


def _traces(answer: Any) -> list[Trace]:
    traces = []
    for entry in answer.get("data") or []:
        processes = entry.get("processes") or {}
        spans = []
        for span in entry["spans"]:
            process = processes.get(span.get("processID"), {})
            parents = [
                reference["spanID"]
                for reference in span.get("references") or []
                if reference.get("refType") == "CHILD_OF" and reference.get("traceID") == span["traceID"]
            ]
            spans.append(
                Span(
                    name=span["operationName"],
                    span_id=span["spanID"],
                    parent_id=parents[0] if parents else "",
                    start_us=int(span["startTime"]),
                    duration_us=int(span["duration"]),
                    tags=_tags(span.get("tags")),
                    service=process.get("serviceName", ""),
                    resource=_tags(process.get("tags")),
                )
            )
        traces.append(Trace(entry["traceID"], tuple(sorted(spans, key=lambda span: (span.start_us, span.span_id)))))
    return traces
