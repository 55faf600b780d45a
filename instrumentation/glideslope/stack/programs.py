# SPDX-License-Identifier: Apache-2.0
"""The programs of the stack: one table with command line, ports, health page and what must run first.

In: Home and Ports. Out: command lines and environments. Imports config, semconv, assets, settings; starts nothing.
`compose/compose.yaml` describes the same programs for Docker; a contract test keeps both in step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glideslope import env
from glideslope.config import LOOPBACK, Home, Ports
from glideslope.errors import StackError
from glideslope.semconv import promoted_resource_attributes
from glideslope.stack.assets import stack_file
from glideslope.stack.settings import variables

# VictoriaMetrics shows a point 2 to 4 s after it came, and a new series that someone asked for before up to 10 s after
# (measured, 1.151; no flag changes it). Flushing every second brings both below 1 s for 0.03 cores at 30,000 points/s.
_FORCE_FLUSH = "/internal/force_flush"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a stack runs: its state folder, its ports, the address to bind and the shipped files."""

    home: Home
    ports: Ports
    listen: str = LOOPBACK
    root: Path
    """Folder that holds `collectors` and `compose`."""

    @classmethod
    def native(cls, home: Home, ports: Ports) -> Place:
        """The place of a stack on this machine."""
        return cls(home=home, ports=ports, root=stack_file("compose").parent)

    def data(self, name: str) -> str:
        """Data folder of a program."""
        return str(self.home.data / name)

    def at(self, port: str) -> str:
        """`address:port` to bind."""
        return f"{self.listen}:{getattr(self.ports, port)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One long-running program of the stack."""

    name: str
    title: str
    """What it is for, in a few words."""
    binary: str
    """Program name in `recipes`; empty for our own Python."""
    arguments: Callable[[Place], list[str]]
    ports: tuple[str, ...]
    """Fields of `config.Ports` that it binds; the first is the one people open. Empty for one that only works away."""
    health: tuple[str, str] | None
    """Port field and path that answer 200 once it is ready; None: it is ready as soon as it runs."""
    after: tuple[str, ...] = ()
    """Programs that must be healthy before it starts."""
    refresh: str = ""
    """Page to request every second, so that what just arrived is seen; see `_FORCE_FLUSH`."""
    sends: bool = False
    """True when it writes to other programs: it is stopped before them so that its queue drains."""

    def environment(self, place: Place) -> dict[str, str]:
        """Process environment: ours plus the variables that config files may name."""
        offset = place.ports.live - Ports().live
        return (
            env.environment()
            | variables(place.home, place.ports, place.listen)
            | {"GLIDESLOPE_PORT_OFFSET": str(offset)}
        )


def _victoria_metrics(name: str, retention: str, *more: Callable[[Place], str]) -> Callable[[Place], list[str]]:
    def arguments(place: Place) -> list[str]:
        return [
            f"-httpListenAddr={place.at(name)}",
            f"-storageDataPath={place.data(name)}",
            f"-retentionPeriod={retention}",
            "-opentelemetry.usePrometheusNaming",
            "-opentelemetry.promoteAllResourceAttributes=false",
            f"-opentelemetry.promoteResourceAttributes={','.join(promoted_resource_attributes())}",
            "-opentelemetry.promoteScopeMetadata=false",
            # Replays after a crash repeat points; equal timestamps collapse and no step is thinned out.
            "-dedup.minScrapeInterval=1ms",
            # The default hides the last 30 s of every series from queries.
            "-search.latencyOffset=0s",
            "-memory.allowedPercent=20",
            *(make(place) for make in more),
        ]

    return arguments


def _victoria_logs(place: Place) -> list[str]:
    return [
        f"-httpListenAddr={place.at('logs')}",
        f"-storageDataPath={place.data('logs')}",
        "-retentionPeriod=30d",
        "-memory.allowedPercent=10",
    ]


def _alertmanager(place: Place) -> list[str]:
    return [
        f"--config.file={place.home.config / 'alertmanager.yaml'}",
        f"--storage.path={place.data('alertmanager')}",
        f"--web.listen-address={place.at('alertmanager')}",
        # One node: no gossip port.
        "--cluster.listen-address=",
    ]


