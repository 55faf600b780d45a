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
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from glideslope import semconv
from glideslope.emit import frames
from glideslope.emit.frames import Definition
from glideslope.emit.keep import KeepRule, StepKeeper
from glideslope.emit.table import Append, Budget, SeriesTable, checked_event
from glideslope.emit.text import safe_body, safe_label
from glideslope.emit.wire import Scalar
from glideslope.errors import ConfigError
from glideslope.events import Event, Happened, Heartbeat, LayerStats, MetricsLogged, Severity, StepDone

_REQUIRED = ("service.name", "run.id", "run.attempt", "dist.rank", "host.name")
_WIRE = _REQUIRED
"""Resource attributes that metrics carry; everything else about a rank stands in the info series."""
_FIXED = ("train.loss", "train.grad.norm", "train.grad.norm.clipped", "train.step", "train.step.duration")
_COUNTED = ("train.tokens", "train.samples")
_WHAT = ("loss", "grad.norm", "grad")
"""Non-finite counters that are there from the first step; others appear with their first count."""
_EVENTS, _STEPS, _BEATS, _LOGGED, _ENDS, _FIRST_LAYERS = range(6)
"""Context ids; the kinds of layer statistics follow."""
_NAME_SETS = 64
_NAMED_AT_MOST = 10

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
        start_ns: int | None = None,
    ) -> None:
        """Prepare the contexts.

        `resource` holds at least service.name, run.id, run.attempt, dist.rank and host.name; metrics carry only these,
        spans and logs carry all. `append(kind, payload)` stores a frame. `series_budget` bounds the series of this
        process; points beyond it are counted in train.telemetry.drops. `start_ns` is the start of the counters.
        Raises ConfigError when an attribute is missing.
        """
        if missing := [name for name in _REQUIRED if name not in resource]:
            raise ConfigError(f"the resource lacks {', '.join(missing)}: name them when the writer is made")
        full = _safe({name: value for name, value in resource.items() if value != "" or name in _REQUIRED})
        self._resource, self._append = full, append
        self._start_ns = time.time_ns() if start_ns is None else start_ns
        self._budget = Budget(series_budget)
        self._steps = self._table(_STEPS, frames.METRICS)
        self._beats = self._table(_BEATS, frames.METRICS)
        self._logged = self._table(_LOGGED, frames.METRICS)
        self._exits = self._table(_ENDS, frames.METRICS)
        self._layers: dict[str, SeriesTable] = {}
        self._layer_columns: dict[str, tuple[tuple[str, ...], tuple[str, ...], NDArray[np.intp] | None]] = {}
        self._name_sets: OrderedDict[tuple[str, ...], NDArray[np.intp] | None] = OrderedDict()
        self._keeper = StepKeeper(str(full["run.id"]), str(full["run.attempt"]), keep or KeepRule())
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._nonfinite = dict.fromkeys(_WHAT, 0)
        self._bad_before: frozenset[str] = frozenset()
        self._not_finite_now: set[str] = set()
        self._overhead_s = 0.0
        self._ended = False
        self._lock = threading.RLock()
        self.inert = False
        instance = "/".join(str(full[name]) for name in ("run.id", "run.attempt", "dist.rank"))
        described = Definition(_EVENTS, 0, {"service.instance.id": instance} | full, self._start_ns, ())
        self._append(frames.kind(frames.LOGS, frames.DEFINE), frames.pack_definition(described))
        _living.add(self)

    def write(self, event: Event) -> None:
        """Store one event.

        Raises SemconvError for an event, metric or attribute that the registry does not know, ValueError for layer
        values of the wrong shape.
        """
        if self.inert:
            return
        with self._lock:
            if isinstance(event, StepDone):
                self._step(event)
            elif isinstance(event, LayerStats):
                self._layer_stats(event)
            elif isinstance(event, MetricsLogged):
                self._metrics_logged(event)
            elif isinstance(event, Heartbeat):
                self._heartbeat(event)
            elif isinstance(event, Happened):
                self._happened(event)

    def end(self, time_ns: int | None = None) -> None:
        """Mark every series as ended (NoRecordedValue), once; later values are not written, later events are."""
        if self.inert:
            return
        with self._lock:
            if not self._ended:
                self._ended = True
                now = time.time_ns() if time_ns is None else time_ns
                for table in (self._steps, self._beats, self._logged, *self._layers.values()):
                    table.end(now)

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Points without a series so far, by (class, reason)."""
        return dict(self._budget.dropped)

    def _table(self, context: int, drop_class: int) -> SeriesTable:
        wire = {name: self._resource[name] for name in _WIRE}
        return SeriesTable(context, drop_class, wire, self._start_ns, self._append, self._budget)

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
                table.drop()
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
        values = np.ascontiguousarray(event.values, np.float64).reshape(-1)
        if values.size != len(event.layers) * len(event.stats):
            raise ValueError(
                f"layer values have {values.size} numbers, not {len(event.layers)} layers x {len(event.stats)} stats"
            )
        if infinite := int(np.isinf(values).sum()):
            self._nonfinite[event.kind] = self._nonfinite.get(event.kind, 0) + infinite
        if self._ended:
            return
        known = self._layer_columns.get(event.kind)
        if known is None or known[0] is not event.layers or known[1] != event.stats:
            known = self._layer_columns[event.kind] = (event.layers, event.stats, self._columns(event))
        self._layers[event.kind].write_array(event.time_ns, event.step, values, known[2])

    def _columns(self, event: LayerStats) -> NDArray[np.intp] | None:
        if event.kind not in self._layers:
            self._layers[event.kind] = self._table(_FIRST_LAYERS + len(self._layers), frames.LAYERS)
        rows: list[tuple[tuple[str, str], tuple[Scalar, ...]]] = [
            ((layer, stat), (layer, index, stat)) for index, layer in enumerate(event.layers) for stat in event.stats
        ]
        keys = ("layer.name", "layer.index", "stat")
        return _dense(self._layers[event.kind].indices("train.layer", {"tensor.kind": event.kind}, keys, rows))

    def _metrics_logged(self, event: MetricsLogged) -> None:
        if self._ended or not event.names:
            return
        names = event.names
        if names in self._name_sets:
            columns = self._name_sets[names]
        else:
            rows: list[tuple[str, tuple[Scalar, ...]]] = [(name, (name,)) for name in names]
            columns = _dense(self._logged.indices("train.metric", {}, ("metric.name",), rows))
            self._name_sets[names] = columns
            if len(self._name_sets) > _NAME_SETS:
                self._name_sets.popitem(last=False)
        values = np.asarray(event.values, np.float64)
        finite = np.isfinite(values)
        if not finite.all() or self._not_finite_now:
            self._user_nonfinite(event, names, finite)
        self._logged.write_array(event.time_ns, event.step, values, columns)

    def _user_nonfinite(self, event: MetricsLogged, names: tuple[str, ...], finite: NDArray[np.bool_]) -> None:
        """Count NaN and infinite values; say so once for each name, until the name is finite again."""
        bad = [name for name, good in zip(names, finite.tolist(), strict=True) if not good]
        self._nonfinite["metric"] = self._nonfinite.get("metric", 0) + len(bad)
        fresh = [name for name in bad if name not in self._not_finite_now]
        self._not_finite_now.difference_update(name for name, good in zip(names, finite.tolist(), strict=True) if good)
        if fresh:
            if len(self._not_finite_now) < 10_000:
                self._not_finite_now.update(fresh)
            more = f" and {len(fresh) - _NAMED_AT_MOST} more" if len(fresh) > _NAMED_AT_MOST else ""
            body = f"not finite at step {event.step:g}: {', '.join(fresh[:_NAMED_AT_MOST])}{more}"
            step = int(event.step) if math.isfinite(event.step) else None
            said = Happened("train.nonfinite", event.time_ns, body, Severity.WARN, step, {"what": "metric"})
            self._happened(said)

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
        for name in ("train.run.info", "train.attempt.info", "train.rank.info"):
            labels = {key: self._resource[key] for key in semconv.metric(name).attributes if key in self._resource}
            found.append((index(name, name, labels), 1.0))
        dropped = dict(event.dropped)
        for cause, count in self._budget.dropped.items():
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
        checked_event(event.name, event.attributes)
        if event.name == "train.telemetry.dropped":
            # Counted each time, told once per cause: a stuck device drops every step.
            cause = (str(event.attributes.get("drop.class", "metrics")), str(event.attributes.get("drop.reason", "")))
            self._budget.dropped[cause] = self._budget.dropped.get(cause, 0) + 1
            if self._budget.dropped[cause] > 1:
                return
        marks = _safe({key: value for key, value in event.attributes.items() if value != ""})
        record = {
            "name": event.name,
            "time": event.time_ns,
            "body": safe_body(event.body),
            "severity": int(event.severity),
            "step": event.step,
            "attributes": marks,
        }
        self._append(frames.kind(frames.LOGS, frames.RECORDS), frames.pack_objects(_EVENTS, [record], 1))
        if event.name == "train.run.end":
            self._exit(event, marks)

    def _exit(self, event: Happened, marks: Mapping[str, Scalar]) -> None:
        """Write how the rank ended, as a series that `end` does not mark: alerts look at it when all else is gone."""
        labels = {key: marks[key] for key in semconv.metric("train.attempt.end").attributes if key in marks}
        if self._exits.index("exit", "train.attempt.end", labels) >= 0:
            self._exits.write(event.time_ns, event.step or 0, [event.time_ns / 1e9])


def _safe(attributes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {key: safe_label(value) if isinstance(value, str) else value for key, value in attributes.items()}


def _dense(columns: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """None when the columns are 0, 1, 2, …: the shorter form on disk."""
    return None if np.array_equal(columns, np.arange(columns.size)) else columns


def _silence_in_child() -> None:
    for writer in _living:
        writer.inert = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_in_child)
