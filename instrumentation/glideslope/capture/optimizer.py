# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps: step boundary, learning rates, per-parameter gradient norms, where a resumed run stands.

In: the global optimizer hooks, which stand in no traceback, and `zero_grad`. Out: marks for the step tracker.
Imports torch.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from glideslope.capture import device
from glideslope.capture.patch import Around
from glideslope.capture.step import Scalar

if TYPE_CHECKING:
    from glideslope.capture.hooks import Hooks

_STEP_CODE = Optimizer.profile_hook_step(lambda: None).__code__


def _nested() -> bool:
    """Whether another optimizer step is running further up this stack."""
    frame: Any = sys._getframe(1)
    found = 0
    while frame is not None and found < 2:
        found += frame.f_code is _STEP_CODE
        frame = frame.f_back
    return found >= 2


def steps_done(optimizer: Optimizer) -> Scalar:
    """Steps that the optimizer's state says were completed; 0 for a fresh one or one that does not count.

    Torch's Adam family keeps `state[p]["step"]`, as a number, a CPU tensor, or (fused, capturable) a device tensor.
    """
    most: Scalar = 0.0
    for seen, state in enumerate(optimizer.state.values()):
        count = device.read(state.get("step")) if isinstance(state, dict) else None
        if isinstance(count, torch.Tensor):
            return count
        if count is not None:
            most = max(most, count)
        if seen >= 8:
            break
    return most


class Steps:
    """Hooks of the optimizers and of what surrounds them."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._layers = hooks.guarded("layers", hooks.layers.measure)
        self._every = hooks.recorder.settings.layers_every if hooks.recorder.emit_layers else 0
        self._schedulers: dict[int, weakref.ref[Any]] = {}
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._resumed = False
        self._due = False

    def started(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`optimizer.step` begins (pre-hook)."""
        hooks, tracker = self._hooks, self._hooks.tracker
        if not hooks.in_training():
            return
        if tracker.depth and not _nested():
            tracker.optimizer_failed()
        if not tracker.depth:
            hooks.backward.settle()
        inside = bool(torch._C._current_graph_task_id() != -1)
        if not tracker.optimizer_started(hooks.now(), id(optimizer), inside):
            return
        self._watch(optimizer)
        if not self._resumed:
            self._resume(optimizer)
        tracker.rates(id(optimizer), _rates(optimizer))
        draft = tracker.draft
        found = getattr(optimizer, "found_inf", None)
        if draft is not None and isinstance(found, torch.Tensor):
            draft.found_inf = device.read(found)
        upcoming = self._hooks.recorder.publisher.step + 1
        self._due = bool(self._every) and not inside and upcoming % self._every == 0
        if self._due and not _has_closure(args, kwargs):
            self._measure(optimizer)

    def ended(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`optimizer.step` returned (post-hook)."""
        hooks, tracker = self._hooks, self._hooks.tracker
        if not hooks.recorder.active or not tracker.depth:
            return
        # With a closure, gradients exist only once it ran; the update does not touch them.
        if tracker.depth == 1 and self._due and _has_closure(args, kwargs):
            self._measure(optimizer)
        tracker.optimizer_ended(hooks.now(), id(optimizer), bool(torch._C._current_graph_task_id() != -1))

    def _measure(self, optimizer: Optimizer) -> None:
        draft = self._hooks.tracker.draft
        measured = self._layers(optimizer)
        if draft is not None and measured is not None:
            draft.layers.append(measured)

    def _resume(self, optimizer: Optimizer) -> None:
        """Take the number of steps completed so far from the optimizer, else from its scheduler."""
        self._resumed = True
        base = steps_done(optimizer)
        if not isinstance(base, torch.Tensor) and not base:
            scheduler = self._schedulers.get(id(optimizer), _nothing)()
            base = float(getattr(scheduler, "last_epoch", 0) or 0)
        draft = self._hooks.tracker.draft
        if draft is not None:
            draft.base = base
        if not isinstance(base, torch.Tensor):
            self._hooks.recorder.publisher.continue_from(int(base))

    def _watch(self, optimizer: Optimizer) -> None:
        key = id(optimizer)
        if key not in self._watched:
            forget = self._hooks.tracker.forget
            watched = self._watched

            def gone(_reference: object) -> None:
                watched.pop(key, None)
                forget(key)

            watched[key] = weakref.ref(optimizer, gone)

    def scheduler_made(self, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        """A learning-rate scheduler is being constructed."""
        scheduler = args[0]
        self._schedulers[id(scheduler.optimizer)] = weakref.ref(scheduler)

    def gradients_cleared(self, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        """`zero_grad` of an optimizer or module begins."""
        if self._hooks.recorder.active and self._hooks.recorder.on_training_thread():
            self._hooks.tracker.gradients_cleared(self._hooks.now())


def _nothing() -> None:
    return None


def _has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return (len(args) > 1 and args[1] is not None) or kwargs.get("closure") is not None


def _rates(optimizer: Optimizer) -> tuple[Scalar, ...]:
    rates = (device.read(group.get("lr")) for group in optimizer.param_groups)
    return tuple(float("nan") if rate is None else rate for rate in rates)


def attach(hooks: Hooks) -> list[Any]:
    """Register the optimizer hooks, patch `zero_grad` and scheduler construction; returns handles to remove."""
    steps = Steps(hooks)
    hooks.patch("scheduler", [(LRScheduler, "_initial_step")], Around(steps.scheduler_made))
    for owner in (Optimizer, torch.nn.Module):
        hooks.patch("zero_grad", [(owner, "zero_grad")], Around(steps.gradients_cleared))
    return [
        register_optimizer_step_pre_hook(hooks.hook("optimizer.pre", steps.started)),
        register_optimizer_step_post_hook(hooks.hook("optimizer.post", steps.ended)),
    ]
