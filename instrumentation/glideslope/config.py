# SPDX-License-Identifier: Apache-2.0
"""Settings as frozen dataclasses: ports, folders, endpoint, what to capture.

In: arguments or the environment (through `env`). Out: checked values. Imports env and errors only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from glideslope import env
from glideslope.errors import ConfigError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """TCP ports of the stack on loopback; `shifted` moves all of them together so that several stacks fit one host."""

    otlp_grpc: int = 4317
    otlp_http: int = 4318
    collector_health: int = 13133
    collector_metrics: int = 8888
    live: int = 8428
    curves: int = 8429
    logs: int = 9428
    traces_query: int = 16686
    traces_query_grpc: int = 16685
    traces_otlp: int = 14318
    vmalert: int = 8880
    alertmanager: int = 9093
    grafana: int = 3000
    server: int = 8700
    gpu_exporter: int = 9400

    def shifted(self, offset: int) -> Ports:
        """Return the same ports moved by `offset`; raises ConfigError when one leaves 1024..65535."""
        moved = {f.name: getattr(self, f.name) + offset for f in fields(self)}
        for name, port in moved.items():
            if not 1024 <= port <= 65535:
                raise ConfigError(f"port {name}={port} is outside 1024..65535: choose another GLIDESLOPE_PORT_OFFSET")
        return Ports(**moved)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Ports:
        """Default ports moved by GLIDESLOPE_PORT_OFFSET."""
        return cls().shifted(env.GLIDESLOPE_PORT_OFFSET.get(environ))

    def url(self, name: str) -> str:
        """Base URL of a port by its field name, for example `url("live")`."""
        return f"http://{LOOPBACK}:{getattr(self, name)}"


@dataclass(frozen=True, slots=True)
class Home:
    """The state folder ($GLIDESLOPE_HOME) and the folders inside it; nothing is created by asking."""

    root: Path

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Home:
        """$GLIDESLOPE_HOME, or ~/.glideslope."""
        named = env.GLIDESLOPE_HOME.get(environ)
        return cls(Path(named).expanduser().absolute() if named else Path.home() / ".glideslope")

    @property
    def bin(self) -> Path:
        """Built programs, named by the hash of their inputs."""
        return self.root / "bin"

    @property
    def run(self) -> Path:
        """Process ids and the supervisor's state."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """One log file per program."""
        return self.root / "log"

    @property
    def config(self) -> Path:
        """Config files with ports and folders filled in."""
        return self.root / "config"

    @property
    def data(self) -> Path:
        """Data folders of the stores."""
        return self.root / "data"

    @property
    def spool(self) -> Path:
        """Values that wait to be shipped; GLIDESLOPE_SPOOL names another place."""
        named = env.GLIDESLOPE_SPOOL.get()
        return Path(named).expanduser().absolute() if named else self.root / "spool"

    @property
    def token(self) -> Path:
        """File (mode 0600) with the bearer token that everything which changes something asks for."""
        return self.root / "token"


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT={text!r} is no HTTP URL: write for example http://127.0.0.1:4318 (OTLP/HTTP)"
        )
    return text.rstrip("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """Where telemetry goes and how long exit may wait for it."""

    endpoint: str = "http://127.0.0.1:4318"
    """Base URL of an OTLP/HTTP receiver; the signal paths (/v1/metrics, …) are appended."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra HTTP headers, such as an authorization."""
    certificate: str = ""
    """PEM file that verifies an https endpoint; empty = the system's."""
    exit_timeout_s: float = 5.0
    """Seconds that interpreter exit may wait for the last values."""
    quota_bytes: int = 2 << 30
    """Most bytes one process's spool may hold on disk before classes of data are dropped, counted."""

    def __post_init__(self) -> None:
        _endpoint(self.endpoint)
        if not 0 <= self.exit_timeout_s <= 300:
            raise ConfigError(f"GLIDESLOPE_EXIT_TIMEOUT must lie in 0..300 s, got {self.exit_timeout_s}")
        if self.quota_bytes < 1 << 20:
            raise ConfigError(f"a spool needs at least 1 MiB, got {self.quota_bytes} bytes")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Export:
        """OTEL_EXPORTER_OTLP_* and GLIDESLOPE_EXIT_TIMEOUT; the local collector when no endpoint is named."""
        endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT.get(environ) or Ports.from_env(environ).url("otlp_http")
        return cls(
            endpoint=_endpoint(endpoint),
            headers=env.OTEL_EXPORTER_OTLP_HEADERS.get(environ),
            certificate=env.OTEL_EXPORTER_OTLP_CERTIFICATE.get(environ),
            exit_timeout_s=env.GLIDESLOPE_EXIT_TIMEOUT.get(environ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """What is measured and how often."""

    layers_every: int = 10
    """Per-parameter gradient norms every this many optimizer steps; 0 turns them off."""
    layer_digits: int = 0
    """Layer statistics are rounded to this many significant decimal digits in the store, 4 for a third of the disk;
    0 = not rounded."""
    series_budget: int = 50_000
    """Series of layers and of logged names that one process may have."""
    trace_first: int = 20
    """The traces of this many first steps are kept."""
    trace_every: int = 100
    """One step's trace in this many is kept, the same steps on all ranks; 0 keeps only the first and the anomalous."""

    def __post_init__(self) -> None:
        for name in ("layers_every", "layer_digits", "series_budget", "trace_first", "trace_every"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)}: set GLIDESLOPE_{name.upper()}")
        if self.layer_digits > 15:
            raise ConfigError(f"layer_digits must lie in 0..15, got {self.layer_digits}: set GLIDESLOPE_LAYER_DIGITS=4")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Capture:
        """GLIDESLOPE_LAYERS_EVERY, _LAYER_DIGITS, _SERIES_BUDGET, _TRACE_FIRST and _TRACE_EVERY."""
        return cls(
            layers_every=env.GLIDESLOPE_LAYERS_EVERY.get(environ),
            layer_digits=env.GLIDESLOPE_LAYER_DIGITS.get(environ),
            series_budget=env.GLIDESLOPE_SERIES_BUDGET.get(environ),
            trace_first=env.GLIDESLOPE_TRACE_FIRST.get(environ),
            trace_every=env.GLIDESLOPE_TRACE_EVERY.get(environ),
        )
