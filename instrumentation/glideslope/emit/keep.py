# SPDX-License-Identifier: Apache-2.0
"""Which steps' traces are kept: the first ones, a head sample, slow ones, non-finite ones and the steps before those.

In: StepDone events. Out: the steps to keep now (perhaps earlier ones out of the ring). Imports `events`, `ids`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

from glideslope.emit.ids import chosen
from glideslope.events import StepDone


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Settings of the keep rule."""

    first: int = 20
    """The first steps of the process that are kept."""
    every: int = 100
    """One step in this many is kept, the same on all ranks; 0 = none."""
    ring: int = 64
    """Steps whose raw timestamps are remembered."""
    before: int = 3
    """Steps kept before a non-finite one."""
    judged_from: int = 16
    """A step can be slow only when this many steps are remembered."""


class StepKeeper:
    """Decides step by step; O(ring) memory, O(log ring) time but for steps that may be slow."""

    def __init__(self, run: str, attempt: int | str, rule: KeepRule) -> None:
        self._run, self._attempt, self._rule = run, attempt, rule
        self._ring: deque[tuple[StepDone, bool]] = deque()
        self._sorted: list[int] = []
        self._seen = 0

    def take(self, event: StepDone, nonfinite: bool) -> list[StepDone]:
        """Return the steps to keep because of this one, oldest first; no step is returned twice."""
        self._seen += 1
        kept: list[StepDone] = []
        if nonfinite:
            for index in range(max(0, len(self._ring) - self._rule.before), len(self._ring)):
                earlier, already = self._ring[index]
                if not already:
                    kept.append(earlier)
                    self._ring[index] = (earlier, True)
        duration = event.end_ns - event.start_ns
        keep = (
            nonfinite
            or self._seen <= self._rule.first
            or chosen(self._run, self._attempt, event.step, self._rule.every)
            or self._slow(duration)
        )
        if keep:
            kept.append(event)
        self._remember(event, keep, duration)
        return kept

    def _slow(self, duration: int) -> bool:
        """Slower than 1.1 medians and than median + 5 median absolute deviations of the ring."""
        ordered = self._sorted
        if len(ordered) < self._rule.judged_from:
            return False
        median = ordered[len(ordered) // 2]
        if duration <= 1.1 * median:
            return False
        deviations = sorted(abs(value - median) for value in ordered)
        return duration > median + 5 * deviations[len(deviations) // 2]

    def _remember(self, event: StepDone, kept: bool, duration: int) -> None:
        self._ring.append((event, kept))
        insort(self._sorted, duration)
        if len(self._ring) > self._rule.ring:
            oldest, _ = self._ring.popleft()
            del self._sorted[bisect_left(self._sorted, oldest.end_ns - oldest.start_ns)]
