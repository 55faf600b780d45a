# SPDX-License-Identifier: Apache-2.0
"""The training side of emit: events in, compact frames out.

In: events of `glideslope.events`. Out: frames through `append`. Imports events, semconv, errors and its neighbours.
Cost on the training thread: packing floats; no OTLP, no compression but for definitions, no I/O of its own.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition
from glideslope.emit.histograms import LoggedHistograms
from glideslope.emit.keep import KeepRule, StepKeeper
from glideslope.emit.layers import LayerTables, flat
from glideslope.emit.logged import LoggedMetrics
from glideslope.emit.notes import Notes, safe_attributes
from glideslope.emit.table import Append, Budget, SeriesTable
from glideslope.emit.text import safe_body, safe_label
from glideslope.emit.wire import Scalar
from glideslope.errors import ConfigError
from glideslope.events import (
    ConfigLogged,
    Event,
    Happened,
    Heartbeat,
    HistogramLogged,
    LayerStats,
    MetricsLogged,
    Severity,
    StepDone,
    TagsChanged,
    TextLogged,
)

_REQUIRED = ("service.name", "run.id", "run.attempt", "dist.rank", "host.name")
_WIRE = _REQUIRED
"""Resource attributes that metrics carry; everything else about a rank stands in the info series."""
_FIXED = ("train.loss", "train.grad.norm", "train.grad.norm.clipped", "train.step", "train.step.duration")
_COUNTED = ("train.tokens", "train.samples")
_WHAT = ("loss", "grad.norm", "grad")
"""Non-finite counters that are there from the first step; others appear with their first count."""
_EVENTS, _STEPS, _BEATS, _LOGGED, _ENDS, _HISTOGRAMS, _FIRST_LAYERS = range(7)
"""Context ids; the kinds of layer statistics follow."""
_OWN_SERIES = 1000
"""Series for what glideslope itself says, apart from the budget: names without end must not silence the heartbeat."""
_TAGS = 100
"""Tags that a run may have at a time."""


class _Ending(Protocol):
    def end(self, time_ns: int) -> None: ...


_living: weakref.WeakSet[EventWriter] = weakref.WeakSet()


class EventWriter:
    """Maps events to frames. Safe to call from several threads; in a forked child it does nothing."""

    def __init__(
        self,
        resource: Mapping[str, Scalar],
        append: Append,
        *,
        keep: KeepRule | None = None,
        series_budget: int = 50_000,
        layer_digits: int | None = None,
        start_ns: int | None = None,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Prepare the contexts.

        `resource` holds at least service.name, run.id, run.attempt, dist.rank and host.name; metrics carry only these,
        spans and logs carry all. `append(kind, payload)` stores a frame. `series_budget` bounds the series of layers
        and of what people log; points beyond it are counted in train.telemetry.drops. `layer_digits` rounds layer
        statistics to so many significant decimal digits (1..15) when they are sent; the spool keeps them exact.
        `start_ns` is the start of the counters; `say` is told once, in a sentence, when the budget is used up. Raises
        ConfigError when an attribute is missing or a number is off.
        """
        if missing := [name for name in _REQUIRED if name not in resource]:
            raise ConfigError(f"the resource lacks {', '.join(missing)}: name them when the writer is made")
        if layer_digits is not None and not 1 <= layer_digits <= 15:
            raise ConfigError(f"layer_digits must lie in 1..15, got {layer_digits}: set GLIDESLOPE_LAYER_DIGITS=4")
        full = safe_attributes({name: value for name, value in resource.items() if value != "" or name in _REQUIRED})
        self._resource, self._append = full, append
        self._start_ns = time.time_ns() if start_ns is None else start_ns
        self._notes = Notes(_EVENTS, append)
        self._overflowed, self._say = False, say
        self._own, self._budget = Budget(_OWN_SERIES), Budget(series_budget, self._say_overflow)
        self._steps = self._table(_STEPS, frames.METRICS, self._own)
        self._beats = self._table(_BEATS, frames.METRICS, self._own)
        self._exits = self._table(_ENDS, frames.METRICS, self._own)
        named = self._table(_LOGGED, frames.METRICS, self._budget)
        self._logged = LoggedMetrics(named, self._budget, self._happened, self._count_logged)
        self._histograms = LoggedHistograms(
            _HISTOGRAMS, self._wire(), append, self._budget, self._happened, self._count_logged
        )
        digits = layer_digits or 0
        self._layers = LayerTables(
            lambda number: self._table(_FIRST_LAYERS + number, frames.LAYERS, self._budget, digits)
        )
        self._tags: dict[str, int] = {}
        self._keeper = StepKeeper(str(full["run.id"]), str(full["run.attempt"]), keep or KeepRule())
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._nonfinite = dict.fromkeys(_WHAT, 0)
        self._bad_before: frozenset[str] = frozenset()
        self._logged_nonfinite = 0
        self._overhead_s = 0.0
        self._ended = False
        self._writers: dict[type[Any], Callable[[Any], object]] = {
            MetricsLogged: self._metrics_logged,
            StepDone: self._step,
            LayerStats: self._layer_stats,
            Heartbeat: self._heartbeat,
            Happened: self._happened,
            HistogramLogged: self._histogram_logged,
            TextLogged: self._notes.text,
            ConfigLogged: self._notes.config,
            TagsChanged: self._tags_changed,
        }
        self._lock = threading.RLock()
        self.inert = False
        instance = "/".join(str(full[name]) for name in ("run.id", "run.attempt", "dist.rank"))
        described = Definition(_EVENTS, 0, {"service.instance.id": instance} | full, self._start_ns, ())
        self._append(frames.kind(frames.LOGS, frames.DEFINE), frames.pack_definition(described))
        _living.add(self)

    def write(self, event: Event) -> None:
        """Store one event.

        Raises SemconvError for an event, metric or attribute that the registry does not know, ValueError for values of
        the wrong shape.
        """
        if self.inert:
            return
        with self._lock:
            self._writers[type(event)](event)

    def end(self, time_ns: int | None = None) -> None:
        """Mark every series as ended (NoRecordedValue), once; later values are not written, later events are."""
        if self.inert:
            return
        with self._lock:
            if not self._ended:
                self._ended = True
                now = time.time_ns() if time_ns is None else time_ns
                series: _Ending
                for series in (self._steps, self._beats, self._logged, self._histograms, self._layers):
                    series.end(now)

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Points without a series so far, by (class, reason)."""
        found = dict(self._budget.dropped)
        for cause, count in self._own.dropped.items():
            found[cause] = found.get(cause, 0) + count
        return found

    def _wire(self) -> dict[str, Scalar]:
        return {name: self._resource[name] for name in _WIRE}

    def _table(self, context: int, drop_class: int, budget: Budget, digits: int = 0) -> SeriesTable:
        return SeriesTable(context, drop_class, self._wire(), self._start_ns, self._append, budget, digits)

    def _say_overflow(self, drop_class: int, name: str) -> None:
        body = (
            f"{name} found no room among the {self._budget.series:,} series of this process and is dropped, as are all "
            "new ones: put what changes into values, not into names, or raise GLIDESLOPE_SERIES_BUDGET"
        )
        if not self._overflowed:
            self._overflowed = True
            self._say(f"glideslope: {safe_body(body)[:400]}")
        marks = {"drop.class": frames.CLASS_NAMES[drop_class], "metric.name": name}
        self._happened(Happened("train.telemetry.overflow", time.time_ns(), body, Severity.WARN, None, marks))

    def _step(self, event: StepDone) -> None:
        bad = set(event.nonfinite)
        for what, value in (("loss", event.loss), ("grad.norm", event.grad_norm)):
            if value is not None and not math.isfinite(value):
                bad.add(what)
        self._overhead_s += event.overhead_s
        self._keep_traces(event, bool(bad))
        for what in sorted(bad - self._bad_before):
            self._say_nonfinite(what, event)
        self._bad_before = frozenset(bad)
        if self._ended:
            return
        for what in bad:
            self._nonfinite[what] = self._nonfinite.get(what, 0) + 1
        self._counts["train.tokens"] += event.tokens
        self._counts["train.samples"] += event.samples
        table, values = self._steps, self._step_values(event)
        row = [math.nan] * len(table)
        for index, value in values:
            if index >= len(row):
                row += [math.nan] * (index + 1 - len(row))
            if index < 0:
                table.drop("train")
            else:
                row[index] = value
        table.write(event.end_ns, event.step, row)

    def _step_values(self, event: StepDone) -> list[tuple[int, float]]:
        """(position, value) of everything that a step says."""
        index, none = self._steps.index, math.nan
        duration = (event.end_ns - event.start_ns) / 1e9
        fixed = (event.loss, event.grad_norm, event.grad_norm_clipped, event.step, duration)
        found = [
            (index(name, name, {}), none if value is None else float(value))
            for name, value in zip(_FIXED, fixed, strict=True)
        ]
        for name, count in self._counts.items():
            found.append((index(name, name, {}), float(count)))
        for what, count in self._nonfinite.items():
            found.append((index(("what", what), "train.nonfinite", {"what": what}), float(count)))
        for group, rate in enumerate(event.lrs):
            found.append((index(("lr", group), "train.lr", {"optim.group": group}), rate))
        phases: dict[str, int] = {}
        for phase in event.phases:
            phases[phase.name] = phases.get(phase.name, 0) + phase.end_ns - phase.start_ns
        for name, spent in phases.items():
            found.append((index(("phase", name), "train.phase.duration", {"phase": name}), spent / 1e9))
        for name, size in event.memory.items():
            found.append((index(name, name, {}), float(size)))
        return found

    def _say_nonfinite(self, what: str, event: StepDone) -> None:
        """One event when something stops being finite; the counter goes on while it stays so."""
        value = {"loss": event.loss, "grad.norm": event.grad_norm}.get(what)
        body = f"{what} is {'not finite' if value is None else value} at step {event.step}"
        self._happened(Happened("train.nonfinite", event.end_ns, body, Severity.ERROR, event.step, {"what": what}))

    def _keep_traces(self, event: StepDone, nonfinite: bool) -> None:
        kept = self._keeper.take(event, nonfinite)
        if not kept:
            return
        steps = []
        for step in kept:
            phases = [(phase.name, phase.start_ns, phase.end_ns) for phase in step.phases]
            one = {"step": step.step, "start": step.start_ns, "end": step.end_ns, "phases": phases}
            steps.append(one | ({"error": True} if nonfinite and step is event else {}))
        spans = sum(1 + len(step.phases) for step in kept)
        spans += len(kept) if str(self._resource["dist.rank"]) == "0" else 0
        self._append(frames.kind(frames.TRACES, frames.SPANS), frames.pack_objects(_EVENTS, steps, spans))

    def _layer_stats(self, event: LayerStats) -> None:
        values = flat(event)
        if infinite := int(np.isinf(values).sum()):
            self._nonfinite[event.kind] = self._nonfinite.get(event.kind, 0) + infinite
        if not self._ended:
            self._layers.write(event, values)

    def _metrics_logged(self, event: MetricsLogged) -> None:
        if not self._ended:
            self._logged.write(event)

    def _histogram_logged(self, event: HistogramLogged) -> None:
        if not self._ended:
            self._histograms.write(event)

    def _count_logged(self, event: MetricsLogged | HistogramLogged, count: int) -> None:
        """Send the count at once: a process that only logs completes no step that would carry it."""
        self._logged_nonfinite += count
        index = self._beats.index(("what", "metric"), "train.nonfinite", {"what": "metric"})
        if index >= 0:
            row = [math.nan] * index + [float(self._logged_nonfinite)]
            self._beats.write(time.time_ns() if event.timed else event.time_ns, event.step, row)

    def _tags_changed(self, event: TagsChanged) -> None:
        self._notes.tags(event)
        if self._ended:
            return
        for tag in map(safe_label, event.added):
            index = (
                self._beats.index(("tag", tag), "train.run.tag", {"run.tag": tag}) if len(self._tags) < _TAGS else -1
            )
            if index >= 0:
                self._tags[tag] = index
            elif tag not in self._tags:
                self._beats.drop("train.run.tag")
        gone = [self._tags.pop(tag) for tag in map(safe_label, event.removed) if tag in self._tags]
        if gone:
            self._beats.end(event.time_ns, gone)

    def _info(self, name: str) -> int:
        """Position of an info series with what is known of the rank now."""
        labels = {key: self._resource[key] for key in semconv.metric(name).attributes if key in self._resource}
        return self._beats.index((name, *labels), name, labels)

    def _heartbeat(self, event: Heartbeat) -> None:
        if self._ended:
            return
        table, index = self._beats, self._beats.index
        found = [
            (index("beat", "train.heartbeat", {}), event.time_ns / 1e9),
            (index("queue", "train.telemetry.queue", {}), float(event.queue_bytes)),
            (index("lag", "train.telemetry.lag", {}), event.lag_s),
            (index("points", "train.telemetry.points", {}), float(event.sent_points)),
            (index("replays", "train.telemetry.replays", {}), float(event.replayed_points)),
            (index("overhead", "train.telemetry.overhead", {}), max(self._overhead_s, event.overhead_s)),
        ]
        if event.gpu and "hw.id" not in self._resource:
            # Known later than the rest: the series without it ends, so that no join finds the rank twice.
            table.end(event.time_ns, [self._info("train.rank.info")])
            self._resource["hw.id"] = safe_label(event.gpu)
        for name in ("train.run.info", "train.attempt.info", "train.rank.info"):
            found.append((self._info(name), 1.0))
        found += [(position, 1.0) for position in self._tags.values()]
        if self._logged_nonfinite:
            counted = index(("what", "metric"), "train.nonfinite", {"what": "metric"})
            found.append((counted, float(self._logged_nonfinite)))
        dropped = dict(event.dropped)
        for cause, count in self.dropped.items():
            dropped[cause] = dropped.get(cause, 0) + count
        for (kind, reason), count in dropped.items():
            labels = {"drop.class": kind, "drop.reason": reason}
            found.append((index(("drop", kind, reason), "train.telemetry.drops", labels), float(count)))
        for callback, count in event.errors.items():
            found.append((index(("error", callback), "train.telemetry.errors", {"callback": callback}), float(count)))
        row = [math.nan] * len(table)
        for position, value in found:
            if position >= 0:
                row[position] = value
        table.write(event.time_ns, event.step, row)

    def _happened(self, event: Happened) -> None:
        if event.name == "train.telemetry.dropped":
            # Counted each time, told once per cause: a stuck device drops every step.
            cause = (str(event.attributes.get("drop.class", "metrics")), str(event.attributes.get("drop.reason", "")))
            self._own.dropped[cause] = self._own.dropped.get(cause, 0) + 1
            if self._own.dropped[cause] > 1:
                return
        marks = self._notes.happened(event)
        if event.name == "train.run.end":
            self._exit(event, marks)

    def _exit(self, event: Happened, marks: Mapping[str, Scalar]) -> None:
        """Write how the rank ended, as a series that `end` does not mark: alerts look at it when all else is gone."""
        labels = {key: marks[key] for key in semconv.metric("train.attempt.end").attributes if key in marks}
        if self._exits.index("exit", "train.attempt.end", labels) >= 0:
            self._exits.write(event.time_ns, event.step or 0, [event.time_ns / 1e9])


def _silence_in_child() -> None:
    for writer in _living:
        writer.inert = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_in_child)
