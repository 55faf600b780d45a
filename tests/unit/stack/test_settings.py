# SPDX-License-Identifier: Apache-2.0
"""Variables of config files, the token, the prepared state folder."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glideslope.config import Home, Ports
from glideslope.errors import StackError
from glideslope.stack.settings import ensure_token, fill, prepare, variables


def test_ports_and_addresses_follow_the_offset(tmp_path: Path) -> None:
    values = variables(Home(tmp_path), Ports().shifted(100))
    assert values["PORT_OTLP_HTTP"] == "4418"
    assert values["URL_SERVER"] == "http://127.0.0.1:8800"
    assert values["LISTEN"] == "127.0.0.1"


def test_only_our_placeholders_are_filled_in() -> None:
    text = "${GLIDESLOPE_HOME} ${env:LISTEN} $labels {{ $value }} $$ ${lower}"
    assert fill(text, {"GLIDESLOPE_HOME": "/h"}, "f") == "/h ${env:LISTEN} $labels {{ $value }} $$ ${lower}"


def test_an_unknown_placeholder_is_refused_with_the_file_and_the_choices() -> None:
    with pytest.raises(StackError, match=r"rules\.yaml names \$\{PORT_NOWHERE\}.*use A, B"):
        fill("${PORT_NOWHERE}", {"B": "", "A": ""}, "rules.yaml")


def test_the_token_is_private_random_and_kept(tmp_path: Path) -> None:
    path = ensure_token(Home(tmp_path))
    first = path.read_text()
    assert len(first) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ensure_token(Home(tmp_path)).read_text() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


MAKE_TOKEN = """
import sys; from pathlib import Path; from glideslope.config import Home
from glideslope.stack.settings import ensure_token
print("ready", flush=True); sys.stdin.readline()
print(ensure_token(Home(Path(sys.argv[1]))).read_text())
"""


def test_makers_at_the_same_time_agree_on_one_token(tmp_path: Path) -> None:
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE_TOKEN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for maker in makers:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "ready\n"
    tokens = {maker.communicate("go\n", timeout=30)[0] for maker in makers}
    assert len(tokens) == 1
    assert tokens != {""}


def test_a_prepared_home_is_closed_to_others_and_holds_the_filled_in_files(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    prepare(home, Ports().shifted(7))
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    texts = [path.read_text() for path in home.config.rglob("*.yaml")]
    assert texts
    assert not any("${PORT_" in text or "${GLIDESLOPE_" in text for text in texts)
    assert (home.config / "alertmanager.yaml").exists()
    assert not (home.config / "rules" / "alertmanager.yaml").exists()


def test_rules_of_an_older_version_are_removed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    prepare(home, Ports())
    old = home.config / "rules" / "gone.yaml"
    old.write_text("groups: []")
    prepare(home, Ports())
    assert not old.exists()
