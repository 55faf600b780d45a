# SPDX-License-Identifier: Apache-2.0
"""Generated files are what their sources give, whichever Jsonnet renders them."""

import json
import shutil
from pathlib import Path

import _gojsonnet
import pytest

from glideslope.errors import RenderError
from glideslope.stack import render
from glideslope.stack.assets import stack_root

ROOT = Path(str(stack_root()))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the Jsonnet and its generated files."""
    for folder in ("dashboards", "alerts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("viewer", "node_modules"))
    return tmp_path


def test_what_is_committed_is_what_the_sources_give() -> None:
    assert render.check() == []


def test_two_implementations_of_jsonnet_agree() -> None:
    other = json.loads(_gojsonnet.evaluate_file(str(ROOT / render.ENTRY)))
    assert render.texts(other) == render.texts(render.evaluate(ROOT))


def test_an_edited_or_left_over_file_is_named(copy: Path) -> None:
    assert render.check(copy) == []
    edited = copy / "dashboards" / "generated" / "run.json"
    edited.write_text(edited.read_text().replace('"title": "Loss"', '"title": "Los"', 1))
    (copy / "dashboards" / "generated" / "old.json").write_text("{}")
    assert render.check(copy) == ["dashboards/generated/old.json", "dashboards/generated/run.json"]
    assert render.render(copy) == ["dashboards/generated/old.json", "dashboards/generated/run.json"]
    assert render.check(copy) == []


def test_a_name_that_the_registry_does_not_know_fails_the_render(copy: Path) -> None:
    queries = copy / "dashboards" / "run" / "queries.libsonnet"
    queries.write_text(queries.read_text().replace("m['train.tokens']", "m['train.tokns']"))
    with pytest.raises(RenderError, match=r"train\.tokns"):
        render.evaluate(copy)
