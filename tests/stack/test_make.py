# SPDX-License-Identifier: Apache-2.0
"""The Makefile's own commands, in this checkout, on a stack of their own."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def make(target: str, environ: dict[str, str], *more: str) -> str:
    # MAKEFLAGS of a make that runs this test must not reach the one under test.
    clean = {key: value for key, value in environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "--no-print-directory", target, *more],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_setup_leaves_the_command_where_everything_looks_for_it() -> None:
    assert ".venv/bin/glideslope is ready" in make("setup", dict(os.environ))
    assert (ROOT / ".venv" / "bin" / "glideslope").is_file()


def test_demo_reaches_a_finished_run_and_leaves_the_stack_up(private_stack: Callable[..., Any]) -> None:
    place = private_stack()
    environ = {**os.environ, **place.env}
    output = make("demo", environ, "DEMO=--headless --steps 20 --run from-make")
    assert "/d/glideslope-run?var-run=from-make" in output
    assert "Next: glideslope" in output
    assert place.stack.status() is not None


def test_help_lists_the_targets() -> None:
    assert "train a small GPT" in make("help", dict(os.environ))
