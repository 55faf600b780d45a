# SPDX-License-Identifier: Apache-2.0
"""The alerts that arrived: checked, without doubles, bounded, and on disk before they are acknowledged.

In: the body of an Alertmanager webhook (version 4). Out: alerts newest first, and whether the Watchdog is heard.
Label and annotation texts are hostile input: they are kept as text, cut to a length, never interpreted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)
_FORMAT = 1
_MAX_TEXTS = 64
_MAX_TEXT = 4096
WATCHDOG = "Watchdog"


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """One alert; the fields are spelt as they travel."""

    fingerprint: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    startsAt: str
    endsAt: str | None
    """None while firing."""
    receivedAt: str
    """When it was first heard of."""
    generatorURL: str = ""


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _instant(value: object, name: str) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a time such as 2030-01-01T00:00:00Z")
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{name} must be a time such as 2030-01-01T00:00:00Z, not {value[:40]!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _texts(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object of texts")
    if len(value) > _MAX_TEXTS:
        raise ValueError(f"{name} may hold at most {_MAX_TEXTS} texts, not {len(value)}")
    for text in value.values():
        if not isinstance(text, str):
            raise ValueError(f"{name} must hold texts only")
    return {key[:_MAX_TEXT]: text[:_MAX_TEXT] for key, text in value.items()}


def parse_alert(entry: object, received: datetime) -> ReceivedAlert:
    """Check one alert of a webhook body; raises ValueError that names the field."""
    if not isinstance(entry, dict):
        raise ValueError("each alert must be an object")
    if entry.get("status") not in ("firing", "resolved"):
        raise ValueError("status must be firing or resolved")
    fingerprint = entry.get("fingerprint")
    if not isinstance(fingerprint, str) or not 0 < len(fingerprint) <= 128:
        raise ValueError("fingerprint must be a text of 1 to 128 characters")
    source = entry.get("generatorURL", "")
    ended = _utc(_instant(entry.get("endsAt"), "endsAt")) if entry["status"] == "resolved" else None
    return ReceivedAlert(
        fingerprint=fingerprint,
        status=entry["status"],
        labels=_texts(entry.get("labels"), "labels"),
        annotations=_texts(entry.get("annotations", {}), "annotations"),
        startsAt=_utc(_instant(entry.get("startsAt"), "startsAt")),
        endsAt=ended,
        receivedAt=_utc(received),
        # Only links that a browser may follow; `javascript:` and the like are dropped.
        generatorURL=source[:_MAX_TEXT]
        if isinstance(source, str) and source.startswith(("http://", "https://"))
        else "",
    )


class AlertBook:
    """Alerts by (fingerprint, startsAt), in memory and in one file that is replaced as a whole."""

    def __init__(
        self,
        path: Path,
        *,
        kept: int = 1000,
        watchdog_timeout_s: float = 90.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read what an earlier server left at `path`; a damaged file is put aside with a warning."""
        self._path = path
        self._kept = kept
        self._watchdog_timeout_s = watchdog_timeout_s
        self._now = now
        self._lock = threading.Lock()
        self._alerts: dict[tuple[str, str], ReceivedAlert] = {}
        self._watchdog: str | None = None
        self._dropped = 0
        self._load()

    def record(self, body: object) -> int:
        """Take a webhook body in and write the book; returns how many alerts it held.

        Raises ValueError for a body that is not a version 4 webhook, and OSError when the book cannot be written: the
        alerts are then in memory, and may be sent again.
        """
        if not isinstance(body, dict) or str(body.get("version")) != "4":
            raise ValueError("this is no Alertmanager webhook of version 4")
        entries = body.get("alerts")
        if not isinstance(entries, list):
            raise ValueError("alerts must be a list")
        now = self._now()
        alerts = [parse_alert(entry, now) for entry in entries]
        with self._lock:
            for alert in alerts:
                if alert.labels.get("alertname") == WATCHDOG:
                    if alert.status == "firing":
                        self._watchdog = _utc(now)
                    continue
                key = (alert.fingerprint, alert.startsAt)
                known = self._alerts.pop(key, None)
                # The newest message wins: an alert that resolved by timeout fires again under the same start.
                self._alerts[key] = replace(alert, receivedAt=known.receivedAt) if known else alert
            self._shrink()
            self._save()
        return len(alerts)

    def snapshot(self) -> dict[str, Any]:
        """Alerts newest first, the Watchdog's state, and how many alerts were forgotten for want of room."""
        with self._lock:
            alerts = sorted(self._alerts.values(), key=lambda alert: (alert.receivedAt, alert.startsAt), reverse=True)
            seen, dropped = self._watchdog, self._dropped
        age = None if seen is None else (self._now() - datetime.fromisoformat(seen)).total_seconds()
        return {
            "alerts": [asdict(alert) for alert in alerts],
            "watchdog": {"lastSeen": seen, "healthy": age is not None and age < self._watchdog_timeout_s},
            "dropped": dropped,
        }

    def _shrink(self) -> None:
        excess = len(self._alerts) - self._kept
        if excess <= 0:
            return
        self._dropped += excess
        oldest = sorted(self._alerts.items(), key=lambda item: (item[1].status == "firing", item[1].receivedAt))
        for key, _ in oldest[:excess]:
            del self._alerts[key]

    def _save(self) -> None:
        content = {
            "format": _FORMAT,
            "alerts": [asdict(alert) for alert in self._alerts.values()],
            "watchdog": self._watchdog,
            "dropped": self._dropped,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self._path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def _load(self) -> None:
        try:
            content = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            self._put_aside(error)
            return
        try:
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']}")
            alerts = [ReceivedAlert(**entry) for entry in content["alerts"]]
            self._alerts = {(alert.fingerprint, alert.startsAt): alert for alert in alerts}
            self._watchdog = content["watchdog"]
            self._dropped = content["dropped"]
        except (KeyError, TypeError, ValueError) as error:
            self._put_aside(error)

    def _put_aside(self, error: Exception) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged")
        _LOG.warning(
            "%s cannot be read (%r): it is kept as %s and the list starts empty", self._path, error, aside.name
        )
        os.replace(self._path, aside)
