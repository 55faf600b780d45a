# SPDX-License-Identifier: Apache-2.0
"""The public face: what is exported is listed, sorted, there, and nothing else; exceptions can travel."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import pytest

import glideslope
from glideslope import errors

PACKAGE = Path(glideslope.__file__).parent


def exported(tree: ast.Module) -> list[str] | None:
    """The module's `__all__`, None when it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["__all__"]:
            listed: list[str] = ast.literal_eval(node.value)
            return listed
    return None


MODULES = {
    str(path.relative_to(PACKAGE)): tree
    for path in sorted(PACKAGE.rglob("*.py"))
    if exported(tree := ast.parse(path.read_text("utf-8"))) is not None
}


@pytest.mark.parametrize("name", MODULES)
def test_exported_names_are_sorted_unique_and_defined(name: str) -> None:
    tree = MODULES[name]
    listed = exported(tree)
    assert listed is not None
    assert listed == sorted(set(listed))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
    assert set(listed) <= defined


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_that_such_a_module_defines_is_exported(name: str) -> None:
    tree = MODULES[name]
    public = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert public <= set(exported(tree) or ())


def test_every_exported_name_of_the_package_is_there() -> None:
    for name in glideslope.__all__:
        assert getattr(glideslope, name) is not None
    assert sorted(dir(glideslope)) == sorted(glideslope.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        glideslope.unknown  # noqa: B018


EXCEPTIONS = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, BaseException)]


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_every_exception_belongs_to_the_tree_and_is_drawn_in_it(kind: type[BaseException]) -> None:
    assert issubclass(kind, errors.GlideslopeError)
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_exception_keeps_its_message_on_its_way_to_another_process(kind: type[BaseException]) -> None:
    sent = pickle.loads(pickle.dumps(kind("say what to do")))
    assert (type(sent), str(sent)) == (kind, "say what to do")
