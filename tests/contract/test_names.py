# SPDX-License-Identifier: Apache-2.0
"""A name in a dashboard, an alert, a collector's or a program's config is a name of the registry."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from glideslope import semconv
from glideslope.stack.assets import stack_root

ROOT = Path(str(stack_root()))
REGISTRY = semconv.registry()
METRICS = set(semconv.jsonnet_names()["metrics"].values())
LABELS = set(semconv.jsonnet_names()["attributes"].values()) | set(REGISTRY["scraped_labels"]) | {"__name__"}
# What MetricsQL itself brings, and labels that an expression makes for a legend.
MADE = {"segment"}
WORDS = re.compile(
    r"\b(by|on|ignoring|without|group_left|group_right|and|or|unless|bool|offset|default|limit|inf|nan|keep_metric_names|atan2|if|ifnot)\b",
    re.IGNORECASE,
)


def expressions() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "dashboards" / "generated").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                if target["datasource"]["type"] == "prometheus":
                    yield f"{path.stem}: {panel['title']}", target["expr"]
        for annotation in dashboard["annotations"]["list"]:
            yield f"{path.stem}: {annotation['name']}", annotation["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", variable["definition"]).groups()
                yield f"{path.stem}: variable {variable['name']}", f"count by ({label}) ({selector})"
    rules = yaml.safe_load((ROOT / "alerts" / "generated" / "alerts.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule.get('alert')}", rule["expr"]


def names_of(expression: str) -> tuple[set[str], set[str]]:
    """Metric names and label names of an expression."""
    text = re.sub(r"\$(__)?\w+|\$\{\w+\}", "1", expression)
    labels = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", text))
    for inner in re.findall(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)", text):
        labels |= {word.strip() for word in inner.split(",") if word.strip()}
    text = re.sub(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)", " ", text)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", " ", text)
    text = WORDS.sub(" ", text)
    text = re.sub(r"\b\d[\w.]*\b", " ", text)
    return set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*\()", text)), labels


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_every_metric_and_label_of_an_expression_is_in_the_registry(place: str, expression: str) -> None:
    metrics, labels = names_of(expression)
    assert metrics <= METRICS, place
    assert labels <= LABELS | MADE, place


def test_the_parser_of_this_test_finds_what_it_must() -> None:
    found = names_of(
        'sum by (run_id) (rate(a_total{x="1", y!~"$z"}[$__interval])) / on (q) group_left (w) b > 5m or vector(0)'
    )
    assert found == ({"a_total", "b"}, {"run_id", "x", "y", "q", "w"})


def test_names_for_jsonnet_are_those_of_the_registry() -> None:
    assert json.loads((ROOT / "dashboards" / "lib" / "names.json").read_text()) == semconv.jsonnet_names()


def test_jsonnet_spells_no_metric_by_hand() -> None:
    own = {semconv.metric(name).stored_name for name in semconv.metric_names()}
    for path in [*ROOT.glob("dashboards/**/*.libsonnet"), *ROOT.glob("alerts/**/*.libsonnet")]:
        if "node_modules" not in path.parts:
            assert set(re.findall(r"\w+", path.read_text())) & own == set(), path


def collector_config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "collectors" / "otelcol" / "local.yaml").read_text())
    return loaded


def test_labels_that_the_scrape_makes_are_in_the_registry() -> None:
    targets = set()
    receivers = collector_config()["receivers"]
    scraped = [receivers[name]["config"]["scrape_configs"] for name in receivers if name.startswith("prometheus")]
    assert len(scraped) == 2
    for job in chain.from_iterable(scraped):
        for rule in job.get("metric_relabel_configs", []) + job.get("relabel_configs", []):
            if "target_label" in rule:
                targets.add(rule["target_label"])
        for static in job.get("static_configs", []):
            targets |= set(static.get("labels", {}))
    assert {target for target in targets if not target.startswith("__")} <= LABELS
