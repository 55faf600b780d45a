# SPDX-License-Identifier: Apache-2.0
"""Everything that is patched into torch, put together and taken out again.

In: a recorder, torch loaded. Out: patched functions and registered hooks. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from glideslope.capture import dataloader, loss, norms, optimizer
from glideslope.capture.device import Drain, read
from glideslope.capture.dynamo import compiling, keep_out, keep_out_deep, optimizer_hook
from glideslope.capture.layers import GradientNorms
from glideslope.capture.memory import Memory
from glideslope.capture.model import ModuleTree
from glideslope.capture.patch import Around, Patches
from glideslope.capture.step import Draft, StepTracker
from glideslope.events import Happened, Severity

if TYPE_CHECKING:
    from glideslope.capture.recorder import Recorder


class Hooks:
    """Attaches a recorder to torch; `detach` restores every replaced object and removes every hook."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.now = recorder.clock_ns
        self.guard = recorder.guard
        self.tracker = StepTracker(self._step_closed, recorder.publisher.step_was_skipped)
        self.tree = ModuleTree()
        self.layers = GradientNorms(self.tree)
        self.drain = Drain(recorder.publisher.publish, self.guard.failed, self._dropped)
        self.backward: loss.Backward
        self._memory = Memory()
        self._read_memory = self.guarded("memory", self._memory.read)
        self._overhead_before = 0.0
        self._patches = Patches(compiling, keep_out)
        self._handles: list[Any] = []
        if get_worker_info() is not None:
            self.guard.off = True
            return
        self._handles += self.tree.register(self.guarded)
        loss.attach(self)
        norms.attach(self)
        dataloader.attach(self)
        self._handles += optimizer.attach(self)

    def patch(self, name: str, places: list[tuple[Any, str]], around: Around) -> bool:
        """Wrap a function at all `places` that hold it; the callbacks get protected under `name`."""
        protected = Around(*(self.guarded(name, callback) for callback in around))
        return self._patches.apply(places, protected)

    def hook(self, name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Protect an optimizer hook, so that it also fires in a compiled step."""
        return optimizer_hook(self.guard.protect(name, callback))

    def guarded(self, name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Protect a callback, or a part of one that may fail by itself, and keep the compiler out of it."""
        return keep_out_deep(self.guard.protect(name, callback))

    def in_training(self) -> bool:
        """Whether a mark seen now belongs to the training; the first one asks the session."""
        if not self.recorder.active:
            if not self.recorder.activate():
                self._withdraw()
                return False
            return True
        return self.recorder.on_training_thread() or inside_backward()

    def _withdraw(self) -> None:
        # Optimizer hooks may be running at this moment: torch iterates over their table, so they stay, inert.
        self._patches.restore()

    def _step_closed(self, draft: Draft) -> None:
        draft.total_norm = None if draft.clips or draft.total_norm is None else read(draft.total_norm)
        draft.memory = self._read_memory(draft.end_ns) or {}
        spent = self.guard.overhead_s
        draft.overhead_s, self._overhead_before = spent - self._overhead_before, spent
        self.drain.submit(draft)

    def _dropped(self, reason: str) -> None:
        self.recorder.publisher.send(
            Happened(
                "train.telemetry.dropped",
                self.now(),
                f"values of a step were dropped: {reason}",
                Severity.WARN,
                attributes={"drop.class": "metrics", "drop.reason": reason},
            )
        )

    def detach(self) -> None:
        """Publish what waits, remove every hook, put every original back."""
        self._patches.restore()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.guard.protect("flush", self.tracker.flush)()
        self.guard.protect("drain", self.drain.close)()
        self._memory.close()


def inside_backward() -> bool:
    """Whether the autograd engine is running a graph on this thread (recomputation, hooks, optimizer in backward)."""
    return bool(torch._C._current_graph_task_id() != -1)
