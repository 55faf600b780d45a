# SPDX-License-Identifier: Apache-2.0
"""The viewer in a real browser over real stores: every panel type, variables, links, alerts, runbooks, traces."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

HOSTILE = '<img src=x onerror="window.__hacked=1">&var-x=1'
TRACE_ID = "0123456789abcdef0123456789abcdef"
NUMBERS = {"stat", "gauge", "bargauge", "timeseries", "trend", "xychart", "heatmap", "state-timeline"}
DRAWN = NUMBERS | {"table", "logs", "text"}


COLOURS = """c => {
  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def panel(page: Page, title: str) -> Any:
    return page.locator(f'[data-testid="panel"][data-panel-title="{title}"]')


def test_every_panel_type_shows_its_data(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    found = {state.title: state for state in open_dashboard(viewer_url, "/d/panels", "panels")}
    special = {"Bad ranks", "Nothing here", "Broken query", "Unknown type"}
    wrong = [state for title, state in found.items() if title not in special and state.state != "ok"]
    assert not wrong
    assert {state.type for title, state in found.items() if title not in special} >= DRAWN
    assert not browser_page.evaluate("window.__hacked")
    for title in ("Loss over time", "Loss by step (trend)", "Loss by step", "Gradient norm by layer", "Rank state"):
        painted = panel(browser_page, title).locator("canvas").first.evaluate(COLOURS)
        assert painted > 5, title


def test_states_tell_error_no_data_and_a_proper_nothing_apart(
    viewer_url: str, open_dashboard: Callable[..., Any]
) -> None:
    found = {state.title: state for state in open_dashboard(viewer_url, "/d/panels", "states")}
    assert found["Bad ranks"].state == "ok" and found["Bad ranks"].no_value
    assert found["Nothing here"].state == "nodata"
    assert found["Broken query"].state == "error" and "train_loss" in (found["Broken query"].error or "")
    assert found["Unknown type"].state == "error" and "flamegraph" in (found["Unknown type"].error or "")


def test_variables_come_from_labels_and_go_into_queries_and_the_address(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels?var-run=base&var-run=fork-lr2x", "variables")
    legend = panel(browser_page, "Loss over time").get_by_role("button")
    expect(legend.filter(has_text=re.compile("^base$"))).to_have_count(1)
    expect(legend.filter(has_text=re.compile("^fork-lr2x$"))).to_have_count(1)
    assert legend.filter(has_text="onerror").count() == 0
    assert panel(browser_page, "Loss of base").count() == 1
    assert panel(browser_page, "Loss of fork-lr2x").count() == 1

    selector = browser_page.get_by_test_id("variable-run").get_by_role("combobox")
    selector.click()
    browser_page.get_by_role("option", name="fork-lr2x").click()
    browser_page.keyboard.press("Escape")
    expect(browser_page).to_have_url(re.compile(r"\?var-run=base$"))
    expect(panel(browser_page, "Loss of fork-lr2x")).to_have_count(0)


def test_a_hostile_run_name_is_only_text(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    found = open_dashboard(viewer_url, f"/d/panels?var-run={quote(HOSTILE)}", "hostile")
    assert next(state for state in found if state.title == "Loss over time").state == "ok"
    assert HOSTILE in panel(browser_page, "Loss over time").inner_text()
    assert not browser_page.evaluate("window.__hacked")


def test_the_time_range_and_the_refresh_live_in_the_address(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels?from=now-5m&to=now&refresh=1s", "range")
    assert browser_page.get_by_test_id("controls").get_attribute("data-range") == "Last 5 minutes"
    with browser_page.expect_request(lambda r: "query_range" in r.url and "train_loss" in r.url, timeout=5000):
        pass
    browser_page.get_by_role("button", name=re.compile("Time range selected")).click()
    browser_page.get_by_text("Last 1 hour", exact=True).click()
    expect(browser_page).to_have_url(re.compile(r"from=now-1h&to=now"))


def test_rows_open_and_close(viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page) -> None:
    open_dashboard(viewer_url, "/d/panels", "rows")
    expect(panel(browser_page, "Gradient norm")).to_have_count(0)
    below = panel(browser_page, "Step traces").bounding_box()["y"]
    browser_page.locator('[data-row-title="Closed row"]').click()
    expect(panel(browser_page, "Gradient norm")).to_have_attribute("data-state", "ok")
    assert panel(browser_page, "Step traces").bounding_box()["y"] > below + 200


def test_annotations_stand_at_their_time_and_can_be_switched_off(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels?var-run=fork-lr2x&var-run=base", "annotations")
    marker = panel(browser_page, "Loss over time").get_by_test_id("annotation")
    expect(marker).to_have_count(1)
    expect(marker).to_have_attribute("data-annotation-title", "fork fork-lr2x")
    browser_page.get_by_test_id("annotation-toggle-Forks").locator("label").last.click()
    expect(marker).to_have_count(0)


def test_links_carry_encoded_values_variables_and_time(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels?var-run=base&from=now-15m&to=now", "links")
    table = panel(browser_page, "Checkpoints")
    hrefs = table.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert "/checkpoint/base/500" in hrefs or any(href.startswith("/checkpoint/base/") for href in hrefs)
    assert f"/trace/{TRACE_ID}?var=base" in hrefs
    other = browser_page.get_by_test_id("dashboard-link").get_attribute("href")
    assert other is not None
    assert other.startswith("/d/other?from=now-15m&to=now&") and "var-run=base" in other
    assert panel(browser_page, "Step traces").locator(f'a[href="/trace/{TRACE_ID}"]').count() == 1


def test_thousands_of_series_are_cut_and_the_panel_says_so(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels", "many")
    expect(panel(browser_page, "Too many series").get_by_test_id("panel-capped")).to_have_text("showing 200 of 300")


def test_a_heatmap_of_ten_thousand_series_is_drawn_whole(
    viewer_url: str,
    open_dashboard: Callable[..., Any],
    browser_page: Page,
    record_property: Callable[[str, object], None],
) -> None:
    (state,) = open_dashboard(viewer_url, "/d/big", "big")
    assert state.state == "ok"
    browser_page.wait_for_function("performance.getEntriesByName('heatmap draw').length > 0")
    for name in ("panel 1 data", "heatmap grid", "heatmap draw"):
        took = browser_page.evaluate("n => performance.getEntriesByName(n).map(e => e.duration)", name)
        record_property(f"{name} [ms]", took)
        print(f"{name}: {took} ms")
    assert panel(browser_page, "Ten thousand layers").get_by_test_id("panel-capped").count() == 0


def test_log_lines_show_their_fields_on_click(
    viewer_url: str, open_dashboard: Callable[..., Any], browser_page: Page
) -> None:
    open_dashboard(viewer_url, "/d/panels?var-run=base", "logs")
    lines = panel(browser_page, "Events").get_by_test_id("log-line")
    expect(lines).to_have_count(4)
    bad = lines.filter(has_text="non-finite")
    expect(bad).to_have_attribute("data-level", "error")
    bad.get_by_role("button").click()
    assert bad.locator("a").get_attribute("href") == f"/trace/{TRACE_ID}"


def test_alerts_appear_on_the_list_the_dashboard_and_the_alert_page(
    viewer_url: str, browser_page: Page, send_alert: Callable[..., None]
) -> None:
    browser_page.goto(f"{viewer_url}/alerts")
    send_alert("SampleAlert", run_id="base")
    send_alert("OtherAlert", status="resolved", run_id="fork-lr2x")
    alert = browser_page.locator('[data-testid="alert"][data-alertname="SampleAlert"]')
    expect(alert).to_have_attribute("data-status", "firing", timeout=10_000)
    first = browser_page.get_by_test_id("alert").first
    expect(first).to_have_attribute("data-status", "firing")
    assert "run_id=base" in alert.inner_text()
    assert alert.get_by_test_id("runbook-link").get_attribute("href") == "/runbooks/SampleAlert"
    browser_page.screenshot(path="tests/output/browser/alerts.png", full_page=True)

    browser_page.goto(f"{viewer_url}/")
    expect(browser_page.get_by_test_id("alert-banner")).to_contain_text("SampleAlert")
    expect(browser_page.get_by_test_id("dashboard-card")).to_contain_text(["Every panel type"])
    browser_page.screenshot(path="tests/output/browser/home.png", full_page=True)
    browser_page.goto(f"{viewer_url}/d/panels?var-run=base")
    expect(browser_page.get_by_test_id("alert-banner")).to_contain_text("SampleAlert")
    browser_page.goto(f"{viewer_url}/d/panels?var-run=fork-lr2x")
    expect(browser_page.get_by_test_id("firing-count")).to_have_text("1")
    expect(browser_page.get_by_test_id("alert-banner")).to_have_count(0)


def test_a_runbook_is_shown_and_its_scripts_are_not_run(viewer_url: str, browser_page: Page) -> None:
    browser_page.goto(f"{viewer_url}/runbooks/SampleAlert")
    page = browser_page.get_by_test_id("runbook")
    expect(page.get_by_role("heading", name="Sample alert")).to_be_visible()
    expect(page.locator("table")).to_contain_text("skip it")
    assert page.locator("script").count() == 0
    assert page.get_by_text("bad", exact=True).get_attribute("href") is None
    assert not browser_page.evaluate("window.__hacked")
    browser_page.screenshot(path="tests/output/browser/runbook.png", full_page=True)


@pytest.mark.parametrize(
    "path",
    [f"/trace/{TRACE_ID}", f'/explore?schemaVersion=1&panes={{"t":{{"queries":[{{"query":"{TRACE_ID}"}}]}}}}'],
)
def test_a_trace_shows_both_ranks_nested(viewer_url: str, browser_page: Page, path: str) -> None:
    browser_page.goto(viewer_url + path)
    groups = browser_page.get_by_test_id("trace-group")
    expect(groups).to_have_count(2)
    assert [group.get_attribute("data-group") for group in groups.all()] == ["rank 0 · node-1", "rank 1 · node-1"]
    names = groups.first.get_by_test_id("span").evaluate_all("all => all.map(s => s.dataset.operation)")
    assert names == ["step", "data", "forward", "backward", "optimizer"]
    groups.first.get_by_test_id("span").first.get_by_role("button").click()
    expect(groups.first).to_contain_text("train.step")
    browser_page.screenshot(path="tests/output/browser/trace.png", full_page=True)


def test_unknown_things_get_an_error_that_names_them(viewer_url: str, browser_page: Page) -> None:
    browser_page.goto(f"{viewer_url}/d/nothing")
    expect(browser_page.get_by_role("alert")).to_contain_text("nothing")
    browser_page.goto(f"{viewer_url}/trace/00000000000000000000000000000001")
    expect(browser_page.get_by_role("alert")).to_contain_text("trace")
