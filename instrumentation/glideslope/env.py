# SPDX-License-Identifier: Apache-2.0
"""The table of environment variables: the only reader of `os.environ` in the package.

In: the process environment. Out: typed values, or ConfigError with the remedy. Imports errors only.
`OTEL_*` variables keep the meaning that OpenTelemetry gives them; `GLIDESLOPE_*` exist for what it has no name for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from glideslope.errors import ConfigError

T = TypeVar("T")
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


def boolean(text: str) -> bool:
    """Read true/false, yes/no, on/off, 1/0; raises ValueError for anything else."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("write true or false")


def pairs(text: str) -> dict[str, str]:
    """Read `key=value,key=value` with percent-encoded values, as in OTEL_RESOURCE_ATTRIBUTES and OTEL_*_HEADERS."""
    found: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError("write key=value,key=value")
        found[key.strip()] = unquote(value.strip())
    return found


def names(text: str) -> tuple[str, ...]:
    """Read a comma-separated list, without blanks."""
    return tuple(filter(None, (piece.strip() for piece in text.split(","))))


_NONE: tuple[str, ...] = ()
_EMPTY: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """One environment variable: its name, how its text is read, its default and what it is for."""

    name: str
    read: Callable[[str], T]
    default: T
    meaning: str

    def get(self, environ: Mapping[str, str] | None = None) -> T:
        """Return the value, or the default when the variable is absent or empty.

        `environ` defaults to the process environment. Raises ConfigError when the text cannot be read.
        """
        text = (os.environ if environ is None else environ).get(self.name, "")
        if not text.strip():
            return self.default
        try:
            return self.read(text)
        except ValueError as error:
            raise ConfigError(f"{self.name}={text!r} cannot be read ({error}): {self.meaning}") from None


def environment() -> dict[str, str]:
    """A copy of the process environment, for starting child processes."""
    return dict(os.environ)


def put(name: str, value: str) -> None:
    """Set a variable of this process, so that its children see it."""
    os.environ[name] = value


# What OpenTelemetry defines.
OTEL_SDK_DISABLED = Variable("OTEL_SDK_DISABLED", boolean, False, "true turns all instrumentation off")
OTEL_SERVICE_NAME = Variable("OTEL_SERVICE_NAME", str, "", "service.name of the training")
OTEL_RESOURCE_ATTRIBUTES = Variable("OTEL_RESOURCE_ATTRIBUTES", pairs, _EMPTY, "extra resource attributes, key=value,…")
OTEL_EXPORTER_OTLP_ENDPOINT = Variable("OTEL_EXPORTER_OTLP_ENDPOINT", str, "", "base URL of the collector (HTTP)")
OTEL_EXPORTER_OTLP_HEADERS = Variable("OTEL_EXPORTER_OTLP_HEADERS", pairs, _EMPTY, "extra headers, key=value,…")
OTEL_EXPORTER_OTLP_CERTIFICATE = Variable(
    "OTEL_EXPORTER_OTLP_CERTIFICATE", str, "", "PEM file that verifies the collector"
)
OTEL_PYTHON_DISABLED_INSTRUMENTATIONS = Variable(
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", names, _NONE, "instrumentations that stay off, or *"
)

