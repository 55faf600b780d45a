# SPDX-License-Identifier: Apache-2.0
"""Every command of the README is executed by a test, and what it points at exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.strip() and not line.startswith("#")
]
# Where each command of the README is executed; a command that is not here fails this test.
EXECUTED = {
    "make demo": "tests/stack/test_make.py",
    "make test": ".ci/run",
    "make setup": "tests/stack/test_make.py",
    ".venv/bin/glideslope up": "tests/stack/test_up.py",
    ".venv/bin/glideslope run -- torchrun --nproc-per-node 2 train.py": "tests/stack/test_chain.py",
    ".venv/bin/glideslope status": "tests/stack/test_up.py",
    ".venv/bin/glideslope down": "tests/stack/test_up.py",
}
# The words that prove it, where they are not the command's own.
WORDS = {
    ".venv/bin/glideslope run -- torchrun --nproc-per-node 2 train.py": '"glideslope", "run", "--run"',
    ".venv/bin/glideslope up": '"up"',
    ".venv/bin/glideslope status": '"status"',
    ".venv/bin/glideslope down": '"down"',
    "make demo": '"demo"',
    "make setup": '"setup"',
}


def test_every_command_is_executed_somewhere() -> None:
    assert set(COMMANDS) == set(EXECUTED)


@pytest.mark.parametrize("command", EXECUTED)
def test_the_place_that_executes_it_does(command: str) -> None:
    assert WORDS.get(command, command) in (ROOT / EXECUTED[command]).read_text("utf-8")


def test_every_subcommand_that_the_documents_name_exists() -> None:
    listed = subprocess.run([sys.executable, "-m", "glideslope", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"^  ([a-z-]+)  ", listed.stdout, re.MULTILINE))
    documents = [path for path in ROOT.glob("*/README.md")] + [ROOT / "README.md", *ROOT.glob("alerts/runbooks/*.md")]
    for path in documents:
        named = set(re.findall(r"`(?:\.venv/bin/)?glideslope ([a-z-]+)", path.read_text("utf-8")))
        assert named <= known, path


def test_every_link_and_picture_of_the_documents_exists() -> None:
    for path in [ROOT / "README.md", *ROOT.glob("*/README.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: {target}"


def test_the_readme_stays_readable_in_one_go() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("path", ["README.md", "CHANGELOG.md", "instrumentation/README.md"])
def test_documents_name_no_machine(path: str) -> None:
    assert not re.search(r"/(home|root|work|tmp)/\w", (ROOT / path).read_text("utf-8"))
