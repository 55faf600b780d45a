# SPDX-License-Identifier: Apache-2.0
"""A served application on a free port, with its folders in a temporary place."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from glideslope.config import Ports
from glideslope.server.app import create_app
from glideslope.server.settings import Settings

TOKEN = "correct-horse-battery-staple"


def made_up(tmp_path: Path) -> Settings:
    """Settings over made-up assets: two dashboards, a damaged one, a runbook, a built viewer, and a secret outside."""
    dashboards = tmp_path / "assets" / "dashboards" / "generated"
    viewer = tmp_path / "assets" / "dashboards" / "viewer" / "dist"
    runbooks = tmp_path / "assets" / "alerts" / "runbooks"
    for folder in (dashboards, viewer / "assets", runbooks):
        folder.mkdir(parents=True)
    for uid in ("glideslope-run", "glideslope-gpu"):
        (dashboards / f"{uid}.json").write_text(json.dumps({"uid": uid, "title": uid.upper(), "tags": ["glideslope"]}))
    (dashboards / "damaged.json").write_text("{")
    (viewer / "index.html").write_text("<html>the viewer</html>")
    (viewer / "assets" / "index-abc.js").write_text("run()")
    (runbooks / "TrainLossSpike.md").write_text("# Train loss spike\n")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "assets" / "dashboards" / "viewer" / "secret.txt").write_text("secret")
    (viewer / "link.txt").symlink_to(tmp_path / "secret.txt")
    return Settings(assets=tmp_path / "assets", state=tmp_path / "state", token=TOKEN)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return made_up(tmp_path)


@pytest.fixture(scope="session")
def read_only(victoria_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one server for all tests that change nothing; its live store is the real VictoriaMetrics."""
    settings = replace(made_up(tmp_path_factory.mktemp("server")), ports=Ports(live=port_of(victoria_url)))
    with served(settings) as url, httpx.Client(base_url=url, timeout=20) as client:
        yield client


Serve = Callable[..., Any]


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning", server_header=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        deadline = time.monotonic() + 10
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive(), "the server did not end: pytest would wait for it for ever"


@pytest.fixture
def serve(settings: Settings) -> Iterator[Serve]:
    """Start a server with some settings changed; returns a client of it."""
    opened: list[Any] = []

    def start(**changes: Any) -> httpx.Client:
        context = served(replace(settings, **changes))
        url = context.__enter__()
        client = httpx.Client(base_url=url, timeout=20)
        opened.append((context, client))
        return client

    yield start
    for context, client in reversed(opened):
        client.close()
        context.__exit__(None, None, None)


@pytest.fixture
def client(serve: Serve) -> httpx.Client:
    client: httpx.Client = serve()
    return client


@pytest.fixture
def token() -> str:
    return TOKEN


@pytest.fixture
def ports_of() -> Callable[..., Ports]:
    """Ports with some stores at the ports of given base URLs."""
    return lambda **urls: Ports(**{name: port_of(url) for name, url in urls.items()})
