# SPDX-License-Identifier: Apache-2.0
"""The wiring of one training process: capture -> emit -> ship, from the first sign of training to interpreter exit.

In: settings and identity. Out: frames in the spool, sent by the shipper. The only module that knows all layers.
Without an explicit `open` nothing is opened (no file, no thread) before the first backward or optimizer step, so
launchers and workers that import torch but never train stay as they are.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import get_ident
from types import TracebackType

from glideslope import env
from glideslope.capture import Recorder
from glideslope.capture.hardware import gpu_uuid
from glideslope.capture.pending import Pending
from glideslope.config import Capture, Export, Home
from glideslope.emit import EventWriter, KeepRule, RequestEncoder, suppress_instrumentation
from glideslope.events import Event, Happened, Heartbeat, Severity, StepDone
from glideslope.run.gate import reason_to_stay_out
from glideslope.run.identity import Identity, note_attempt
from glideslope.ship import Shipper, open_shipper

_log = logging.getLogger("glideslope")
_HEARTBEAT_S = 5.0
_LATER_AT_ONCE = 1000
"""Events from inside a write that one call writes behind its own; what is left waits for the next."""

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


class Session:
    """Instruments one training process; nothing it does raises into training."""

    def __init__(self, identity: Identity, *, capture: Capture, export: Export, home: Home) -> None:
        self.identity = identity
        self._capture, self._export, self._home = capture, export, home
        self._recorder = Recorder(capture, self._take, on_active=self._open, emit_layers=identity.rank == 0)
        self._pid = os.getpid()
        self._writer: EventWriter | None = None
        self._shipper: Shipper | None = None
        self._quit = threading.Event()
        self._beat: threading.Thread | None = None
        self._failure: str | None = None
        self._next_hook: ExceptHook = sys.excepthook
        self._dropped: dict[tuple[str, str], int] = {}
        self._lost = 0
        self._errors: dict[str, int] = {}
        self._counting = threading.RLock()
        self._stopped = False
        self._writing: set[int] = set()
        self._later: deque[Event] = deque()
        self.pending = Pending(lambda reason, values: self.drop("metrics", reason, values, ""))
        """Logged values that are on their way from a device."""

    def start(self, hooks: bool = True) -> None:
        """Install the hooks, now when torch is loaded and otherwise when the script imports it."""
        if hooks:
            self._recorder.install()
        atexit.unregister(self.stop)
        # Early, so that what the script registers later runs before it and can still log.
        atexit.register(self.stop)

    @property
    def exit_timeout_s(self) -> float:
        """Seconds that `stop` may take."""
        return self._export.exit_timeout_s

    @property
    def live(self) -> bool:
        """Whether what is logged now is recorded."""
        return self._writer is not None

    @property
    def over(self) -> bool:
        """Whether this session can never record (again) in this process: stopped, or inherited by a fork."""
        return self._stopped or self.inherited

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's session."""
        return os.getpid() != self._pid

    def open(self) -> bool:
        """Open spool, sender and heartbeat now, because the script asked; False when that failed."""
        return self.live or (not self.over and self._begin())

    def log(self, event: Event) -> None:
        """Record what a person logged; what goes wrong is counted."""
        writer = self._writer
        if writer is None:
            return
        try:
            self._write(writer, event)
        except Exception as error:
            self.failed("log", error)

    def _write(self, writer: EventWriter, event: Event) -> None:
        """Write one event; one that comes from inside a write of this very thread goes behind that.

        That is what finalizers and signal handlers of the training do when they log.
        """
        me, writing = get_ident(), self._writing
        if me in writing:
            self._later.append(event)
            return
        writing.add(me)
        try:
            writer.write(event)
        finally:
            writing.discard(me)
        # Asked after the mark is gone: a handler may have come in between.
        if self._later:
            self._write_later(writer, me)

    def _write_later(self, writer: EventWriter, me: int) -> None:
        for _ in range(_LATER_AT_ONCE):
            try:
                event = self._later.popleft()
            except IndexError:
                return
            self._writing.add(me)
            try:
                writer.write(event)
            finally:
                self._writing.discard(me)

    def drop(self, drop_class: str, reason: str, count: int, told: str) -> None:
        """Count what is not recorded; the first of each cause makes an event, with `told` as its sentence."""
        cause = (drop_class, reason)
        with self._counting:
            first = cause not in self._dropped
            # The event counts for one.
            self._dropped[cause] = self._dropped.get(cause, 0) + count - first
        if first:
            told = told or f"values were dropped: {reason}"
            marks = {"drop.class": drop_class, "drop.reason": reason}
            self.log(Happened("train.telemetry.dropped", time.time_ns(), told, Severity.WARN, attributes=marks))

    def failed(self, name: str, error: Exception) -> None:
        """Count a failure of ours; the first of each kind is said."""
        self._errors[name] = self._errors.get(name, 0) + 1
        if self._errors[name] == 1:
            _log.warning(
                "glideslope: %s failed (%s: %s); training goes on, the value is missing",
                name,
                type(error).__name__,
                error,
            )

    def _take(self, event: Event) -> None:
        writer = self._writer
        if writer is None:
            return
        self._write(writer, event)
        if self.pending.calls and type(event) is StepDone:
            self.pending.drain()

    def _open(self) -> bool:
        """First sign of training; False keeps the process uninstrumented."""
        if self.live:
            # Opened by the script before CUDA began; asked here, because the current device belongs to this thread.
            self._find_gpu()
            return True
        return not self.over and reason_to_stay_out() is None and self._begin()

    def _find_gpu(self) -> None:
        if not self.identity.gpu:
            self.identity = replace(self.identity, gpu=gpu_uuid())

    def _begin(self) -> bool:
        self._find_gpu()
        identity = self.identity
        try:
            resource = identity.resource()
            self._shipper = open_shipper(
                identity.spool_folder(self._home.spool),
                RequestEncoder(),
                self._export,
                quiet=suppress_instrumentation,
                loud=identity.local_rank == 0,
            )
            keep = KeepRule(first=self._capture.trace_first, every=self._capture.trace_every)
            writer = EventWriter(
                resource,
                self._shipper.append,
                keep=keep,
                series_budget=self._capture.series_budget,
                layer_digits=self._capture.layer_digits or None,
                say=_log.warning if identity.local_rank == 0 else _log.debug,
            )
        except Exception as error:
            _log.warning("glideslope stays off in this process: %s: %s", type(error).__name__, error)
            return False
        env.put(env.GLIDESLOPE_ACTIVE.name, str(self._pid))
        env.put(env.GLIDESLOPE_ACTIVE_RUN.name, identity.for_children())
        if identity.local_rank == 0:
            note_attempt(self._home, identity.run_id, identity.attempt)
        self._next_hook, sys.excepthook = sys.excepthook, self._on_exception
        if multiprocessing.parent_process() is not None:
            # Children of multiprocessing that are not spawned end by os._exit, without atexit.
            from multiprocessing.util import Finalize  # noqa: PLC0415  # the training has loaded it in such a process

            Finalize(None, self.stop, exitpriority=-100)
        writer.write(
            Happened(
                name="train.run.start",
                time_ns=time.time_ns(),
                body=f"run {identity.run_id} attempt {identity.attempt} began on rank {identity.rank}",
                attributes={"dist.world_size": identity.world_size, "process.command": " ".join(sys.argv[:1])},
            )
        )
        self._writer = writer
        self._send_heartbeat()
        self._beat = threading.Thread(target=self._keep_beating, name="glideslope-heartbeat", daemon=True)
        try:
            self._beat.start()
        except RuntimeError as error:
            _log.warning("glideslope: no heartbeat thread (%s): the run will look lost while no step completes", error)
        return True

    def note_failure(self, kind: type[BaseException]) -> None:
        """Remember that the training ended with an exception."""
        self._failure = kind.__name__

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.note_failure(kind)
        self._next_hook(kind, error, trace)

    def _keep_beating(self) -> None:
        while not self._quit.wait(_HEARTBEAT_S):
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        try:
            self.pending.drain()
            self._write_heartbeat()
        except Exception:
            _log.debug("heartbeat failed", exc_info=True)

    def _write_heartbeat(self) -> None:
        writer, shipper = self._writer, self._shipper
        if writer is None or shipper is None:
            return
        stats = shipper.stats()
        dropped = dict(stats.dropped)
        for cause, count in list(self._dropped.items()):
            dropped[cause] = dropped.get(cause, 0) + count
        beat = Heartbeat(
            time_ns=time.time_ns(),
            step=self._recorder.step(),
            queue_bytes=stats.queue_bytes,
            lag_s=stats.lag_s,
            sent_points=stats.sent_points,
            replayed_points=stats.replayed_points,
            overhead_s=self._recorder.overhead_s,
            dropped=dropped,
            errors={**self._recorder.errors(), **self._errors},
            gpu=self.identity.gpu,
        )
        self._write(writer, beat)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything logged so far was acknowledged.

        False when `timeout_s` seconds passed, or when the disk or the receiver refused values since the last call.
        """
        deadline = time.monotonic() + timeout_s
        arrived = self.pending.wait(timeout_s)
        shipper = self._shipper
        if shipper is None or os.getpid() != self._pid:
            return True
        done = shipper.flush(max(0.0, deadline - time.monotonic())) and arrived
        lost = sum(count for (name, _), count in shipper.stats().dropped.items() if name in ("metrics", "layers"))
        before, self._lost = self._lost, lost
        return done and lost <= before

    def stop(self, timeout_s: float | None = None) -> None:
        """Remove the hooks, say how the attempt ended and ship what is left; runs at exit, ends within the timeout.

        `timeout_s` defaults to GLIDESLOPE_EXIT_TIMEOUT.
        """
        if self.over:
            return
        self._stopped = True
        atexit.unregister(self.stop)
        deadline = time.monotonic() + (self._export.exit_timeout_s if timeout_s is None else timeout_s)
        self._recorder.uninstall()
        writer, shipper = self._writer, self._shipper
        if writer is None or shipper is None:
            return
        self._quit.set()
        # Half of the time at most: what is on the host already must get its turn.
        self.pending.close(max(0.0, (deadline - time.monotonic()) / 2))
        # The last counts of a run that ends between two heartbeats, drops among them.
        self._send_heartbeat()
        self._writer = None
        try:
            writer.write(self._end_event())
            writer.end()
            shipper.close(max(0.0, deadline - time.monotonic()))
        except Exception:
            _log.debug("closing failed", exc_info=True)
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._next_hook

    def disown(self) -> None:
        """In a forked child: nothing that is logged through the parent's session leaves this process."""
        self._writer = None
        self._counting = threading.RLock()
        self.pending.abandon()

    def _end_event(self) -> Happened:
        if self._failure is None and multiprocessing.parent_process() is not None:
            # A child of multiprocessing prints what ended it itself; its finalizers run while that is on its way.
            raised = sys.exc_info()[0]
            self._failure = None if raised is None or issubclass(raised, SystemExit) else raised.__name__
        identity, failed = self.identity, self._failure is not None
        ending = f"failed with {self._failure}" if failed else "finished"
        return Happened(
            name="train.run.end",
            time_ns=time.time_ns(),
            body=f"run {identity.run_id} attempt {identity.attempt} {ending} on rank {identity.rank}",
            severity=Severity.ERROR if failed else Severity.INFO,
            step=self._recorder.step(),
            attributes={"exit.state": "failed" if failed else "finished", "error.type": self._failure or ""},
        )
