# SPDX-License-Identifier: Apache-2.0
"""A client of Alertmanager's API v2: alerts and silences.

Times are timezone-aware datetimes. Imports errors only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from glideslope.errors import StoreError
from glideslope.store.connection import StoreClient

__all__ = ["Alert", "Alertmanager", "Matcher", "Silence"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label: `name = value`, or by regular expression, or negated."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    fingerprint: str = ""
    state: str = ""
    """`active`, `suppressed` or `unprocessed`."""
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Silence:
    """One silence."""

    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    created_by: str
    comment: str
    silence_id: str = ""
    state: str = ""
    """`active`, `pending` or `expired`."""


class Alertmanager(StoreClient):
    """A single Alertmanager."""

    name = "Alertmanager"

    def alerts(
        self, filters: Sequence[str] = (), *, active: bool = True, silenced: bool = True, inhibited: bool = True
    ) -> list[Alert]:
        """List alerts; `filters` are matchers such as `run_id="r1"`."""
        params = {"filter": list(filters), "active": active, "silenced": silenced, "inhibited": inhibited}
        return [
            Alert(
                labels=entry["labels"],
                annotations=entry["annotations"],
                starts_at=_read(entry["startsAt"]),
                ends_at=_read(entry["endsAt"]),
                fingerprint=entry["fingerprint"],
                state=entry["status"]["state"],
                silenced_by=tuple(entry["status"]["silencedBy"]),
                inhibited_by=tuple(entry["status"]["inhibitedBy"]),
            )
            for entry in self._connection.json("GET", "api/v2/alerts", params=params)
        ]

    def send(self, alerts: Iterable[Alert]) -> None:
        """Hand alerts over, as a rule evaluator does; one whose `ends_at` has passed is resolved."""
        body = []
        for alert in alerts:
            entry: dict[str, Any] = {"labels": dict(alert.labels), "annotations": dict(alert.annotations)}
            if alert.starts_at is not None:
                entry["startsAt"] = _write(alert.starts_at)
            if alert.ends_at is not None:
                entry["endsAt"] = _write(alert.ends_at)
            body.append(entry)
        self._connection.send_json("POST", "api/v2/alerts", body)

    def silences(self, filters: Sequence[str] = ()) -> list[Silence]:
        """List silences, expired ones too; `filters` are matchers such as `run_id="r1"`."""
        return [
            Silence(
                matchers=tuple(
                    Matcher(m["name"], m["value"], m["isRegex"], m.get("isEqual", True)) for m in entry["matchers"]
                ),
                starts_at=_read(entry["startsAt"]),
                ends_at=_read(entry["endsAt"]),
                created_by=entry["createdBy"],
                comment=entry["comment"],
                silence_id=entry["id"],
                state=entry["status"]["state"],
            )
            for entry in self._connection.json("GET", "api/v2/silences", params={"filter": list(filters)})
        ]

    def create_silence(self, silence: Silence) -> str:
        """Create a silence, or change the one with its id; returns the id.

        Raises StoreError for a silence without matchers, or one that ends before it starts.
        """
        if not silence.matchers:
            raise StoreError("a silence without matchers would mute every alert: name at least one label")
        if silence.ends_at <= silence.starts_at:
            raise StoreError(f"a silence must end after it starts: {silence.starts_at} .. {silence.ends_at}")
        body = {
            "matchers": [
                {"name": m.name, "value": m.value, "isRegex": m.is_regex, "isEqual": m.is_equal}
                for m in silence.matchers
            ],
            "startsAt": _write(silence.starts_at),
            "endsAt": _write(silence.ends_at),
            "createdBy": silence.created_by,
            "comment": silence.comment,
        }
        if silence.silence_id:
            body["id"] = silence.silence_id
        return str(self._connection.send_json("POST", "api/v2/silences", body).json()["silenceID"])

    def expire_silence(self, silence_id: str) -> None:
        """End a silence now."""
        if not silence_id or "/" in silence_id:
            raise StoreError(f"{silence_id!r} is no silence id")
        self._connection.request("DELETE", f"api/v2/silence/{silence_id}")

    def health(self) -> bool:
        """True when the server says it is healthy; raises StoreError when it cannot be reached."""
        return self._connection.request("GET", "-/healthy").status_code == 200


def _write(time: datetime) -> str:
    if time.tzinfo is None:
        raise StoreError(f"{time} has no time zone: pass for example datetime.now(UTC)")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)
