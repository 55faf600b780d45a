# SPDX-License-Identifier: Apache-2.0
"""Who may import whom, and rules that every file keeps: the table of the design, enforced on the syntax trees."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "instrumentation" / "glideslope"

_PURE = {"_version", "errors", "events", "semconv", "config", "env"}
_TRAINING = {"capture", "health", "emit", "ship"}
_HOST = {"gpu", "diagnose", "store", "importers"}
_ABOVE = {"run", "stack", "server", "integrations", "compat"}

# layer -> layers of ours that it may import
MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "events": set(),
    "env": {"errors"},
    "config": {"env", "errors"},
    "semconv": {"errors"},
    "capture": {"events", "config", "errors"},
    "health": {"events", "errors"},
    "emit": {"events", "semconv", "errors"},
    "ship": {"config", "errors", "_version"},
    "run": _PURE | _TRAINING,
    **{layer: _PURE for layer in _HOST},
    "stack": _PURE | _HOST | {"glideslope"},
    "server": _PURE | _HOST,
    "integrations": {"run"},
    "compat": {"run"},
    "testing": _PURE | {"gpu", "store"},
    # The demonstration's script is a user's script: glideslope must not be needed in it.
    "demo": set(),
    "cli": _PURE | _TRAINING | _HOST | _ABOVE | {"demo"},
    "glideslope": _PURE | {"run"},
    "__main__": {"cli"},
}

# package from outside -> the only layers that may import it; what is not named here may not be imported at all
OWNERS: dict[str, set[str]] = {
    "torch": {"capture", "demo"},
    "wrapt": {"capture"},
    "numpy": {"capture", "health", "emit"},
    "opentelemetry.proto": {"emit", "testing"},
    "opentelemetry.sdk": {"emit"},
    "opentelemetry.instrumentation": {"run"},
    "opentelemetry": {"emit", "run"},
    "google.protobuf": {"emit", "testing"},
    "google_crc32c": {"ship"},
    "urllib3": {"ship"},
    "zstandard": {"emit", "ship", "testing"},
    "pynvml": {"gpu"},
    "httpx": {"store", "server"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server", "cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "rjsonnet": {"stack"},
    "_gojsonnet": {"stack"},
    "yaml": {"stack"},
    "psutil": {"stack", "testing"},
    "subprocess": {"stack", "cli", "run"},
    "lightning": {"integrations"},
    "transformers": {"integrations"},
}

_ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "unsetenv"}
_MACHINE_PATH = re.compile(r"(?<![A-Za-z0-9_.~}])/(?:home|root|work)/[A-Za-z0-9_.]")


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, also by `import_module("…")`, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            # `from glideslope import env` names the layer in what is imported.
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}" if node.module else alias.name
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def owner_key(module: str) -> str | None:
    """The longest entry of OWNERS that covers a module; its own root for a stranger, None for the standard library."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (key := ".".join(parts[:length])) in OWNERS:
            return key
    return None if parts[0] in sys.stdlib_module_names or parts[0] == "__future__" else parts[0]


def violations(package: Path) -> list[str]:
    """What breaks the table, as `file:line: sentence`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        layer = relative.parts[0].removesuffix(".py")
        if relative.parts == ("__init__.py",):
            layer = "glideslope"
        if layer not in MAY_IMPORT:
            found.append(f"{relative}:1: {layer} is not in the table of layers: add it there")
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for line, module in imported(tree):
            parts = module.split(".")
            if parts[0] == "glideslope":
                named = parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "glideslope"
                if named != layer and named not in MAY_IMPORT[layer]:
                    found.append(f"{relative}:{line}: {layer} may not import {named}")
                continue
            key = owner_key(module)
            if key is not None and layer not in OWNERS.get(key, set()):
                found.append(f"{relative}:{line}: {layer} may not import {key}")
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 1)
            if isinstance(node, ast.ImportFrom) and node.level:
                found.append(f"{relative}:{line}: imports are absolute")
            reads = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
            names = {node.attr} if reads and isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                names = {alias.name for alias in node.names}
            if names & _ENVIRONMENT and layer not in ("env", "demo"):
                found.append(f"{relative}:{line}: the environment is read in env.py alone")
    return found


def tracked(*suffixes: str) -> list[Path]:
    """Files of the repository, committed or about to be, with one of these suffixes; all text when none is given."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout.decode()
    paths = [REPOSITORY / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes)]