def _vmalert(place: Place) -> list[str]:
    live = place.ports.url("live")
    return [
        f"-httpListenAddr={place.at('vmalert')}",
        f"-rule={place.home.config / 'rules' / '*.yaml'}",
        f"-datasource.url={live}",
        f"-remoteWrite.url={live}",
        f"-remoteRead.url={live}",
        f"-notifier.url={place.ports.url('alertmanager')}",
        f"-external.url={place.ports.url('server')}",
        "-evaluationInterval=1s",
        "-rule.evalDelay=0s",
        # Alertmanager takes an alert for resolved 4 × this after it last heard; at 1 s every hiccup would resolve it.
        "-rule.resendDelay=10s",
        "-remoteWrite.flushInterval=500ms",
    ]


def _collector(place: Place) -> list[str]:
    return ["--config", str(place.root / "collectors" / "otelcol" / "local.yaml")]


def _jaeger(place: Place) -> list[str]:
    return ["--config", str(place.root / "compose" / "jaeger.yaml")]


def _sync(place: Place) -> list[str]:
    return ["-m", "glideslope", "sync", "--follow"]


def _server(place: Place) -> list[str]:
    # Whoever can reach more than loopback must show the token.
    beyond = [] if place.listen == LOOPBACK else ["--host", place.listen, "--auth", "token"]
    return ["-m", "glideslope", "serve", *beyond]


_TABLE = (
    Program(
        name="live",
        title="live metrics (VictoriaMetrics)",
        binary="victoria-metrics",
        arguments=_victoria_metrics("live", "90d", lambda place: f"-vmalert.proxyURL={place.ports.url('vmalert')}"),
        ports=("live",),
        health=("live", "/health"),
        refresh=_FORCE_FLUSH,
    ),
    Program(
        name="curves",
        title="training curves by step (VictoriaMetrics)",
        binary="victoria-metrics",
        arguments=_victoria_metrics("curves", "100y"),
        ports=("curves",),
        health=("curves", "/health"),
    ),
    Program(
        name="server",
        title="viewer, alerts, store proxy (glideslope serve)",
        binary="",
        arguments=_server,
        ports=("server",),
        health=("server", "/api/health"),
    ),
    Program(
        name="logs",
        title="logs (VictoriaLogs)",
        binary="victoria-logs",
        arguments=_victoria_logs,
        ports=("logs",),
        health=("logs", "/health"),
    ),
    Program(
        name="alertmanager",
        title="notifications (Alertmanager)",
        binary="alertmanager",
        arguments=_alertmanager,
        ports=("alertmanager",),
        health=("alertmanager", "/-/ready"),
    ),
    Program(
        name="vmalert",
        title="alert rules (vmalert)",
        binary="vmalert",
        arguments=_vmalert,
        ports=("vmalert",),
        health=("vmalert", "/health"),
        after=("live",),
        sends=True,
    ),
    Program(
        name="collector",
        title="OTLP in, GPU and host scrape (OpenTelemetry Collector)",
        binary="glideslope-collector",
        arguments=_collector,
        ports=("otlp_http", "otlp_grpc", "collector_health", "collector_metrics"),
        health=("collector_health", "/"),
        sends=True,
    ),
    Program(
        name="sync",
        title="ships what ended trainings left (glideslope sync)",
        binary="",
        arguments=_sync,
        ports=(),
        health=None,
        after=("collector",),
        sends=True,
    ),
    Program(
        name="traces",
        title="traces (Jaeger)",
        binary="jaeger",
        arguments=_jaeger,
        ports=("traces_query", "traces_query_grpc", "traces_otlp"),
        health=("traces_query", "/api/services"),
    ),
)

PROGRAMS: dict[str, Program] = {program.name: program for program in _TABLE}

ESSENTIAL = tuple(name for name in PROGRAMS if name != "traces")
"""What a live dashboard and an alert need; spans wait in the collector until Jaeger, the slowest build, is there."""


def select(names: tuple[str, ...] | None) -> tuple[Program, ...]:
    """Return the named programs in table order with everything they need; all of them for None.

    Raises StackError that lists the programs there are.
    """
    if names is None:
        return _TABLE
    wanted: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in PROGRAMS:
            raise StackError(f"no program {name!r}: choose from {', '.join(PROGRAMS)}")
        if name not in wanted:
            wanted.add(name)
            pending += PROGRAMS[name].after
    return tuple(program for program in _TABLE if program.name in wanted)


def command(program: Program, executable: Path | None, place: Place) -> list[str]:
    """The full command line; `executable` is the built binary, or None for our own Python."""
    return [str(executable or sys.executable), *program.arguments(place)]
