# SPDX-License-Identifier: Apache-2.0
"""`glideslope run` and the command table: exit codes, signals, messages with the remedy."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glideslope.cli import COMMANDS


def glideslope(*words: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "GLIDESLOPE_HOME": str(home), **more}
    command = [sys.executable, "-m", "glideslope", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9), ("kill -TERM $$", 128 + 15)]
)
def test_the_exit_code_is_the_command_s_own_as_a_shell_gives_it(tmp_path: Path, script: str, code: int) -> None:
    assert glideslope("run", "--", "sh", "-c", script, home=tmp_path).returncode == code


def test_stdout_is_the_command_s_own_and_ours_goes_to_stderr(tmp_path: Path) -> None:
    done = glideslope("run", "--run", "r1", "--", "echo", "--lr", "1", home=tmp_path)
    assert done.stdout == "--lr 1\n"
    assert done.stderr == "glideslope: run r1 attempt 0, sent to http://127.0.0.1:4318\n"


def test_a_command_that_is_not_there_ends_like_in_a_shell(tmp_path: Path) -> None:
    done = glideslope("run", "--", "no-such-command", home=tmp_path)
    assert (done.returncode, "command not found: no-such-command" in done.stderr) == (127, True)
    plain = tmp_path / "plain.txt"
    plain.write_text("no program")
    assert glideslope("run", "--", str(plain), home=tmp_path).returncode == 126


@pytest.mark.parametrize(
    ("words", "more", "remedy"),
    [
        (("run", "--run", "../x", "--", "true"), {}, "letters, digits"),
        (("run", "--", "true"), {"OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense"}, "write for example http://127.0.0.1:4318"),
        (("status",), {"GLIDESLOPE_PORT_OFFSET": "abc"}, "GLIDESLOPE_PORT_OFFSET='abc' cannot be read"),
        (("status",), {"GLIDESLOPE_PORT_OFFSET": "99999"}, "choose another GLIDESLOPE_PORT_OFFSET"),
    ],
)
def test_bad_input_gets_one_line_that_says_what_to_do(
    tmp_path: Path, words: tuple[str, ...], more: dict[str, str], remedy: str
) -> None:
    done = glideslope(*words, home=tmp_path, **more)
    assert done.returncode == 1
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 1


def test_signals_reach_the_command_and_its_ending_is_reported(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'echo stopping; exit 5' TERM; touch {ready}; while :; do sleep 0.05; done"
    environ = {**os.environ, "GLIDESLOPE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "glideslope", "run", "--", "sh", "-c", script]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        deadline = time.monotonic() + 30
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=30)
    assert (output, running.returncode) == ("stopping\n", 5)


def test_nothing_to_sync_is_no_error(tmp_path: Path) -> None:
    done = glideslope("sync", home=tmp_path)
    assert done.returncode == 0
    assert "nothing to ship" in done.stderr


def test_following_ends_well_on_sigterm_also_without_spools_and_receiver(tmp_path: Path) -> None:
    environ = {**os.environ, "GLIDESLOPE_HOME": str(tmp_path), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "glideslope", "sync", "--follow"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "ships what dead processes leave" in running.stderr.readline()
        running.send_signal(signal.SIGTERM)
        output, errors = running.communicate(timeout=30)
    assert (output, errors, running.returncode) == ("", "", 0)


def test_every_command_of_the_table_has_help_and_a_module(tmp_path: Path) -> None:
    listed = glideslope("--help", home=tmp_path)
    for name, (_, _, line) in COMMANDS.items():
        assert line in listed.stdout
        assert glideslope(name, "--help", home=tmp_path).returncode == 0, name
