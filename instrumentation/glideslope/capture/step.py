# SPDX-License-Identifier: Apache-2.0
"""Where a step begins and ends: a state machine over what the hooks see.

In: data, backward and optimizer marks with wall-clock times. Out: one closed `Draft` per optimizer step.
Imports events only; knows nothing of torch, so it is tested with plain numbers.

A step closes at the end of `optimizer.step` when one known optimizer steps alone, which is the plain case and makes the
value live at once. It stays open until the next batch request or top-level backward after the
optimizer step when an optimizer is new, when steps were seen that several optimizers share, or when the optimizer runs
inside the backward pass. Where no optimizer hook ever fires, `zero_grad` after a backward closes the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from glideslope.events import Phase

Scalar = Any
"""A float, or a 0-dimensional float64 tensor on a device whose value is not known to the host yet."""

PHASES_KEPT = 4096
"""Phases of a step that are kept apart; beyond (a thousand micro-steps) they are merged into the last of their name."""
RATES_KEPT = 64
"""Learning rates that a step carries at most (optimizers that run inside the backward pass are one per parameter)."""


@dataclass(slots=True)
class LayerDraft:
    """Norms of the parameters of one optimizer, perhaps still on the device."""

    names: tuple[str, ...]
    present: list[int]
    """Positions in `names` that have a gradient."""
    values: Any
    """Array or device tensor of shape (len(present),), float64."""


@dataclass(slots=True)
class Draft:
    """A step while it is being made, and until its device values have reached the host."""

    start_ns: int
    end_ns: int = 0
    loss_sum: Scalar | None = None
    loss_count: int = 0
    micro_steps: int = 0
    lrs: tuple[Scalar, ...] = ()
    total_norm: Scalar | None = None
    """Norm that was computed and not (yet) used for clipping; as torch returned it until the step closes."""
    clips: dict[Any, tuple[Scalar, float]] = field(default_factory=dict)
    """(norm before clipping, max norm) by parameter set."""
    tokens: int = 0
    samples: int = 0
    phases: list[Phase] = field(default_factory=list)
    layers: list[LayerDraft] = field(default_factory=list)
    base: Scalar | None = None
    """Steps that were complete before this one; only on the first step of the process."""
    found_inf: Scalar | None = None
    """Above zero when a fused optimizer left the parameters alone because gradients overflowed."""
    memory: dict[str, int] = field(default_factory=dict)
    overhead_s: float = 0.0


class StepTracker:
    """Turns marks into drafts; every method takes the wall-clock time of its mark in nanoseconds.

    Args:
        closed: gets each draft when its step is complete.
        skipped: told when a gradient scaler skipped the optimizer step; the micro-steps of it are forgotten.
    """

    def __init__(self, closed: Callable[[Draft], None], skipped: Callable[[int], None]) -> None:
        self._closed = closed
        self._skipped = skipped
        self.draft: Draft | None = None
        self.depth = 0
        """How many optimizer steps are nested at the moment (a subclass that calls `super().step()` nests)."""
        self.optimizers_seen = 0
        self._last_end = 0
        self._mark = 0
        self._backward_start = 0
        self._loss_in_closure = False
        self._stepped: set[int] = set()
        self._last_stepped: set[int] = set()
        self._known: set[int] = set()
        self._shared = False
        self._late = False
        self._optimizer_start = 0
        self._rates: dict[int, tuple[Scalar, ...]] = {}
        self._gap: list[tuple[int, int, int]] = []
        self._batches: dict[int, deque[tuple[int, int]]] = {}

    def _open(self, now: int) -> Draft:
        if self.draft is None:
            first = min(now, self._gap[0][0]) if self._gap else now
            self.draft = Draft(self._last_end or first)
            self._mark = self._mark or first
        return self.draft

    def flush(self) -> None:
        """Close the step that waits for a sign that no other optimizer belongs to it."""
        if self._stepped and not self.depth:
            self._close()

    def _close(self) -> None:
        draft = self.draft
        if draft is None:
            return
        self._shared = self._shared or len(self._stepped) > 1
        self._last_stepped, self._stepped = self._stepped, set()
        self.draft = None
        self._last_end = draft.end_ns
        rates = [rate for group in self._rates.values() for rate in group]
        draft.lrs = tuple(rates[:RATES_KEPT])
        self._closed(draft)

    # Data ------------------------------------------------------------------------------------------------------------

    def batch_requested(self) -> None:
        """The loop asks for the next batch."""
        self.flush()

    def batch_delivered(self, start: int, end: int, source: int, tokens: int, samples: int) -> None:
        """A batch of `tokens` and `samples` came out of the dataset `source` (an identity)."""
        if len(self._gap) >= 64:
            first, _, same = self._gap.pop()
            start, source = (first, source) if same == source else (start, source)
        self._gap.append((start, end, source))
        waiting = self._batches.get(source)
        if waiting is None:
            if len(self._batches) >= 16:
                self._batches.pop(next(iter(self._batches)))
            waiting = self._batches[source] = deque(maxlen=2)
        waiting.append((tokens, samples))

    def _spend_gap(self, draft: Draft) -> None:
        """Batches of the set that feeds this backward are `data`; stretches over other sets are evaluation."""
        if not self._gap:
            return
        train = self._gap[-1][2]
        other = 0
        for start, end, source in self._gap:
            if source != train:
                other = other or start
                continue
            if other:
                self._phase(draft, "eval", other, start)
                other = 0
            self._phase(draft, "data", start, end)
        self._mark = max(self._mark, self._gap[-1][1])
        self._gap.clear()
        waiting = self._batches.get(train)
        if waiting:
            tokens, samples = waiting.popleft()
            draft.tokens += tokens
            draft.samples += samples

    # Forward and backward --------------------------------------------------------------------------------------------

    def backward_started(self, now: int, loss: Scalar | None) -> None:
        """A top-level backward begins; `loss` is the scalar handed to it, None when it is no scalar."""
        self.flush()
        draft = self._open(now)
        self._spend_gap(draft)
        self._phase(draft, "forward", self._mark, now)
        self._backward_start = now
        draft.micro_steps += 1
        # An optimizer that evaluates its closure many times (LBFGS) reports the first value as the loss of the step.
        if loss is not None and not (self.depth and self._loss_in_closure):
            draft.loss_sum = loss if draft.loss_sum is None else draft.loss_sum + loss
            draft.loss_count += 1
            self._loss_in_closure = self.depth > 0

    def backward_ended(self, now: int) -> None:
        """The top-level backward returned."""
        self._phase(self._open(now), "backward", self._backward_start, now)
        self._mark = now

    def backward_failed(self, now: int, loss: Scalar | None) -> None:
        """The backward raised: what it counted is taken back."""
        draft = self._open(now)
        draft.micro_steps = max(0, draft.micro_steps - 1)
        if loss is not None and draft.loss_count:
            draft.loss_count -= 1
            draft.loss_sum = draft.loss_sum - loss if draft.loss_count else None
        self._mark = now

    # Optimizer -------------------------------------------------------------------------------------------------------

    def optimizer_started(self, now: int, optimizer: int, inside_backward: bool) -> bool:
        """`optimizer.step` begins; returns True when it is the outermost and counts for a step."""
        self.depth += 1
        if self.depth > 1:
            return False
        if optimizer in self._stepped:
            self._close()
        draft = self._open(now)
        self._late = (
            not self._stepped
            and not draft.micro_steps
            and bool(self._last_stepped)
            and optimizer not in self._last_stepped
        )
        if self._late:
            # The step it belongs to was closed one optimizer too early; from now on steps wait for all of theirs.
            self._shared = True
            self._last_stepped.add(optimizer)
        self._loss_in_closure = False
        self._optimizer_start = now
        if not inside_backward:
            self._mark = now
        return not self._late

    def rates(self, optimizer: int, rates: tuple[Scalar, ...]) -> None:
        """Learning rates that `optimizer` uses in this step."""
        self._rates[optimizer] = rates

    def forget(self, optimizer: int) -> None:
        """The optimizer is gone; its learning rates are not reported any more."""
        self._rates.pop(optimizer, None)
        self._known.discard(optimizer)

    def optimizer_ended(self, now: int, optimizer: int, inside_backward: bool) -> None:
        """`optimizer.step` returned."""
        self.depth = max(0, self.depth - 1)
        if self.depth:
            return
        self.optimizers_seen += 1
        draft = self._open(now)
        if not inside_backward:
            self._phase(draft, "optimizer", max(self._optimizer_start, self._mark), now)
            self._mark = now
        if self._late:
            self._late = False
            return
        draft.end_ns = now
        self._stepped.add(optimizer)
        new = optimizer not in self._known
        self._known.add(optimizer)
        if not (new or self._shared or inside_backward):
            self._close()

    def optimizer_failed(self) -> None:
        """A step raised, so its end was never seen; noticed when the next one begins."""
        self.depth = 0

    def gradients_cleared(self, now: int) -> None:
        """`zero_grad` was called: the boundary of steps whose optimizer has no hooks."""
        if self.optimizers_seen or self.depth or self.draft is None or not self.draft.micro_steps:
            return
        self.draft.end_ns = now
        self._mark = now
        self._close()

    def scaler_updated(self, now: int) -> None:
        """A gradient scaler ended its iteration: without an optimizer step it has skipped one."""
        draft = self.draft
        if draft is None or self._stepped or not draft.micro_steps:
            return
        draft.loss_sum, draft.loss_count, draft.micro_steps = None, 0, 0
        draft.total_norm = None
        draft.clips.clear()
        draft.layers.clear()
        self._skipped(now)

    # Norms -----------------------------------------------------------------------------------------------------------

    def norm_computed(self, now: int, norm: Scalar) -> None:
        """A total gradient norm was computed; `norm` may still be the tensor that the training got."""
        self._open(now).total_norm = norm

    def clipped(self, now: int, parameters: Any, norm: Scalar, max_norm: float) -> None:
        """Gradients of the set `parameters` (a hashable identity) with total norm `norm` are clipped to `max_norm`."""
        if self._stepped and self.draft is not None and parameters in self.draft.clips:
            self.flush()  # a backward that nobody could see (traced into a graph) lies between
        clips = self._open(now).clips
        earlier = clips.get(parameters)
        if earlier is not None:
            norm, max_norm = earlier[0], min(max_norm, earlier[1])
        clips[parameters] = (norm, max_norm)

    def _phase(self, draft: Draft, name: str, start: int, end: int) -> None:
        if end < start:
            return
        phases = draft.phases
        if len(phases) < PHASES_KEPT:
            phases.append(Phase(name, start, end))
            return
        for i in range(len(phases) - 1, -1, -1):
            if phases[i].name == name:
                phases[i] = Phase(name, phases[i].start_ns, phases[i].end_ns + end - start)
                return
