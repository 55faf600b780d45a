# SPDX-License-Identifier: Apache-2.0
"""Every dashboard keeps the rules that Grafana's own models, its linter and its users ask for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as models

from glideslope.stack.assets import stack_root

FILES = sorted((Path(str(stack_root())) / "dashboards" / "generated").glob("*.json"))
# Panels that show text or rows of a store need no unit.
WITHOUT_UNIT = {"row", "table", "logs", "text", "state-timeline"}

Dashboard = dict[str, Any]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    loaded: Dashboard = json.loads(request.param.read_text("utf-8"))
    return loaded


def panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def lost(source: Any, back: Any, path: str = "") -> Iterator[str]:
    """Places of `source` that `back` does not hold with an equal value."""
    if isinstance(source, dict):
        for key, value in source.items():
            if not isinstance(back, dict) or key not in back:
                # An empty container or null says the same as its absence.
                if value not in ({}, [], None):
                    yield f"{path}.{key}"
            else:
                yield from lost(value, back[key], f"{path}.{key}")
    elif isinstance(source, list):
        if not isinstance(back, list) or len(source) != len(back):
            yield path
        else:
            for index, (one, other) in enumerate(zip(source, back, strict=True)):
                yield from lost(one, other, f"{path}[{index}]")
    elif source != back:
        yield path


def round_trip(source: Dashboard) -> Any:
    register_default_plugins()
    return json.loads(json.dumps(models.Dashboard.from_json(source), cls=JSONEncoder))


def test_there_are_the_four_dashboards() -> None:
    uids = {json.loads(path.read_text())["uid"] for path in FILES}
    assert uids == {"glideslope-run", "glideslope-layers", "glideslope-gpu", "glideslope-telemetry"}


def test_uids_and_titles_are_unique_because_grafana_makes_a_folder_read_only_otherwise() -> None:
    loaded = [json.loads(path.read_text()) for path in FILES]
    for key in ("uid", "title"):
        assert len({one[key] for one in loaded}) == len(loaded)
    assert all(len(one["uid"]) <= 40 for one in loaded)


def test_grafana_s_own_models_lose_nothing_of_it(dashboard: Dashboard) -> None:
    assert list(lost(dashboard, round_trip(dashboard))) == []


@pytest.mark.parametrize(
    ("place", "typo"),
    [(("fieldConfig", "defaults"), "unitt"), (("gridPos",), "ww"), (("options",), "legendd")],
)
def test_a_mistyped_key_would_be_seen(place: tuple[str, ...], typo: str) -> None:
    source = json.loads(next(path for path in FILES if path.stem == "run").read_text())
    target = next(panel for panel in source["panels"] if panel["type"] == "timeseries")
    for key in place:
        target = target[key]
    target[typo] = {"x": 1}
    assert [path for path in lost(source, round_trip(source)) if typo in path]


def test_it_is_classic_json_that_grafana_11_to_13_provision(dashboard: Dashboard) -> None:
    assert 39 <= dashboard["schemaVersion"] <= 41
    assert dashboard["editable"] is False
    assert "id" not in dashboard
    assert "apiVersion" not in dashboard


def test_every_panel_says_what_it_shows(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        assert panel["title"], panel
        if panel["type"] == "row":
            continue
        assert panel.get("description", "").endswith("."), panel["title"]
        assert panel["targets"], panel["title"]
        if panel["type"] not in WITHOUT_UNIT:
            assert panel["fieldConfig"]["defaults"].get("unit"), panel["title"]


def test_panels_have_numbers_and_lie_side_by_side_on_the_grid(dashboard: Dashboard) -> None:
    ids = [panel["id"] for panel in panels(dashboard)]
    assert len(set(ids)) == len(ids)
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken.get((x, y)))
                taken[x, y] = panel["title"]


def test_variables_follow_the_time_range_and_all_stays_short(dashboard: Dashboard) -> None:
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["refresh"] == 2, variable["name"]
            if variable.get("includeAll"):
                assert variable["allValue"] == ".*", variable["name"]


def test_datasources_are_variables_so_that_a_dashboard_fits_any_server(dashboard: Dashboard) -> None:
    names = {variable["name"] for variable in dashboard["templating"]["list"] if variable["type"] == "datasource"}
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            uid = target["datasource"]["uid"]
            assert re.fullmatch(r"\$\{(\w+)\}", uid) and uid[2:-1] in names, (panel["title"], uid)


def test_counters_are_only_shown_as_rates_or_increases(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            for match in re.finditer(r"\b\w+_total\b", target.get("expr", "")):
                before = target["expr"][: match.start()]
                assert re.search(r"(rate|increase|tlast_change_over_time)\($", before), (panel["title"], target["expr"])


def test_xy_charts_carry_the_version_that_keeps_their_options(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "xychart":
            assert panel["pluginVersion"] >= "11.0.0"


def test_annotations_have_both_forms_and_use_their_value_as_time(dashboard: Dashboard) -> None:
    for annotation in dashboard["annotations"]["list"]:
        assert annotation["expr"] == annotation["target"]["expr"]
        assert annotation["useValueForTime"] is True
        assert annotation["step"] and annotation["titleFormat"]


def test_every_dashboard_links_to_the_others(dashboard: Dashboard) -> None:
    linked = {link["url"].split("?")[0] for link in dashboard["links"] if "url" in link}
    assert len(linked) == len(FILES) - 1