def test_imports_point_downwards_and_keep_to_the_owners() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "code", "said"),
    [
        ("capture/bad.py", "from glideslope.emit.series import Block", "capture may not import emit"),
        ("capture/bad.py", "from glideslope import emit", "capture may not import emit"),
        ("capture/bad.py", "from glideslope import *", "capture may not import glideslope"),
        ("emit/bad.py", "import torch.nn", "emit may not import torch"),
        ("run/bad.py", "def f():\n    import torch", "run may not import torch"),
        ("run/bad.py", "importlib.import_module('torch')", "run may not import torch"),
        ("ship/bad.py", "from opentelemetry.sdk.trace import Tracer", "ship may not import opentelemetry.sdk"),
        ("run/bad.py", "from opentelemetry.proto.common import v1", "run may not import opentelemetry.proto"),
        ("ship/bad.py", "import httpx", "ship may not import httpx"),
        ("store/bad.py", "from fastapi import FastAPI", "store may not import fastapi"),
        ("server/bad.py", "import subprocess", "server may not import subprocess"),
        ("server/bad.py", "from glideslope.run.session import Session", "server may not import run"),
        ("stack/bad.py", "import click", "stack may not import click"),
        ("store/bad.py", "import requests", "store may not import requests"),
        ("demo/bad.py", "import glideslope", "demo may not import glideslope"),
        ("cli/bad.py", "import glideslope.testing", "cli may not import testing"),
        ("ship/bad.py", "import os\nx = os.environ['A']", "the environment is read in env.py alone"),
        ("ship/bad.py", "from os import getenv", "the environment is read in env.py alone"),
        ("run/bad.py", "from . import session", "imports are absolute"),
        ("helpers/bad.py", "", "helpers is not in the table"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, code: str, said: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert any(said in violation for violation in violations(tmp_path)), violations(tmp_path)


def test_permitted_imports_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "good.py").write_text(
        "import os, torch\nfrom glideslope.events import StepDone\nos.getpid()\n"
    )
    assert violations(tmp_path) == []


def test_the_table_never_lets_two_layers_import_each_other() -> None:
    for layer, below in MAY_IMPORT.items():
        for other in below:
            if {layer, other} != {"glideslope", "stack"}:
                assert layer not in MAY_IMPORT[other], f"{layer} and {other} may import each other"


def test_the_two_halves_share_only_the_pure_layers() -> None:
    for layer in _TRAINING | {"run"}:
        assert not MAY_IMPORT[layer] & (_HOST | {"stack", "server"})
    for layer in _HOST | {"stack", "server"}:
        assert not MAY_IMPORT[layer] & (_TRAINING | {"run"})


def test_no_file_is_longer_than_500_lines() -> None:
    long = {
        str(path.relative_to(REPOSITORY)): lines
        for path in tracked(".py", ".ts", ".tsx", ".libsonnet", ".jsonnet", ".go")
        if (lines := path.read_bytes().count(b"\n")) > 500
    }
    assert long == {}


def test_every_python_file_names_its_licence_first() -> None:
    bare = []
    for path in tracked(".py"):
        lines = path.read_text("utf-8").splitlines()
        first = lines[1] if len(lines) > 1 and lines[0].startswith("#!") else lines[0] if lines else ""
        if first != "# SPDX-License-Identifier: Apache-2.0":
            bare.append(str(path.relative_to(REPOSITORY)))
    assert bare == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert [str(path) for path in PACKAGE.rglob("*") if path.stem in empty] == []


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(REPOSITORY)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
            for match in _MACHINE_PATH.finditer(text)
        ]
    assert found == []


@pytest.mark.parametrize("folder", ["home", "root", "work"])
def test_a_planted_machine_path_is_found(folder: str) -> None:
    assert _MACHINE_PATH.search(f'open("/{folder}/someone/file")')
    assert not _MACHINE_PATH.search(f"https://example.org/{folder}/page")


_CLOCK_OF_ALL = re.compile(r"""setattr\(\s*(time,|["']time\.)""")


def test_no_test_turns_the_clock_of_the_whole_process() -> None:
    """Servers that other tests keep in threads would sleep for hours, and the test run would never end."""
    sources = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(REPOSITORY / "tests")]
    assert [str(path) for path in sources if _CLOCK_OF_ALL.search(path.read_text("utf-8"))] == []


def test_a_turned_clock_of_the_whole_process_is_found() -> None:
    assert _CLOCK_OF_ALL.search("monkeypatch.setattr(" + '"time.monotonic", later)')
    assert _CLOCK_OF_ALL.search("monkeypatch.setattr(" + "time, 'sleep', later)")
    assert not _CLOCK_OF_ALL.search('monkeypatch.setattr("glideslope.ship.spool.time", clock)')
