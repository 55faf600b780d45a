# SPDX-License-Identifier: Apache-2.0
"""The Prometheus spelling of our names, as VictoriaMetrics stores them under `-opentelemetry.usePrometheusNaming`.

In: OpenTelemetry names and UCUM units. Out: strings. The only place that computes them; a stack test compares the
result with what VictoriaMetrics really stores. Rules: VictoriaMetrics `lib/protoparser/opentelemetry` sanitizer.
"""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_UNITS = {
    "s": "seconds",
    "By": "bytes",
    "ms": "milliseconds",
    "W": "watts",
    "Cel": "celsius",
    "Hz": "hertz",
    "J": "joules",
}


def prometheus_label(attribute: str) -> str:
    """Spell an attribute name as a label: every run of other characters becomes one underscore."""
    label = re.sub(r"[^A-Za-z0-9_]", "_", attribute)
    if label[:1].isdigit():
        return "key_" + label
    if label.startswith("_") and not label.startswith("__"):
        return "key" + label
    return label


def prometheus_name(metric: str, unit: str, instrument: str) -> str:
    """Spell a metric name: tokens joined by `_`, then the unit unless already a token, then `total` for counters.

    `unit` is UCUM; `instrument` is `gauge` or `counter`. Units in braces and empty units add nothing.
    """
    tokens = [token for token in _SEPARATORS.split(metric) if token]
    word = _UNITS.get(unit, "" if unit.startswith("{") else unit)
    if word and word not in tokens:
        tokens.append(word)
    if instrument == "counter":
        tokens = [token for token in tokens if token != "total"] + ["total"]
    return "_".join(tokens)
