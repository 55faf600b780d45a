# SPDX-License-Identifier: Apache-2.0
"""A VictoriaMetrics and, in front of it, the collector in one of its forms; the CPU seconds of both.

In: which form. Out: addresses, CPU seconds, stored points. Everything runs on loopback and in a temporary folder.
"""

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import yaml

from glideslope.config import Home, Ports
from glideslope.stack.assets import stack_file
from glideslope.stack.binaries import ensure
from glideslope.stack.process import port_is_free
from glideslope.stack.programs import PROGRAMS, Place, command
from glideslope.stack.recipes import recipe
from glideslope.store.victoria import Victoria

FORMS = ("relay", "pipeline", "pipeline and queue")
"""How rank metrics go through the collector: handed on as shipped, taken apart without a queue, or with one on disk."""


def configuration(form: str, shipped: str) -> str:
    """The shipped configuration of the collector in one of its forms, without the scrapes, which are not measured."""
    config = yaml.safe_load(shipped)
    for name in ("metrics/host", "metrics/scraped"):
        del config["service"]["pipelines"][name]
    if form != "relay":
        del config["receivers"]["otlp"]["protocols"]["http"]["middlewares"]
    if form == "pipeline":
        live = config["exporters"]["otlp_http/live"]
        live["sending_queue"] = live["retry_on_failure"] = {"enabled": False}
    return yaml.safe_dump(config)


class Chain:
    """The running programs."""

    def __init__(self, place: Place, processes: dict[str, psutil.Popen]) -> None:
        self.live = place.ports.url("live")
        self.otlp = place.ports.url("otlp_http")
        self._processes = processes

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far by program."""
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}

    def memory(self, name: str) -> float:
        """Resident MiB of a program."""
        return self._processes[name].memory_info().rss / 2**20

    def rows(self) -> int:
        """Rows that the store has taken in since it began."""
        page = httpx.get(f"{self.live}/metrics", timeout=10).text
        return sum(int(line.split()[-1]) for line in page.splitlines() if line.startswith("vm_rows_inserted_total{"))

    def arrived(self, rows: int, timeout_s: float = 600) -> None:
        """Wait until the store has taken in `rows` rows; SystemExit when it has not in time."""
        deadline = time.monotonic() + timeout_s
        while (seen := self.rows()) < rows:
            if time.monotonic() > deadline:
                raise SystemExit(f"{seen:,} of {rows:,} rows arrived")
            time.sleep(0.05)

    def stored(self, run: str, wanted: int, timeout_s: float = 60) -> int:
        """Points of a run in the store, once they are `wanted`, or after the timeout."""
        query = f'sum(count_over_time({{run_id="{run}"}}[1h]))'
        deadline = time.monotonic() + timeout_s
        with Victoria(self.live) as store:
            while True:
                store.flush()
                found = store.query(query, time_s=time.time() + 600)
                count = int(found[0].value) if found else 0
                if count >= wanted or time.monotonic() > deadline:
                    return count
                time.sleep(0.2)


def _ports() -> Ports:
    while True:
        ports = Ports().shifted(random.randrange(1_000, 15_900, 10))
        owned = [port for name in ("live", "collector") for port in PROGRAMS[name].ports]
        if all(port_is_free(getattr(ports, port)) for port in owned):
            return ports


def _ready(url: str, process: psutil.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.HTTPError):
            httpx.get(url, timeout=1).raise_for_status()
            return
        time.sleep(0.05)
    raise SystemExit(f"{url} does not answer")


@contextmanager
def running(form: str) -> Iterator[Chain]:
    """Start store and collector with the shipped command lines; end them afterwards."""
    real = Home.from_env()
    with tempfile.TemporaryDirectory() as folder:
        place = Place.native(Home(Path(folder)), _ports())
        shipped = stack_file("collectors", "otelcol", "local.yaml").read_text("utf-8")
        config = Path(folder, "collector.yaml")
        config.write_text(configuration(form, shipped))
        processes: dict[str, psutil.Popen] = {}
        try:
            for name in ("live", "collector"):
                program = PROGRAMS[name]
                words = command(program, ensure(recipe(program.binary), real), place)
                if name == "collector":
                    words[-1] = str(config)
                with Path(folder, f"{name}.log").open("wb") as log:
                    processes[name] = psutil.Popen(
                        words, env=os.environ | program.environment(place), stdout=log, stderr=subprocess.STDOUT
                    )
                assert program.health is not None
                _ready(place.ports.url(program.health[0]) + program.health[1], processes[name])
            yield Chain(place, processes)
        finally:
            for process in reversed(processes.values()):
                process.terminate()
                process.wait(30)
