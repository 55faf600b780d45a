# SPDX-License-Identifier: Apache-2.0
"""`glideslope serve` as a process, and what it refuses to bind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from glideslope.errors import ConfigError, StackError
from glideslope.server.listen import bind, is_loopback
from glideslope.server.settings import Settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_addresses_are_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "8.8.8.8"])
def test_other_addresses_are_refused_without_a_token(settings: Settings, host: str) -> None:
    with pytest.raises(ConfigError, match="--auth token"):
        bind(host, 0, settings)


def test_other_addresses_are_bound_where_a_token_is_asked(settings: Settings) -> None:
    with bind("0.0.0.0", 0, replace(settings, require_token=True)) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"


def test_an_unknown_host_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="no address of this machine"):
        bind("no-such-host.invalid", 0, settings)


def test_a_taken_port_says_what_to_do(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StackError, match="--port"):
        bind("127.0.0.1", taken.getsockname()[1], settings)


def test_a_short_token_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="token"):
        replace(settings, token="short")


@pytest.mark.parametrize("name", ["proxy_timeout_s", "webhook_bytes", "alerts_kept"])
def test_a_bound_of_zero_is_refused(settings: Settings, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(settings, **{name: 0})


@contextmanager
def command(home: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "glideslope", "serve", *options],
        env={**os.environ, "GLIDESLOPE_HOME": str(home), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with command(tmp_path / "home", "--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"Serving on (http://127\.0\.0\.1:\d+)\n", line)
        assert found is not None, line
        assert httpx.get(f"{found[1]}/api/health", timeout=20).json() == {"status": "ok"}
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert errors == ""
    token = tmp_path / "home" / "token"
    assert token.stat().st_mode & 0o777 == 0o600


def test_the_command_refuses_an_open_bind_with_exit_code_1(tmp_path: Path) -> None:
    with command(tmp_path / "home", "--host", "0.0.0.0", "--port", "0") as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "--auth token" in errors
    assert "Traceback" not in errors
