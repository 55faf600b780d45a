# SPDX-License-Identifier: Apache-2.0
"""The training side of log records: events of the registry, texts, settings and tags become frames.

In: events of `glideslope.events`. Out: `RECORDS` frames through `append`. Imports events, `frames`, `table`, `text`.
All text is made safe here, before it reaches the disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from glideslope.emit import frames
from glideslope.emit.table import Append, checked_event
from glideslope.emit.text import TEXT_BYTES, safe_body, safe_label
from glideslope.emit.wire import Scalar
from glideslope.events import ConfigLogged, Happened, Severity, TagsChanged, TextLogged

_RECORDS_AT_ONCE = 200


class Notes:
    """Writes log records of one context."""

    def __init__(self, context: int, append: Append) -> None:
        self._context, self._append = context, append

    def happened(self, event: Happened) -> dict[str, Scalar]:
        """Write an event and return its attributes, made safe; raises SemconvError for a name it does not know."""
        checked_event(event.name, event.attributes)
        marks = safe_attributes({key: value for key, value in event.attributes.items() if value != ""})
        body = safe_body(event.body)
        self._write([_record(event.name, event.time_ns, body, event.step, marks, event.severity)])
        return marks

    def text(self, event: TextLogged) -> None:
        """Write a text of at most 64 KiB; a longer one is cut and says so."""
        body = safe_body(event.text, TEXT_BYTES)
        self._write([_record("train.text", event.time_ns, body, event.step, {"metric.name": safe_label(event.name)})])

    def config(self, event: ConfigLogged) -> None:
        """Write one record per key."""
        records = []
        for name, value in event.values.items():
            key, text = safe_label(name), safe_body(_spelled(value))
            marks = {"config.key": key, "config.value": text}
            records.append(_record("train.config", event.time_ns, f"{key} = {text}", None, marks))
        self._write(records)

    def tags(self, event: TagsChanged) -> None:
        """Write one record per tag."""
        records = []
        for change, tags in (("added", event.added), ("removed", event.removed)):
            for tag in map(safe_label, tags):
                marks = {"run.tag": tag, "run.tag.change": change}
                records.append(_record("train.tags", event.time_ns, f"tag {change}: {tag}", None, marks))
        self._write(records)

    def _write(self, records: Sequence[dict[str, Any]]) -> None:
        for first in range(0, len(records), _RECORDS_AT_ONCE):
            some = records[first : first + _RECORDS_AT_ONCE]
            payload = frames.pack_objects(self._context, some, len(some))
            self._append(frames.kind(frames.LOGS, frames.RECORDS), payload)


def safe_attributes(attributes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Make every text of a mapping safe."""
    return {key: safe_label(value) if isinstance(value, str) else value for key, value in attributes.items()}


def _record(
    name: str,
    time_ns: int,
    body: str,
    step: float | None,
    attributes: Mapping[str, Scalar],
    severity: Severity = Severity.INFO,
) -> dict[str, Any]:
    known = None if step is None or not math.isfinite(step) else step
    return {
        "name": name,
        "time": time_ns,
        "body": body,
        "severity": int(severity),
        "step": known,
        "attributes": dict(attributes),
    }


def _spelled(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
