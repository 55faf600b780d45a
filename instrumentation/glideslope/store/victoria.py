# SPDX-License-Identifier: Apache-2.0
"""A client of VictoriaMetrics, complete enough to stand alone: write, query, export, list, delete.

In: MetricsQL, series, OTLP bodies. Out: samples and series as dataclasses. Times are Unix seconds (float), as in the
Prometheus API; exported timestamps are Unix milliseconds (int), as VictoriaMetrics stores them. Imports errors only.

    with Victoria("http://127.0.0.1:8428") as live:
        for sample in live.query('train_loss{run_id="r1"}'):
            print(sample.labels["dist_rank"], sample.value)
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glideslope.errors import StoreError
from glideslope.store.connection import StoreClient

__all__ = ["Sample", "Series", "Victoria", "quote"]

_IGNORED = re.compile(r'^vm_rows_ignored_total\{.*?reason="([^"]+)".*?\} ([0-9.e+]+)$', re.MULTILINE)
_CHUNK = 1 << 18
_AHEAD_S = 366 * 86_400


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of one series at one instant; a scalar has no labels."""

    labels: Mapping[str, str]
    time_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels (`__name__` among them) and its samples, oldest first."""

    labels: Mapping[str, str]
    timestamps_ms: tuple[int, ...]
    values: tuple[float, ...]
    """NaN stands for a staleness marker."""

    def __len__(self) -> int:
        return len(self.values)


def quote(text: str) -> str:
    """Quote a label value for a selector: `f"train_loss{{run_id={quote(run)}}}"` is safe for any `run`."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Victoria(StoreClient):
    """A single-node VictoriaMetrics, or anything that speaks its HTTP API."""

    name = "VictoriaMetrics"

    def query(
        self, expression: str, *, time_s: float | None = None, step_s: float | None = None, latency_offset_s: float = 0
    ) -> list[Sample]:
        """Evaluate a MetricsQL expression at one instant (default now).

        `step_s` is how far back a sample may lie to count as current (VictoriaMetrics: 5 minutes). `latency_offset_s`
        hides that many newest seconds; 0 shows everything that was stored. Raises StoreError for a bad expression.
        """
        # Without a time VictoriaMetrics takes the last whole second, which hides samples newer than that.
        at = time.time() if time_s is None else time_s
        form = {"query": expression, "time": at, "step": _seconds(step_s), "latency_offset": _offset(latency_offset_s)}
        data = self._data("api/v1/query", form)
        if data["resultType"] in ("scalar", "string"):
            at, text = data["result"]
            return [Sample({}, float(at), float(text))]
        return [Sample(entry["metric"], float(entry["value"][0]), float(entry["value"][1])) for entry in data["result"]]

    def query_range(
        self, expression: str, start_s: float, end_s: float, step_s: float, *, latency_offset_s: float = 0
    ) -> list[Series]:
        """Evaluate a MetricsQL expression at `start_s`, `start_s + step_s`, … up to `end_s`.

        Raises StoreError for a bad expression, or for more points than the server's `-search.maxPointsPerTimeseries`.
        """
        form = {
            "query": expression,
            "start": start_s,
            "end": end_s,
            "step": _seconds(step_s),
            "latency_offset": _offset(latency_offset_s),
        }
        return [
            Series(
                entry["metric"],
                tuple(round(float(at) * 1000) for at, _ in entry["values"]),
                tuple(float(text) for _, text in entry["values"]),
            )
            for entry in self._data("api/v1/query_range", form)["result"]
        ]

    def series(
        self,
        matchers: str | Sequence[str],
        *,
        start_s: float | None = None,
        end_s: float | None = None,
        limit: int | None = None,
    ) -> list[dict[str, str]]:
        """List the label sets of all series that match any selector; give a time range, VictoriaMetrics takes one day
        otherwise."""
        form = {"match[]": _list(matchers), "start": start_s, "end": end_s, "limit": limit}
        found: list[dict[str, str]] = self._data("api/v1/series", form)
        return found

    def labels(
        self, matchers: str | Sequence[str] = (), *, start_s: float | None = None, end_s: float | None = None
    ) -> list[str]:
        """List label names, of the matching series if selectors are given."""
        found: list[str] = self._data("api/v1/labels", {"match[]": _list(matchers), "start": start_s, "end": end_s})
        return found

    def label_values(
        self,
        label: str,
        matchers: str | Sequence[str] = (),
        *,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> list[str]:
        """List the values of a label (`__name__` for metric names), of the matching series if selectors are given."""
        if not label or "/" in label:
            raise StoreError(f"{label!r} is no label name")
        found: list[str] = self._data(
            f"api/v1/label/{label}/values", {"match[]": _list(matchers), "start": start_s, "end": end_s}
        )
        return found

    def export(
        self,
        matchers: str | Sequence[str],
        *,
        start_s: float | None = None,
        end_s: float | None = None,
        max_rows_per_line: int | None = None,
    ) -> Iterator[Series]:
        """Yield the raw samples of every matching series as they arrive: as stored, no lookback, no latency offset.

        Values that share a block keep about 12 significant digits of the largest. A series with more than
        `max_rows_per_line` samples comes in several pieces. Memory holds one piece at a time.
        """
        form = {
            "match[]": _list(matchers),
            "start": start_s,
            # Without an end VictoriaMetrics takes the last whole second.
            "end": time.time() + _AHEAD_S if end_s is None else end_s,
            "max_rows_per_line": max_rows_per_line,
        }
        for line in self._connection.json_lines("POST", "api/v1/export", form=form):
            values = tuple(math.nan if value is None else float(value) for value in line["values"])
            yield Series(line["metric"], tuple(line["timestamps"]), values)

    def import_lines(self, series: Iterable[Series]) -> int:
        """Write series, streamed; returns how many samples were sent. NaN is not stored: end marks travel by OTLP.

        Samples outside the retention are ignored by VictoriaMetrics without an error: compare `rows_ignored`.
        """
        sent = 0

        def chunks() -> Iterator[bytes]:
            nonlocal sent
            buffer = bytearray()
            for one in series:
                if "__name__" not in one.labels:
                    raise StoreError(f"a series without a __name__ label cannot be stored: {dict(one.labels)}")
                if len(one.values) != len(one.timestamps_ms):
                    raise StoreError(
                        f"{one.labels['__name__']}: {len(one.values)} values, {len(one.timestamps_ms)} timestamps"
                    )
                sent += len(one.values)
                line = {
                    "metric": dict(one.labels),
                    "values": [_json_number(value) for value in one.values],
                    "timestamps": one.timestamps_ms,
                }
                buffer += json.dumps(line, separators=(",", ":")).encode() + b"\n"
                if len(buffer) >= _CHUNK:
                    yield bytes(buffer)
                    buffer.clear()
            yield bytes(buffer)

        self._connection.request("POST", "api/v1/import", body=chunks())
        return sent

    def write_otlp(self, body: bytes, *, encoding: str = "identity") -> None:
        """Write an OTLP ExportMetricsServiceRequest (protobuf bytes); `encoding` is identity, gzip or zstd.

        Raises StoreError: status 400 means the body is malformed and must not be sent again, 503 means try again.
        """
        headers = {"Content-Type": "application/x-protobuf"}
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        self._connection.request("POST", "opentelemetry/v1/metrics", body=body, headers=headers)

    def delete_series(self, matchers: str | Sequence[str]) -> None:
        """Delete every sample of the matching series, for good. An empty selector is refused."""
        selectors = _list(matchers)
        if not selectors or any(not selector.strip() or selector.strip() == "{}" for selector in selectors):
            raise StoreError("say which series to delete: an empty selector would match all of them")
        self._connection.request("POST", "api/v1/admin/tsdb/delete_series", form={"match[]": selectors})

    def flush(self) -> None:
        """Make everything that was written visible to queries now, instead of within a second or so."""
        self._connection.request("GET", "internal/force_flush")

    def rows_ignored(self) -> dict[str, float]:
        """Samples that VictoriaMetrics accepted with status 200 and then threw away, by reason, since it started.

        Counted about a second after they were written.
        """
        page = self._connection.request("GET", "metrics").text
        return {reason: float(count) for reason, count in _IGNORED.findall(page) if float(count)}

    def health(self) -> bool:
        """True when the server says it is healthy; raises StoreError when it cannot be reached."""
        return self._connection.request("GET", "health").text.strip() == "OK"

    def _data(self, path: str, form: Mapping[str, Any]) -> Any:
        answer = self._connection.json("POST", path, form=form)
        if not isinstance(answer, dict) or answer.get("status") != "success" or "data" not in answer:
            raise StoreError(f"VictoriaMetrics at {self.url} answered {path} without data: is it VictoriaMetrics?")
        return answer["data"]


def _list(matchers: str | Sequence[str]) -> list[str]:
    return [matchers] if isinstance(matchers, str) else list(matchers)


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{round(value * 1000)}ms"


def _json_number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _offset(latency_offset_s: float) -> str:
    # VictoriaMetrics refuses 0 here, though its flag -search.latencyOffset accepts it.
    return f"{max(1, round(latency_offset_s * 1000))}ms"
