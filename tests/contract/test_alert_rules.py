# SPDX-License-Identifier: Apache-2.0
"""Every alert has what an on-call person needs, is tested both ways by vmalert-tool, and reaches a receiver."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rjsonnet
import yaml

from glideslope import semconv
from glideslope.config import Home, Ports
from glideslope.stack.assets import stack_root
from glideslope.stack.binaries import ensure
from glideslope.stack.recipes import recipe
from glideslope.stack.settings import fill, variables

ALERTS = Path(str(stack_root())) / "alerts"
GROUPS: list[dict[str, Any]] = yaml.safe_load((ALERTS / "generated" / "alerts.yaml").read_text("utf-8"))["groups"]
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
THRESHOLDS: dict[str, dict[str, Any]] = json.loads(
    rjsonnet.evaluate_snippet("thresholds", f"(import '{ALERTS / 'thresholds.libsonnet'}')._config.thresholds")
)
ATTRIBUTES = set(semconv.attribute_names())
UNIT_TESTS = sorted((ALERTS / "tests").glob("*.yaml"))


def program(name: str) -> str:
    return str(ensure(recipe(name), Home.from_env()))


def told(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def expectations() -> Iterator[tuple[str, bool]]:
    """(alert, whether it is expected to fire) of every expectation in the unit tests."""
    for path in UNIT_TESTS:
        for test in yaml.safe_load(path.read_text("utf-8"))["tests"]:
            for expected in test["alert_rule_test"]:
                yield expected["alertname"], bool(expected["exp_alerts"])


def panel_titles() -> set[str]:
    """Titles of the dashboards and of all their panels."""
    pages = [
        json.loads(path.read_text("utf-8")) for path in (ALERTS.parent / "dashboards" / "generated").glob("*.json")
    ]
    return {page["title"] for page in pages} | {panel["title"] for page in pages for panel in page["panels"]}


@pytest.fixture
def alertmanager_config(tmp_path: Path) -> Path:
    """The shipped configuration with its variables filled in, as `glideslope up` does."""
    home = Home(tmp_path)
    home.token.write_text("secret")
    text = (ALERTS / "generated" / "alertmanager.yaml").read_text("utf-8")
    filled = tmp_path / "alertmanager.yaml"
    filled.write_text(fill(text, variables(home, Ports()), "alertmanager.yaml"))
    return filled


def test_the_alerts_are_the_documented_ones() -> None:
    assert sorted(RULES) == [
        "CollectorDown",
        "TelemetryDrops",
        "TelemetryLag",
        "TelemetryOverhead",
        "TelemetryReplays",
        "TrainDataStall",
        "TrainFailed",
        "TrainLossSpike",
        "TrainLostContact",
        "TrainNoProgress",
        "TrainNonFinite",
        "Watchdog",
    ]


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_says_how_bad_it_is_what_it_is_and_where_to_read_on(name: str) -> None:
    labels, annotations = RULES[name]["labels"], RULES[name]["annotations"]
    assert labels["severity"] in {"critical", "warning", "info", "none"}
    assert annotations["summary"].endswith(".")
    # A summary is the same for all alerts of a group; what differs between them stands in the description.
    assert "{{" not in annotations["summary"]
    assert annotations["description"].endswith(".")
    assert annotations["runbook_url"] == f"${{URL_SERVER}}/runbooks/{name}"
    if name.startswith("Train"):
        assert "{{ $labels.run_id }} attempt {{ $labels.run_attempt }}" in annotations["description"]
        assert "rank" in annotations["description"]


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_has_a_runbook_that_answers_the_first_questions(name: str) -> None:
    page = (ALERTS / "runbooks" / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {name}\n")
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert headings == [
        "What it means",
        "How it is decided",
        "First three things to check",
        "Infrastructure or user error",
        "What helps",
        "How to silence it",
    ]
    assert "\n3. " in page


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_runbook_names_every_threshold_of_its_alert_and_no_other(name: str) -> None:
    page = (ALERTS / "runbooks" / f"{name}.md").read_text("utf-8")
    section = name.removeprefix("Train")
    section = section[0].lower() + section[1:]
    limits = THRESHOLDS.get(section, {})
    assert limits or name == "Watchdog"
    assert set(re.findall(r"`([a-z]\w+\.[a-zA-Z]+)`", page)) - ATTRIBUTES == {f"{section}.{key}" for key in limits}


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_runbook_points_at_dashboards_and_panels_that_exist(name: str) -> None:
    page = (ALERTS / "runbooks" / f"{name}.md").read_text("utf-8")
    pointed = re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*", page)
    assert pointed
    assert set(pointed) <= panel_titles()


def test_the_runbook_of_dropped_data_explains_every_reason() -> None:
    page = (ALERTS / "runbooks" / "TelemetryDrops.md").read_text("utf-8")
    attributes = semconv.registry()["attributes"]
    known = {*attributes["drop.class"]["values"], *attributes["drop.reason"]["values"]}
    assert {word for word in known if f"`{word}`" not in page} == set()


def test_no_runbook_is_left_of_an_alert_that_is_gone() -> None:
    assert {path.stem for path in (ALERTS / "runbooks").glob("*.md")} == set(RULES)


def test_a_team_overrides_one_threshold_as_the_readme_says() -> None:
    readme = (ALERTS / "README.md").read_text("utf-8")
    (mixin,) = re.findall(r"```jsonnet\n(.*?)```", readme, re.DOTALL)
    text = rjsonnet.evaluate_snippet(
        "team", f"({mixin}).prometheusAlerts".replace("import 'dashboards", f"import '{ALERTS.parent}/dashboards")
    )
    changed = {rule["alert"]: rule for group in json.loads(text)["groups"] for rule in group["rules"]}
    assert {name for name, rule in changed.items() if rule["expr"] != RULES[name]["expr"]} == {"TrainDataStall"}
    assert "> 0.6" in changed["TrainDataStall"]["expr"]


def test_the_readme_lists_every_alert_with_its_severity() -> None:
    table = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ALERTS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert dict(table) == {name: rule["labels"]["severity"] for name, rule in RULES.items()}


def test_every_alert_is_expected_to_fire_and_to_stay_silent() -> None:
    seen = set(expectations())
    assert {name for name, fires in seen if fires} == set(RULES)
    # The watchdog is never silent.
    assert {name for name, fires in seen if not fires} == set(RULES) - {"Watchdog"}


@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.stem)
def test_the_alerts_fire_and_stay_silent_as_they_should(path: Path) -> None:
    told(program("vmalert-tool"), "unittest", "--files", str(path))


def test_a_rule_that_fires_wrongly_fails_its_unit_test(tmp_path: Path) -> None:
    rules = (ALERTS / "generated" / "alerts.yaml").read_text("utf-8")
    broken = rules.replace(
        "(last_over_time(train_telemetry_lag_seconds[30s])) > 30", "(train_telemetry_lag_seconds) > -1"
    )
    assert broken != rules
    for folder in ("generated", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "generated" / "alerts.yaml").write_text(broken)
    test = tmp_path / "tests" / "telemetry.yaml"
    test.write_text((ALERTS / "tests" / "telemetry.yaml").read_text("utf-8"))
    with pytest.raises(AssertionError, match="TelemetryLag"):
        told(program("vmalert-tool"), "unittest", "--files", str(test))


def test_vmalert_accepts_the_rules() -> None:
    told(program("vmalert"), "-dryRun", f"-rule={ALERTS / 'generated' / 'alerts.yaml'}")


def test_alertmanager_accepts_its_configuration(alertmanager_config: Path) -> None:
    assert "SUCCESS" in told(program("amtool"), "check-config", str(alertmanager_config))


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_alert_reaches_the_server(alertmanager_config: Path, name: str) -> None:
    labels = {"alertname": name, **RULES[name]["labels"], "run_id": "r"}
    pairs = [f"{key}={value}" for key, value in labels.items()]
    answer = told(program("amtool"), "config", "routes", "test", f"--config.file={alertmanager_config}", *pairs)
    assert answer.strip() == "glideslope"


def test_an_alert_that_only_informs_reaches_the_server_too(alertmanager_config: Path) -> None:
    told_to = told(
        *(program("amtool"), "config", "routes", "test", f"--config.file={alertmanager_config}"),
        *("alertname=ByHand", "severity=info", "component=data", "run_id=r"),
    )
    assert told_to.strip() == "glideslope"


def routes(config: Path) -> dict[str, Any]:
    route: dict[str, Any] = yaml.safe_load(config.read_text("utf-8"))["route"]
    return route


def test_a_run_is_one_notification_however_many_ranks_it_has(alertmanager_config: Path) -> None:
    assert routes(alertmanager_config)["group_by"] == ["alertname", "run_id"]
    per_rank = [name for name, rule in RULES.items() if "by (run_id, run_attempt, dist_rank)" in rule["expr"]]
    for name in per_rank:
        assert "topk by (run_id, run_attempt) (1," in RULES[name]["expr"] or name == "TrainDataStall"


def test_a_nan_waits_for_no_company_and_the_watchdog_repeats_within_half_a_minute(alertmanager_config: Path) -> None:
    by_matcher = {tuple(route["matchers"]): route for route in routes(alertmanager_config)["routes"]}
    assert by_matcher['severity="critical"', 'component="numerics"']["group_wait"] == "0s"
    assert by_matcher[('alertname="Watchdog"',)]["repeat_interval"] == "30s"
    (numerics,) = [group for group in GROUPS if group["name"] == "numerics"]
    assert numerics["interval"] == "1s"


def test_inhibition_never_compares_a_label_that_both_sides_may_lack(alertmanager_config: Path) -> None:
    # Labels that are missing on both sides count as equal and would mute alerts of unrelated things.
    for rule in yaml.safe_load(alertmanager_config.read_text("utf-8"))["inhibit_rules"]:
        source = rule["source_matchers"][0].split('"')[1]
        assert source.startswith("Train") == bool(rule.get("equal")), rule
