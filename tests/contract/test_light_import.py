# SPDX-License-Identifier: Apache-2.0
"""What importing costs: each import runs in a fresh interpreter, which then says what it loaded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "opentelemetry.sdk", "opentelemetry.proto", "google.protobuf", "rjsonnet", "yaml", "psutil"}
WEB = {"fastapi", "starlette", "uvicorn", "httpx", "pydantic"}
COMMAND_LINE = {"click", "rich"}


def loaded(code: str) -> set[str]:
    """Names in sys.modules after running code."""
    program = f"import sys, json\n{code}\nsys.stdout = sys.__stdout__\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_glideslope_loads_nothing_heavy() -> None:
    found = loaded("import glideslope")
    assert not found & (HEAVY | WEB | COMMAND_LINE)
    assert not {name for name in found if name.startswith("glideslope.")} - {
        "glideslope._version",
        "glideslope.errors",
    }


def test_the_pure_layers_load_nothing_heavy() -> None:
    found = loaded("import glideslope.config, glideslope.env, glideslope.events, glideslope.semconv")
    assert not found & (HEAVY | WEB | COMMAND_LINE)


def test_the_instrumentor_does_not_load_torch_or_the_host_side() -> None:
    found = loaded("import glideslope\nglideslope.PyTorchInstrumentor")
    assert not found & ({"torch"} | WEB | COMMAND_LINE)
    assert not {
        name for name in found if name.startswith(("glideslope.stack", "glideslope.server", "glideslope.store"))
    }


def test_asking_the_command_for_help_loads_no_web_server_and_no_torch() -> None:
    code = (
        "import contextlib, io\nfrom glideslope.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    app(['--help'], standalone_mode=False)"
    )
    assert not loaded(code) & (HEAVY | WEB)


@pytest.mark.parametrize("module", ["glideslope.gpu", "glideslope.store.victoria"])
def test_clients_that_stand_alone_load_neither_torch_nor_a_web_framework(module: str) -> None:
    assert not loaded(f"import {module}") & {"torch", "fastapi", "uvicorn", "opentelemetry.sdk"}


def test_the_test_receiver_needs_nothing_of_the_host_side() -> None:
    assert not loaded("import glideslope.testing") & ({"torch", "psutil", "yaml", "rjsonnet"} | WEB | COMMAND_LINE)
