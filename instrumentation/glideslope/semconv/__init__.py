# SPDX-License-Identifier: Apache-2.0
"""The registry of every metric, attribute, span and event name: `registry.json`, read once.

In: registry.json beside this file. Out: typed look-ups that refuse unknown names. Imports errors only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from glideslope.errors import SemconvError
from glideslope.semconv.spelling import prometheus_label, prometheus_name

__all__ = [
    "Metric",
    "attribute_names",
    "event_names",
    "jsonnet_names",
    "metric",
    "metric_names",
    "prometheus_label",
    "prometheus_name",
    "promoted_resource_attributes",
    "registry",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the registry."""

    name: str
    instrument: str
    unit: str
    attributes: tuple[str, ...]
    description: str

    @property
    def stored_name(self) -> str:
        """Name in VictoriaMetrics."""
        return prometheus_name(self.name, self.unit, self.instrument)


@cache
def registry() -> dict[str, Any]:
    """The parsed registry; treat it as read-only."""
    parsed: dict[str, Any] = json.loads(files("glideslope.semconv").joinpath("registry.json").read_text("utf-8"))
    return parsed


@cache
def metric(name: str) -> Metric:
    """Look a metric up; raises SemconvError for a name that is not in the registry."""
    try:
        entry = registry()["metrics"][name]
    except KeyError:
        raise SemconvError(f"metric {name!r} is not in semconv/registry.json: add it there first") from None
    return Metric(name, entry["instrument"], entry["unit"], tuple(entry["attributes"]), entry["description"])


def metric_names() -> tuple[str, ...]:
    """Every metric name, sorted."""
    return tuple(sorted(registry()["metrics"]))


def attribute_names() -> tuple[str, ...]:
    """Every attribute name, sorted."""
    return tuple(sorted(registry()["attributes"]))


def event_names() -> tuple[str, ...]:
    """Every event name, sorted."""
    return tuple(sorted(registry()["events"]))


def promoted_resource_attributes() -> tuple[str, ...]:
    """Resource attributes that become labels in VictoriaMetrics."""
    return tuple(registry()["promoted_resource_attributes"])


def jsonnet_names() -> dict[str, dict[str, str]]:
    """Stored spelling of every metric and attribute: the content of dashboards/lib/names.json."""
    return {
        "metrics": {name: metric(name).stored_name for name in metric_names()}
        | {name: name for name in sorted(registry()["scraped"])},
        "attributes": {name: prometheus_label(name) for name in attribute_names()},
    }
