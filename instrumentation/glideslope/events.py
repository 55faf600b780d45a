# SPDX-License-Identifier: Apache-2.0
"""What crosses layers on the training path: plain frozen values, made by capture and run, read by health and emit.

In: numbers. Out: dataclasses without behaviour. Imports nothing of glideslope and nothing heavy.
All times are wall-clock nanoseconds since the epoch (int), all durations seconds (float) unless a name says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

PHASES = ("data", "forward", "backward", "optimizer", "collective", "checkpoint", "eval", "other")
"""Values of the `phase` attribute, in the order in which dashboards stack them."""


class Severity(IntEnum):
    """OTLP log severity numbers that events use (OpenTelemetry logs data model)."""

    INFO = 9
    WARN = 13
    ERROR = 17
    FATAL = 21


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of host time inside a step; a phase name may occur several times in a step (accumulation)."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StepDone:
    """One optimizer step was completed on this rank."""

    step: int
    """Completed optimizer steps of the run, counted from 1; continues after a resume."""
    start_ns: int
    end_ns: int
    loss: float | None = None
    """Mean of the losses of the step's micro-steps as handed to backward; None when none was seen."""
    micro_steps: int = 0
    """Top-level backward calls since the previous step."""
    lrs: tuple[float, ...] = ()
    """Learning rate used by this step, one per parameter group."""
    grad_norm: float | None = None
    """Total gradient norm before clipping, as returned by the clip function."""
    grad_norm_clipped: float | None = None
    """Total gradient norm after clipping: min(norm, max_norm)."""
    tokens: int = 0
    """Tokens that this rank saw in this step."""
    samples: int = 0
    """Samples that this rank saw in this step."""
    nonfinite: tuple[str, ...] = ()
    """What was NaN or infinite in this step: names such as `loss`, `grad.norm`."""
    phases: tuple[Phase, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes by registry metric name, such as `train.memory.allocated`."""
    overhead_s: float = 0.0
    """Host seconds that our own callbacks took in this step."""


@dataclass(frozen=True, slots=True)
class LayerStats:
    """One statistic pass over many tensors at one step."""

    step: int
    time_ns: int
    kind: str
    """`param`, `grad`, `update` or `activation`."""
    layers: tuple[str, ...]
    """Parameter or module paths; the same tuple object as long as the set of layers is the same."""
    stats: tuple[str, ...]
    """Names of the columns of `values`."""
    values: Any
    """float64 array of shape (len(layers), len(stats)); NaN where a value is absent."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The process is alive; sent every few seconds, also while no step completes."""

    time_ns: int
    step: int
    queue_bytes: int = 0
    lag_s: float = 0.0
    sent_points: int = 0
    replayed_points: int = 0
    overhead_s: float = 0.0
    dropped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Cumulative count by (class, reason)."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Cumulative count by callback name."""
    gpu: str = ""
    """UUID of the GPU that this rank uses, once it is known."""


@dataclass(frozen=True, slots=True)
class Happened:
    """Something happened at a time and perhaps a step: start, end, non-finite value, restart, disabled callback."""

    name: str
    """An event name of the registry, such as `train.run.start`."""
    time_ns: int
    body: str
    """One sentence for people."""
    severity: Severity = Severity.INFO
    step: float | None = None
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)


class MetricsLogged(NamedTuple):
    """Values that a person logged by name; a tuple, because one is made for each call and a dataclass costs thrice."""

    time_ns: int
    step: float
    names: tuple[str, ...]
    """The same tuple object as long as the set of names is the same."""
    values: Any
    """Sequence of floats or float64 array of shape (len(names),)."""
    timed: bool = False
    """Whether the person gave the time."""
    preview: float | None = None
    """Completion 0..1 of values that may still change; None = committed."""


@dataclass(frozen=True, slots=True)
class HistogramLogged:
    """The distribution of one quantity at one step."""

    time_ns: int
    step: float
    name: str
    edges: Any
    """float64 array of shape (n + 1,), strictly increasing and finite; bin i is (edges[i], edges[i + 1]]."""
    counts: Any
    """float64 array of shape (n,): values per bin, whole numbers."""
    total: float = math.nan
    """Sum of the values; NaN = unknown."""
    nonfinite: int = 0
    """Values that were NaN or infinite and are in no bin."""
    timed: bool = False


@dataclass(frozen=True, slots=True)
class TextLogged:
    """A text that a person logged by name, such as a sample of the model."""

    time_ns: int
    step: float | None
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfigLogged:
    """Settings of the run under flat keys such as `model/width`."""

    time_ns: int
    values: Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class TagsChanged:
    """Tags that the run got and lost."""

    time_ns: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


Event = (
    StepDone
    | LayerStats
    | Heartbeat
    | Happened
    | MetricsLogged
    | HistogramLogged
    | TextLogged
    | ConfigLogged
    | TagsChanged
)
