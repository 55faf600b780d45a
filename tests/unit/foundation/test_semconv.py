# SPDX-License-Identifier: Apache-2.0
"""The registry refuses unknown names and spells the known ones."""

import pytest

from glideslope import semconv
from glideslope.errors import SemconvError


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("train.loss", "train_loss"),
        ("train.step.duration", "train_step_duration_seconds"),
        ("train.tokens", "train_tokens_total"),
        ("train.memory.allocated", "train_memory_allocated_bytes"),
        ("train.telemetry.overhead", "train_telemetry_overhead_seconds_total"),
        ("process.memory.usage", "process_memory_usage_bytes"),
    ],
)
def test_metrics_are_spelled_as_victoriametrics_stores_them(name: str, stored: str) -> None:
    assert semconv.metric(name).stored_name == stored


def test_an_unknown_metric_is_refused_with_the_remedy() -> None:
    with pytest.raises(SemconvError, match=r"'train\.los' is not in semconv/registry\.json: add it there first"):
        semconv.metric("train.los")


def test_gauges_never_use_the_unit_that_would_append_ratio() -> None:
    assert [name for name in semconv.metric_names() if semconv.metric(name).unit == "1"] == []


def test_stored_names_do_not_collide() -> None:
    stored = [semconv.metric(name).stored_name for name in semconv.metric_names()]
    assert len(set(stored)) == len(stored)


def test_every_attribute_that_a_metric_span_or_event_uses_is_in_the_registry() -> None:
    known = set(semconv.attribute_names())
    registry = semconv.registry()
    for kind in ("metrics", "spans", "events"):
        for name, entry in registry[kind].items():
            assert set(entry["attributes"]) <= known, name
    assert set(semconv.promoted_resource_attributes()) <= known


def test_every_entry_has_a_description_that_is_a_sentence() -> None:
    registry = semconv.registry()
    for kind in ("metrics", "attributes", "spans", "events"):
        for name, entry in registry[kind].items():
            assert entry["description"].endswith("."), f"{kind} {name}"


def test_labels_stay_within_the_twenty_that_are_promoted() -> None:
    assert len(semconv.promoted_resource_attributes()) <= 20


@pytest.mark.parametrize(
    ("attribute", "label"),
    [("run.id", "run_id"), ("1st", "key_1st"), ("_x", "key_x"), ("__x", "__x"), ("a-b/c", "a_b_c")],
)
def test_labels_are_spelled_as_victoriametrics_stores_them(attribute: str, label: str) -> None:
    assert semconv.prometheus_label(attribute) == label


def test_jsonnet_sees_every_metric_and_attribute() -> None:
    names = semconv.jsonnet_names()
    assert set(semconv.metric_names()) <= set(names["metrics"])
    assert set(names["attributes"]) == set(semconv.attribute_names())
