# SPDX-License-Identifier: Apache-2.0
"""A step whose values have reached the host becomes events.

In: drafts with plain numbers, in the order of the steps. Out: `StepDone`, `LayerStats`, `Happened` to the sink, which
is not trusted not to raise. Imports events and guard, never torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glideslope.capture.guard import Guard
from glideslope.capture.step import Draft
from glideslope.events import Event, LayerStats, StepDone


class Publisher:
    """Numbers the steps and hands events to the sink.

    Args:
        sink: gets every event; called on the thread that publishes.
        guard: counts failures of the sink.
        first_step: number of the first step of this process; None continues what the optimizer or scheduler says.
    """

    def __init__(self, sink: Callable[[Event], None], guard: Guard, first_step: int | None) -> None:
        self._sink = sink
        self._guard = guard
        self._first_step = first_step
        self._started = False
        self.step = 0 if first_step is None else max(0, first_step - 1)
        """Last completed step."""
        self.skipped = 0
        """Steps that an overflow of scaled gradients kept from updating the parameters."""
        self._carried_tokens = 0
        self._carried_samples = 0

    def send(self, event: Event) -> None:
        """Hand one event to the sink; its failures are counted under `sink`."""
        try:
            self._sink(event)
        except Exception as error:
            # The report of a broken sink would go to the broken sink: it is counted and logged.
            self._guard.failed("sink", error)

    def step_was_skipped(self, _now_ns: int = 0) -> None:
        """A gradient scaler left the parameters alone; no step was completed."""
        self.skipped += 1

    def continue_from(self, completed: int) -> None:
        """Say how many steps were complete before the first of this process, as soon as that is known."""
        if not self._started and self._first_step is None:
            self.step = max(0, completed)

    def publish(self, draft: Draft) -> None:
        """Send what a step holds; all its values are plain numbers by now."""
        if not self._started:
            self._started = True
            if self._first_step is None and draft.base is not None and math.isfinite(draft.base):
                self.step = max(0, int(draft.base))
        if draft.found_inf:
            self.step_was_skipped()
            self._carried_tokens += draft.tokens
            self._carried_samples += draft.samples
            return
        self.step += 1
        loss = None if draft.loss_sum is None else draft.loss_sum / max(1, draft.loss_count)
        norm, clipped = norms(draft)
        wrong = tuple(
            name
            for name, value in (("loss", loss), ("grad.norm", norm))
            if value is not None and not math.isfinite(value)
        )
        self.send(
            StepDone(
                step=self.step,
                start_ns=draft.start_ns,
                end_ns=draft.end_ns,
                loss=loss,
                micro_steps=draft.micro_steps,
                lrs=draft.lrs,
                grad_norm=norm,
                grad_norm_clipped=clipped,
                tokens=draft.tokens + self._carried_tokens,
                samples=draft.samples + self._carried_samples,
                nonfinite=wrong,
                phases=tuple(draft.phases),
                memory=draft.memory,
                overhead_s=draft.overhead_s,
            )
        )
        self._carried_tokens = self._carried_samples = 0
        for layers in draft.layers:
            values = np.full((len(layers.names), 1), np.nan)
            values[layers.present, 0] = layers.values
            self.send(LayerStats(self.step, draft.end_ns, "grad", layers.names, ("norm",), values))


def norms(draft: Draft) -> tuple[float | None, float | None]:
    """Total gradient norm before and after clipping.

    Several parameter sets that were clipped apart are joined as the root of the sum of squares. Without clipping the
    second value is None; so it is when the norm is not finite.
    """
    if not draft.clips:
        return draft.total_norm, None
    pairs = list(draft.clips.values())
    if len(pairs) == 1:
        norm, limit = pairs[0]
        return norm, min(norm, limit) if math.isfinite(norm) else None
    norm = math.sqrt(sum(value * value for value, _ in pairs))
    if not math.isfinite(norm):
        return norm, None
    return norm, math.sqrt(sum(min(value, limit) ** 2 for value, limit in pairs))
