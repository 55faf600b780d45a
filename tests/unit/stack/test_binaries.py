# SPDX-License-Identifier: Apache-2.0
"""Finding and building programs: with the real Go compiler and a module without dependencies."""

from __future__ import annotations

import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from glideslope.config import Home
from glideslope.errors import StackError
from glideslope.stack import binaries
from glideslope.stack.binaries import BuildProgress, built, ensure, fingerprint, fits, provided, toolchain
from glideslope.stack.recipes import RECIPES, Recipe, recipe

GREETING = """package main

import "fmt"

var version = "unset"

func main() { fmt.Println("tiny v" + version) }
"""
TINY = Recipe(program="tiny-program", folder="tiny", package=".", version="1.2.3", stamp="main.version", seconds=1)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go module where recipes look for their sources."""
    folder = tmp_path / "root" / "tiny"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module tiny\n\ngo 1.21\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(GREETING)
    monkeypatch.setattr(binaries, "stack_file", lambda *parts: (tmp_path / "root").joinpath(*parts))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_build_makes_a_stamped_program_named_by_its_inputs(module: Path, home: Home) -> None:
    seen: list[BuildProgress] = []
    path = ensure(TINY, home, seen.append)
    assert path == home.bin / f"tiny-program-{fingerprint(TINY, toolchain())}"
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout == "tiny v1.2.3\n"
    assert seen[0] == BuildProgress("tiny-program", "compiling")
    left = sorted(entry.name for entry in home.bin.iterdir())
    assert left == [".build.lock", path.name]
    assert not (home.root / "build" / "tiny-program").exists()


def test_what_is_built_is_not_built_again(module: Path, home: Home) -> None:
    first = ensure(TINY, home)
    before = first.stat()
    seen: list[BuildProgress] = []
    assert ensure(TINY, home, seen.append) == first
    assert first.stat() == before
    assert seen == []


@pytest.mark.parametrize("file", ["main.go", "go.mod", "go.sum"])
def test_a_changed_input_is_another_program(file: str, module: Path, home: Home) -> None:
    before = ensure(TINY, home)
    with (module / file).open("a") as source:
        source.write("// changed\n")
    assert built(TINY, home, toolchain()) is None
    assert before.exists()


def test_flags_and_compiler_are_inputs_too(module: Path) -> None:
    go = toolchain()
    marks = {
        fingerprint(TINY, go),
        fingerprint(replace(TINY, tags="x"), go),
        fingerprint(replace(TINY, version="1.2.4"), go),
        fingerprint(TINY, replace(go, version="go1.99")),
    }
    assert len(marks) == 4


def test_a_failing_build_shows_the_compiler_s_words_and_leaves_no_program(module: Path, home: Home) -> None:
    (module / "main.go").write_text("package main\n\nfunc main() { undefined_thing() }\n")
    with pytest.raises(StackError, match=r"(?s)tiny-program could not be built.*undefined: undefined_thing"):
        ensure(TINY, home)
    assert [entry.name for entry in home.bin.iterdir()] == [".build.lock"]


def test_modules_that_cannot_be_fetched_are_named_as_the_cause(
    module: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy on a port where nobody listens.
    for name, value in {"GOPROXY": "http://127.0.0.1:1", "GONOSUMDB": "*", "GOFLAGS": "-mod=mod"}.items():
        monkeypatch.setenv(name, value)
    (module / "main.go").write_text('package main\n\nimport _ "example.com/absent/thing"\n\nfunc main() {}\n')
    (module / "go.mod").write_text("module tiny\n\ngo 1.21\n\nrequire example.com/absent/thing v1.0.0\n")
    with pytest.raises(StackError, match=r"check that Go modules can be fetched \(`go env GOPROXY`\)"):
        ensure(TINY, home)


def test_a_missing_compiler_says_what_to_install(module: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home.root))
    with pytest.raises(StackError, match="install Go 1.26 or newer"):
        ensure(TINY, home)


def test_a_compiler_that_is_too_old_is_refused_before_the_build(
    module: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    (module / "go.mod").write_text("module tiny\n\ngo 1.999.1\n")
    with pytest.raises(StackError, match=r"needs Go 1\.999\.1 and .* is go1\..*: install a newer Go"):
        ensure(TINY, home)


def test_two_builders_take_turns_and_build_once(module: Path, home: Home) -> None:
    paths: list[Path] = []
    compiled: list[BuildProgress] = []

    def work() -> None:
        paths.append(ensure(TINY, home, lambda told: compiled.append(told) if told.phase == "compiling" else None))

    builders = [threading.Thread(target=work) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert len(set(paths)) == 1
    assert [told.packages for told in compiled].count(0) >= 1
    started = [told for told in compiled if told == BuildProgress("tiny-program", "compiling")]
    assert started[:1] == compiled[:1]


def test_a_cancelled_build_ends_and_leaves_no_program(module: Path, home: Home) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StackError, match="cancelled"):
        ensure(TINY, home, None, stop)
    assert built(TINY, home, toolchain()) is None


def test_a_module_s_missing_files_are_added_to_a_copy() -> None:
    alertmanager = recipe("alertmanager")
    assert list(alertmanager.added) == ["ui/app/dist/index.html"]
    assert alertmanager.package.startswith(alertmanager.patched_module)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ("tiny-program-v1.2.9", None),
        ("tiny, version 1.2.0 (branch: HEAD)", None),
        ("tiny-20260801-tags-v1.2.3-0-gabcdef", None),
        ("tiny v1.3.0", "it is version 1.3.0, and 1.2 is needed"),
        ("hello", "its --version names no version"),
    ],
)
def test_a_binary_fits_when_major_and_minor_are_the_pinned_ones(
    answer: str, trouble: str | None, tmp_path: Path
) -> None:
    assert fits(TINY, str(script(tmp_path / "tiny", f"echo '{answer}'"))) == trouble


def test_a_binary_that_cannot_run_does_not_fit(tmp_path: Path) -> None:
    assert "does not answer --version" in str(fits(TINY, str(tmp_path / "absent")))


def test_a_fitting_binary_on_path_is_used_and_a_misfit_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = script(tmp_path / "tiny-program", "echo v1.2.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert provided(TINY) == found
    script(found, "echo v1.1.0")
    assert provided(TINY) is None


def test_a_binary_named_by_environment_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = script(tmp_path / "mine", "echo v1.2.7")
    monkeypatch.setenv("GLIDESLOPE_BIN_TINY_PROGRAM", str(named))
    assert provided(TINY) == named
    script(named, "echo v0.1.0")
    with pytest.raises(StackError, match="GLIDESLOPE_BIN_TINY_PROGRAM=.*mine cannot be used: it is version 0.1.0"):
        provided(TINY)


def test_an_unknown_program_is_refused_with_the_choices() -> None:
    with pytest.raises(StackError, match="no program 'prometheus': choose from victoria-metrics"):
        recipe("prometheus")


def test_the_two_slow_builds_come_last() -> None:
    names = [entry.program for entry in RECIPES.values() if entry.essential]
    assert names[-2:] == ["glideslope-collector", "jaeger"]


@pytest.mark.parametrize("entry", list(RECIPES.values()), ids=lambda entry: entry.program)
def test_no_pinned_module_records_a_download_address_or_a_local_path(entry: Recipe) -> None:
    folder = binaries.stack_file(*entry.folder.split("/"))
    text = (folder / "go.mod").read_text("utf-8") + (folder / "go.sum").read_text("utf-8")
    assert "replace " not in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_compiler_is_the_one_on_path() -> None:
    go = toolchain()
    assert go.path == shutil.which("go")
    assert go.release >= (1, 21)