# What only glideslope has.
GLIDESLOPE_HOME = Variable("GLIDESLOPE_HOME", str, "", "state folder; default ~/.glideslope")
GLIDESLOPE_PORT_OFFSET = Variable("GLIDESLOPE_PORT_OFFSET", int, 0, "added to every port of the stack")
GLIDESLOPE_RUN_ID = Variable("GLIDESLOPE_RUN_ID", str, "", "run.id; the same on all ranks")
GLIDESLOPE_RUN_NAME = Variable("GLIDESLOPE_RUN_NAME", str, "", "run.name, free text")
GLIDESLOPE_RUN_ATTEMPT = Variable("GLIDESLOPE_RUN_ATTEMPT", int, -1, "run.attempt, 0 for the first start")
GLIDESLOPE_SPOOL = Variable("GLIDESLOPE_SPOOL", str, "", "spool folder; default $GLIDESLOPE_HOME/spool")
GLIDESLOPE_GPU_UUIDS = Variable(
    "GLIDESLOPE_GPU_UUIDS", names, _NONE, "GPU UUIDs by local rank, where the process cannot ask the driver"
)
GLIDESLOPE_ACTIVE = Variable(
    "GLIDESLOPE_ACTIVE", str, "", "set by an instrumented process so that its children stay out"
)
GLIDESLOPE_ACTIVE_RUN = Variable(
    "GLIDESLOPE_ACTIVE_RUN", str, "", "set by an instrumented process: the run that its multiprocessing children join"
)
GLIDESLOPE_STRICT = Variable(
    "GLIDESLOPE_STRICT", boolean, False, "true makes bad values raise InvalidValueError instead of being dropped"
)
GLIDESLOPE_EXIT_TIMEOUT = Variable(
    "GLIDESLOPE_EXIT_TIMEOUT", float, 5.0, "seconds that exit may wait for the last values"
)
GLIDESLOPE_LAYERS_EVERY = Variable(
    "GLIDESLOPE_LAYERS_EVERY", int, 10, "layer statistics every this many steps; 0 = off"
)
GLIDESLOPE_LAYER_DIGITS = Variable(
    "GLIDESLOPE_LAYER_DIGITS", int, 0, "significant decimal digits of layer statistics in the store; 0 = all"
)
GLIDESLOPE_SERIES_BUDGET = Variable(
    "GLIDESLOPE_SERIES_BUDGET", int, 50_000, "series that one process may have; those beyond are dropped, counted"
)
GLIDESLOPE_TRACE_FIRST = Variable("GLIDESLOPE_TRACE_FIRST", int, 20, "keep the traces of this many first steps")
GLIDESLOPE_TRACE_EVERY = Variable("GLIDESLOPE_TRACE_EVERY", int, 100, "keep one step's trace in this many; 0 = none")

# Set by launchers; read for identity.
RANK = Variable("RANK", int, -1, "global rank, set by torchrun")
LOCAL_RANK = Variable("LOCAL_RANK", int, -1, "rank on this node, set by torchrun")
LOCAL_WORLD_SIZE = Variable("LOCAL_WORLD_SIZE", int, -1, "number of ranks on this node, set by torchrun")
WORLD_SIZE = Variable("WORLD_SIZE", int, -1, "number of ranks, set by torchrun")
TORCHELASTIC_RUN_ID = Variable("TORCHELASTIC_RUN_ID", str, "", "rendezvous id of torchrun")
TORCHELASTIC_RESTART_COUNT = Variable("TORCHELASTIC_RESTART_COUNT", int, 0, "restarts so far, set by torchrun")
SLURM_JOB_ID = Variable("SLURM_JOB_ID", str, "", "Slurm job")
SLURM_RESTART_COUNT = Variable("SLURM_RESTART_COUNT", int, 0, "requeues so far, set by Slurm")
SLURM_PROCID = Variable("SLURM_PROCID", int, -1, "global rank, set by Slurm")
SLURM_LOCALID = Variable("SLURM_LOCALID", int, -1, "rank on this node, set by Slurm")
SLURM_NTASKS = Variable("SLURM_NTASKS", int, -1, "number of ranks, set by Slurm")
CUDA_VISIBLE_DEVICES = Variable("CUDA_VISIBLE_DEVICES", names, _NONE, "GPUs that CUDA shows to the process")
MASTER_ADDR = Variable("MASTER_ADDR", str, "", "rendezvous host, set by torchrun")
MASTER_PORT = Variable("MASTER_PORT", str, "", "rendezvous port, set by torchrun")
PYTHONPATH = Variable("PYTHONPATH", str, "", "where Python looks for modules first")


def binary_override(program: str) -> Variable[str]:
    """The variable that names a program of the stack by path, for example GLIDESLOPE_BIN_VICTORIA_METRICS."""
    return Variable(f"GLIDESLOPE_BIN_{program.upper().replace('-', '_')}", str, "", f"path of {program} to use")
