# SPDX-License-Identifier: Apache-2.0
"""The built wheel, not the checkout: it installs in a clean environment and the demonstration runs from it."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def call(command: list[str], cwd: Path, environ: dict[str, str] | None = None, timeout: float = 600) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    call([sys.executable, "-m", "build", "--wheel", "--installer", "uv", "--outdir", str(folder), str(ROOT)], ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    "name",
    [
        "glideslope/semconv/registry.json",
        "glideslope/py.typed",
        "glideslope/demo/train.py",
        "glideslope/run/bootstrap/sitecustomize.py",
        "glideslope/_stack/collectors/otelcol/go.sum",
        "glideslope/_stack/collectors/otelcol/local.yaml",
        "glideslope/_stack/compose/local/jaeger/go.mod",
        "glideslope/_stack/compose/compose.yaml",
        "glideslope/_stack/alerts/generated/alerts.yaml",
        "glideslope/_stack/alerts/runbooks/TrainNonFinite.md",
        "glideslope/_stack/dashboards/generated/run.json",
        "glideslope/_stack/dashboards/viewer/dist/index.html",
    ],
)
def test_the_wheel_holds_what_the_stack_needs(names: list[str], name: str) -> None:
    assert name in names


def test_the_viewer_s_icons_travel_along(names: list[str]) -> None:
    assert any("/viewer/dist/" in name and name.endswith(".svg") for name in names)


def test_the_wheel_holds_nothing_else(names: list[str]) -> None:
    refused = ("node_modules", "/viewer/src/", "/viewer/test/", "__pycache__", "/tests/", ".venv", ".glideslope/")
    assert [name for name in names if any(part in name for part in refused)] == []
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"glideslope"}


def test_the_demonstration_runs_from_the_wheel_alone(
    wheel: Path, tmp_path: Path, private_stack: Callable[..., Any]
) -> None:
    environment = tmp_path / "venv"
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    call([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], tmp_path)
    python = environment / "bin" / "python"
    pinned = ["-c", str(ROOT / "constraints.txt")]
    call(
        [uv, "pip", "install", "--quiet", "--python", str(python), *pinned, f"glideslope[demo] @ {wheel.as_uri()}"],
        tmp_path,
    )
    place = private_stack()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GLIDESLOPE_", "OTEL_", "PYTHON"))}
    environ = clean | {key: value for key, value in place.env.items() if key.startswith("GLIDESLOPE_")}
    glideslope = str(environment / "bin" / "glideslope")
    where = call([str(python), "-c", "import glideslope; print(glideslope.__file__)"], tmp_path, environ).strip()
    assert Path(where).is_relative_to(environment)
    try:
        output = call([glideslope, "demo", "--headless", "--steps", "20", "--run", "from-wheel"], tmp_path, environ)
        assert "/d/glideslope-run?var-run=from-wheel" in output
    finally:
        call([glideslope, "down"], tmp_path, environ)
