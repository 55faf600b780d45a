# SPDX-License-Identifier: Apache-2.0
"""The real stores, each started once on free ports with its data in a temporary folder; scripts as processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from glideslope import env
from glideslope.config import Home

JAEGER = """
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
extensions:
  jaeger_storage: {{backends: {{local: {{memory: {{max_traces: 1000}}}}}}}}
  jaeger_query:
    storage: {{traces: local}}
    http: {{endpoint: 127.0.0.1:{query}}}
    grpc: {{endpoint: 127.0.0.1:{grpc}}}
receivers:
  otlp: {{protocols: {{http: {{endpoint: 127.0.0.1:{otlp}}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: local}}
"""

ALERTMANAGER = """
route: {receiver: nobody, group_by: [alertname], group_wait: 1s}
receivers: [{name: nobody}]
"""


def binary(program: str) -> str:
    """The program named by GLIDESLOPE_BIN_<PROGRAM>, else the newest one built, else one on PATH."""
    named = env.binary_override(program).get()
    if named:
        return named
    built = [path for path in Home.from_env().bin.glob(f"{program}-*") if path.name.rpartition("-")[0] == program]
    if built:
        return str(max(built, key=lambda path: path.stat().st_mtime))
    found = shutil.which(program)
    if found is None:
        pytest.fail(f"{program} is not built: run `glideslope build` first")
    return found


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [opened.getsockname()[1] for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


@contextmanager
def running(command: list[str], log: Path, healthy: str) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    if httpx.get(healthy, timeout=2).status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{command[0]} did not become healthy: {log.read_text()[-2000:]}")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="session")
def victoria_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("victoria")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        binary("victoria-metrics"),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={folder}/data",
        "-retentionPeriod=100y",
        "-opentelemetry.usePrometheusNaming",
        "-dedup.minScrapeInterval=1ms",
    ]
    with running(command, folder / "log", f"{url}/health"):
        yield url


@pytest.fixture(scope="session")
def logs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("logs")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [binary("victoria-logs"), f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}/data"]
    with running(command, folder / "log", f"{url}/health"):
        yield url


@pytest.fixture(scope="session")
def jaeger_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Base URLs of the query service and of the OTLP receiver."""
    folder = tmp_path_factory.mktemp("jaeger")
    query, grpc, otlp = free_ports(3)
    (folder / "jaeger.yaml").write_text(JAEGER.format(query=query, grpc=grpc, otlp=otlp))
    url = f"http://127.0.0.1:{query}"
    with running([binary("jaeger"), "--config", str(folder / "jaeger.yaml")], folder / "log", f"{url}/api/services"):
        yield url, f"http://127.0.0.1:{otlp}"


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    (port,) = free_ports(1)
    (folder / "alertmanager.yml").write_text(config)
    url = f"http://127.0.0.1:{port}"
    command = [
        binary("alertmanager"),
        f"--config.file={folder}/alertmanager.yml",
        f"--storage.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with running(command, folder / "log", f"{url}/-/healthy"):
        yield url


@pytest.fixture(scope="session")
def alertmanager_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with alertmanager(tmp_path_factory.mktemp("alertmanager"), ALERTMANAGER) as url:
        yield url


@pytest.fixture
def start_alertmanager(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Start an Alertmanager with a given configuration; returns its URL."""
    with ExitStack() as opened:
        yield lambda config: opened.enter_context(alertmanager(tmp_path, config))


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python text as a script named train.py in a process of its own; returns its exit code, stdout and stderr."""

    def run(text: str, *arguments: str, launcher: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "train.py"
        script.write_text(text)
        return subprocess.run(
            [sys.executable, *launcher, str(script), *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        )

    return run
