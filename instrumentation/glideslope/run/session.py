# SPDX-License-Identifier: Apache-2.0
"""The wiring of one training process: capture -> emit -> ship, from the first sign of training to interpreter exit.

In: settings and identity. Out: frames in the spool, sent by the shipper. The only module that knows all layers.
Nothing is opened (no file, no thread) before the first backward or optimizer step, so launchers and workers that
import torch but never train stay as they are.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from glideslope import env
from glideslope.capture import Recorder
from glideslope.capture.hardware import gpu_uuid
from glideslope.config import Capture, Export, Home
from glideslope.emit import EventWriter, KeepRule, RequestEncoder, suppress_instrumentation
from glideslope.events import Event, Happened, Heartbeat, Severity
from glideslope.run.gate import reason_to_stay_out
from glideslope.run.identity import Identity, note_attempt
from glideslope.ship import Shipper, open_shipper

_log = logging.getLogger("glideslope")
_HEARTBEAT_S = 5.0

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

    def start(self) -> None:
        """Install the hooks, now when torch is loaded and otherwise when the script imports it."""
        self._recorder.install()

    def _take(self, event: Event) -> None:
        writer = self._writer
        if writer is not None and os.getpid() == self._pid:
            writer.write(event)

    def _open(self) -> bool:
        """Open spool, sender and heartbeat at the first sign of training; False keeps the process uninstrumented."""
        if os.getpid() != self._pid or reason_to_stay_out() is not None:
            return False
        if not self.identity.gpu:
            self.identity = replace(self.identity, gpu=gpu_uuid())
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
            self._writer = EventWriter(resource, self._shipper.append, keep=keep)
        except Exception as error:
            _log.warning("glideslope stays off in this process: %s: %s", type(error).__name__, error)
            return False
        env.put(env.GLIDESLOPE_ACTIVE.name, str(self._pid))
        if identity.local_rank == 0:
            note_attempt(self._home, identity.run_id, identity.attempt)
        self._next_hook, sys.excepthook = sys.excepthook, self._on_exception
        atexit.register(self.stop)
        self._writer.write(
            Happened(
                name="train.run.start",
                time_ns=time.time_ns(),
                body=f"run {identity.run_id} attempt {identity.attempt} began on rank {identity.rank}",
                attributes={"dist.world_size": identity.world_size, "process.command": " ".join(sys.argv[:1])},
            )
        )
        self._send_heartbeat()
        self._beat = threading.Thread(target=self._keep_beating, name="glideslope-heartbeat", daemon=True)
        self._beat.start()
        return True

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._failure = kind.__name__
        self._next_hook(kind, error, trace)

    def _keep_beating(self) -> None:
        while not self._quit.wait(_HEARTBEAT_S):
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        try:
            self._write_heartbeat()
        except Exception:
            _log.debug("heartbeat failed", exc_info=True)

    def _write_heartbeat(self) -> None:
        if self._writer is None or self._shipper is None:
            return
        stats = self._shipper.stats()
        self._writer.write(
            Heartbeat(
                time_ns=time.time_ns(),
                step=self._recorder.step(),
                queue_bytes=stats.queue_bytes,
                lag_s=stats.lag_s,
                sent_points=stats.sent_points,
                replayed_points=stats.replayed_points,
                overhead_s=self._recorder.overhead_s,
                dropped=stats.dropped,
                errors=self._recorder.errors(),
            )
        )

    def stop(self) -> None:
        """Remove the hooks, say how the attempt ended and ship what is left within the exit timeout; runs at exit."""
        writer, shipper = self._writer, self._shipper
        if os.getpid() != self._pid:
            return
        self._recorder.uninstall()
        if writer is None or shipper is None:
            return
        self._quit.set()
        # The last counts of a run that ends between two heartbeats, drops among them.
        self._send_heartbeat()
        self._writer = None
        try:
            writer.write(self._end_event())
            writer.end()
            shipper.close(self._export.exit_timeout_s)
        except Exception:
            _log.debug("closing failed", exc_info=True)
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._next_hook

    def _end_event(self) -> Happened:
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
