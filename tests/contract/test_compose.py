# SPDX-License-Identifier: Apache-2.0
"""compose/compose.yaml: valid by the loader of `docker compose`, and in step with the native table of programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from glideslope.config import Home, Ports
from glideslope.stack.assets import stack_file
from glideslope.stack.binaries import ensure
from glideslope.stack.programs import PROGRAMS, Place
from glideslope.stack.recipes import RECIPES, recipe
from glideslope.stack.settings import variables

COMPOSE = stack_file("compose", "compose.yaml")
OVERLAY = stack_file("compose", "compose.gpu.yaml")
INSIDE = Place(home=Home(Path("/glideslope")), ports=Ports(), listen="0.0.0.0", root=Path("/stack"))
PASSWORD = "GLIDESLOPE_GRAFANA_PASSWORD_FILE"
# Jaeger's Go module and its images are released together under two numbers.
IMAGE_VERSIONS = {"jaeger": {"1.76.0": "2.13.0"}}


@pytest.fixture(scope="module")
def loader() -> Path:
    return ensure(recipe("compose-spec"), Home.from_env())


def load(loader: Path, *files: Path, password: str = "/secret") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != PASSWORD}
    if password:
        environment[PASSWORD] = password
    return subprocess.run([loader, *files], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(loader: Path) -> dict[str, Any]:
    answer = load(loader, COMPOSE)
    assert answer.returncode == 0, answer.stderr
    loaded: dict[str, Any] = json.loads(answer.stdout)
    return loaded


@pytest.fixture(scope="module")
def services(project: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = project["services"]
    return found


def test_a_missing_password_file_is_named_by_the_error(loader: Path) -> None:
    answer = load(loader, COMPOSE, password="")
    assert answer.returncode != 0
    assert PASSWORD in answer.stderr
    assert "there is no default" in answer.stderr


def test_the_gpu_overlay_fits_the_stack(loader: Path) -> None:
    answer = load(loader, COMPOSE, OVERLAY)
    assert answer.returncode == 0, answer.stderr
    assert "gpu-exporter" in json.loads(answer.stdout)["services"]


# The spool lies with the trainings, outside the containers: with Docker, `glideslope sync --follow` runs on the host.
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "sync"])
def test_each_native_program_is_a_service_with_the_same_command_line(name: str, services: dict[str, Any]) -> None:
    native = PROGRAMS[name].arguments(INSIDE)
    if name == "server":
        native = native[2:]  # `-m glideslope` is the image's entrypoint
    assert services[name]["command"] == native


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.binary])
def test_each_image_has_the_version_of_the_pinned_module(name: str, services: dict[str, Any]) -> None:
    binary = PROGRAMS[name].binary
    version = recipe(binary).version
    tag = services[name]["image"].rpartition(":")[2]
    assert tag.removeprefix("v") == IMAGE_VERSIONS.get(binary, {}).get(version, version)


@pytest.mark.parametrize("entry", list(RECIPES.values()), ids=lambda entry: entry.program)
def test_each_recipe_has_the_version_of_its_go_mod(entry: Any) -> None:
    text = stack_file(*entry.folder.split("/"), "go.mod").read_text("utf-8")
    owner = {"glideslope-collector": "go.opentelemetry.io/collector/otelcol", "compose-spec": "compose-go/v2"}
    module = owner.get(entry.program) or entry.package.split("/app/")[0].split("/cmd/")[0]
    assert re.search(rf"{re.escape(module)} v{re.escape(entry.version)}\b", text)


def test_every_image_is_pinned_to_an_exact_version(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), f"{name}: {service['image']}"


def test_the_published_ports_are_the_native_ports_on_loopback_only(services: dict[str, Any]) -> None:
    published = services["network"]["ports"]
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}
    assert all(port["published"] == str(port["target"]) for port in published)
    native = {getattr(Ports(), field) for program in PROGRAMS.values() for field in program.ports}
    assert {port["target"] for port in published} == native | {Ports().grafana}
    others = [name for name, service in services.items() if name != "network" and service.get("ports")]
    assert others == []


def test_every_service_shares_the_network_namespace(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert name in ("network", "config") or service["network_mode"] == "service:network"


@pytest.mark.parametrize("name", ["collector", "traces"])
def test_each_variable_that_a_config_file_names_is_set_natively_and_in_docker(
    name: str, services: dict[str, Any]
) -> None:
    config = Path(PROGRAMS[name].arguments(INSIDE)[1]).relative_to("/stack")
    named = set(re.findall(r"\$\{env:([A-Z_]+)\}", stack_file(*config.parts).read_text("utf-8")))
    native = variables(INSIDE.home, INSIDE.ports, INSIDE.listen)
    given = services[name]["environment"]
    assert named
    assert named <= native.keys()
    assert named <= given.keys()
    where_docker_differs = {"HOST_NAME", "HOST_ROOT"}
    for variable in named - where_docker_differs:
        assert given[variable] == native[variable], variable


@pytest.mark.parametrize("name", ["collector", "traces"])
def test_the_config_file_that_the_command_names_is_mounted(name: str, services: dict[str, Any]) -> None:
    config = Path(PROGRAMS[name].arguments(INSIDE)[1])
    mounts = [volume for volume in services[name]["volumes"] if volume["type"] == "bind"]
    sources = [
        Path(mount["source"]) / config.relative_to(mount["target"])
        for mount in mounts
        if config.is_relative_to(mount["target"])
    ]
    assert [source.resolve() for source in sources] == [stack_file(*config.relative_to("/stack").parts)]


def test_health_checks_ask_the_page_that_the_supervisor_asks(services: dict[str, Any]) -> None:
    checked = [name for name in PROGRAMS if "healthcheck" in services.get(name, {})]
    assert len(checked) >= 5
    for name in checked:
        health = PROGRAMS[name].health
        assert health is not None
        port, path = health
        assert services[name]["healthcheck"]["test"][-1] == f"{Ports().url(port)}{path}"


def test_what_the_supervisor_refreshes_every_second_is_refreshed_in_docker(services: dict[str, Any]) -> None:
    pages = [Ports().url(entry.ports[0]) + entry.refresh for entry in PROGRAMS.values() if entry.refresh]
    script = services["refresher"]["command"][-1]
    assert re.findall(r"http://[^; ]+", script) == pages
    assert script.startswith("while sleep 1; do ")


def test_no_service_may_gain_privileges_and_the_state_is_shared_by_one_user(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert name == "grafana" or service["user"] == "65534:65534", name


def test_grafana_has_no_default_password(services: dict[str, Any]) -> None:
    environment = services["grafana"]["environment"]
    assert environment["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana_admin_password"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in environment


def test_grafana_is_given_the_data_sources_that_the_dashboards_name() -> None:
    folder = stack_file("compose", "provisioning")
    told = yaml.safe_load((folder / "datasources" / "glideslope.yaml").read_text("utf-8"))
    ports = Ports()
    sources = {source["uid"]: (source["type"], source["url"]) for source in told["datasources"]}
    assert sources == {
        "live": ("prometheus", ports.url("live")),
        "curves": ("prometheus", ports.url("curves")),
        "logs": ("victoriametrics-logs-datasource", ports.url("logs")),
        "traces": ("jaeger", ports.url("traces_query")),
        "alertmanager": ("alertmanager", ports.url("alertmanager")),
    }
    provider = yaml.safe_load((folder / "dashboards" / "glideslope.yaml").read_text("utf-8"))["providers"][0]
    assert provider["allowUiUpdates"] is False


def test_grafana_reads_the_generated_dashboards(services: dict[str, Any]) -> None:
    mounts = {volume["target"]: volume["source"] for volume in services["grafana"]["volumes"]}
    provider = yaml.safe_load(stack_file("compose", "provisioning", "dashboards", "glideslope.yaml").read_text("utf-8"))
    path = provider["providers"][0]["options"]["path"]
    assert Path(mounts[path]).resolve() == stack_file("dashboards", "generated")


def test_a_sentence_above_each_service_says_its_job() -> None:
    lines = COMPOSE.read_text("utf-8").splitlines()
    begin = lines.index("services:")
    for number, line in enumerate(lines[begin:], begin):
        if re.fullmatch(r"  [a-z][a-z-]*:", line) and number < lines.index("volumes:"):
            assert lines[number - 1].lstrip().startswith("# "), line
