# SPDX-License-Identifier: Apache-2.0
"""The face of capture: install, uninstall, and the events of a training.

In: settings and a sink. Out: events. Does not import torch: patching happens when the training has imported it.

The sink is called on the training thread; once a value lives on a CUDA device, on a drain thread as well. Forked
children (DataLoader workers among them) inherit a recorder that is off.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import wrapt

from glideslope.capture.guard import Guard
from glideslope.capture.publish import Publisher
from glideslope.config import Capture
from glideslope.events import Event


class Attached(Protocol):
    """What is patched into torch at the moment."""

    def detach(self) -> None:
        """Put everything back and publish what waits."""


class Recorder:
    """Watches the training of this process through hooks alone.

    Args:
        settings: what is measured and how often.
        sink: gets each event; what it raises is counted, never passed on.
        first_step: number of the first step that this process completes; None continues the optimizer's own count.
        clock_ns: wall clock, nanoseconds since the epoch.
        on_active: called once, on the training thread, at the first backward or optimizer step, before the first event.
            Returning False (or raising) leaves the process uninstrumented.
        emit_layers: whether this process sends layer statistics; one data-parallel replica should.
    """

    def __init__(
        self,
        settings: Capture,
        sink: Callable[[Event], None],
        *,
        first_step: int | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        on_active: Callable[[], Any] | None = None,
        emit_layers: bool = True,
    ) -> None:
        self.settings = settings
        self.emit_layers = emit_layers
        self.clock_ns = clock_ns
        self.guard = Guard(lambda event: self.publisher.send(event), clock_ns)
        self.publisher = Publisher(sink, self.guard, first_step)
        self._on_active = on_active
        self._active = False
        self._training_thread = 0
        self._attached: Attached | None = None
        self._wanted = False
        self._waiting = False

    def install(self) -> None:
        """Patch torch now if it is loaded, else when it gets imported; calling it again does nothing."""
        if self._wanted:
            return
        self._wanted = True
        self.guard.off = False
        _disable_in_children(self)
        if not self._waiting:
            self._waiting = True
            # A weak reference, because an import hook cannot be taken back.
            wrapt.register_post_import_hook(_attach_to(weakref.ref(self)), "torch")
        else:
            self._attach()

    def uninstall(self) -> None:
        """Publish what waits and put back every object that was replaced; nothing is measured from then on."""
        self._wanted = False
        attached, self._attached = self._attached, None
        if attached is not None:
            attached.detach()
        self.guard.off = True

    def step(self) -> int:
        """The last completed step whose event was sent."""
        return self.publisher.step

    def errors(self) -> Mapping[str, int]:
        """Failures of our own callbacks so far, by callback name."""
        return self.guard.errors()

    @property
    def overhead_s(self) -> float:
        """Host seconds that callbacks took from the training thread so far."""
        return self.guard.overhead_s

    @property
    def skipped_steps(self) -> int:
        """Optimizer steps that a gradient scaler skipped because gradients overflowed."""
        return self.publisher.skipped

    @property
    def active(self) -> bool:
        """Whether a training was seen and the session agreed to record it."""
        return self._active and not self.guard.off

    def activate(self) -> bool:
        """First sign of training: ask the session once; returns whether anything is recorded on this thread."""
        if self._active:
            return True
        self._active = True
        self._training_thread = threading.get_ident()
        agreed = False
        try:
            agreed = self._on_active is None or self._on_active() is not False
        finally:
            if not agreed:
                self.guard.off = True
        return agreed

    def on_training_thread(self) -> bool:
        """Whether this is the thread of the first backward or optimizer step; true while none was seen."""
        return not self._active or threading.get_ident() == self._training_thread

    def _attach(self) -> None:
        if not self._wanted or self._attached is not None:
            return
        try:
            self._attached = importlib.import_module("glideslope.capture.hooks").Hooks(self)
        except Exception as error:
            self.guard.failed("install", error)


def _attach_to(reference: weakref.ref[Recorder]) -> Callable[[Any], None]:
    def attach(_torch: Any) -> None:
        recorder = reference()
        if recorder is not None:
            recorder._attach()

    return attach


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
_fork_hook = threading.Event()


def _disable_in_children(recorder: Recorder) -> None:
    _recorders.add(recorder)
    if not _fork_hook.is_set() and hasattr(os, "register_at_fork"):
        _fork_hook.set()
        os.register_at_fork(after_in_child=_child_was_forked)


def _child_was_forked() -> None:
    for recorder in list(_recorders):
        recorder.guard.off = True
