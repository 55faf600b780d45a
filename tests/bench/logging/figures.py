# SPDX-License-Identifier: Apache-2.0
"""From results to tables: what was measured, and whether the bars are met; every ratio is computed here.

In: results of all rounds. Out: Markdown. Imports `processes`, `peers`, `tools`, `document`.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from document import machine, table
from peers import version
from processes import Result

SIZES = (1, 100, 10_000)
STEPS_KILLED = 300
CALLS = {
    "glideslope": "`log_metrics(dict, step)`, nobody listens",
    "glideslope-array": "`log_metrics(array, step, names=)`, nobody listens",
    "glideslope-sending": "`log_metrics(dict, step)`, sent while logging",
    "neptune-scale": "`log_metrics(dict, step)`, offline",
    "wandb": "`log(dict, step)`, offline",
    "trackio": "`log(dict, step)`, local",
    "tensorboard-batched": "one `Event` a step to `EventFileWriter`",
    "tensorboardX": "`add_scalar` for each value",
    "mlflow": "`log_metrics(dict, step)`, SQLite",
    "otel-gauge": "`Gauge.set` for each value, OTLP once a second",
    "control": "`sum(dict.values())`, nothing is logged",
}
LIMITS = (
    ("glideslope", 1, 10),
    ("glideslope", 100, 50),
    ("glideslope", 10_000, 1000),
    ("glideslope-array", 10_000, 200),
)
"""Bars of the medians, µs."""
MODES = ("paced", "rushed")
TIMES = ["tool", "call", *(f"{size:,}: {what}" for size in SIZES for what in ("median", "p99", "max"))]
COSTS = ["tool", "version", "exit s", "CPU-s per M values", "bytes per value", f"of {STEPS_KILLED} steps after SIGKILL"]
BARS = ["bar", "demanded", "after other work", "met", "back to back", "met"]
COLUMNS = [TIMES, TIMES, COSTS, BARS]


@dataclass(frozen=True)
class Spread:
    """Times of the calls of all rounds, µs."""

    median: float
    p99: float
    most: float
    calls: int


def spread(calls: Iterable[list[int]]) -> Spread | None:
    """Pool the calls of all rounds, given in ns; None when there are none."""
    times = sorted(ns / 1e3 for some in calls for ns in some)
    if not times:
        return None
    return Spread(statistics.median(times), times[int(0.99 * (len(times) - 1) + 0.5)], times[-1], len(times))


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def values(count: int) -> str:
    """A number of values in words."""
    return f"{count:,} value{'s' * (count != 1)}"


class Figures:
    """Results by tool, size and mode."""

    def __init__(self, results: list[Result]) -> None:
        self.results = results
        self.tools = [tool for tool in CALLS if any(result.tool == tool for result in results)]
        self.spreads = {
            (tool, size, mode): spread(getattr(r, f"{mode}_ns") for r in results if (r.tool, r.count) == (tool, size))
            for tool in CALLS
            for size in SIZES
            for mode in MODES
        }

    def survived(self, tool: str) -> int | None:
        """The fewest steps that were found after a kill."""
        return min((r.survived for r in self.results if r.tool == tool and r.survived >= 0), default=None)

    def text(self, command: str, kill_pause_s: float) -> str:
        """The whole block."""
        return "\n\n".join(
            (
                f"Machine: {machine()}. Command: `{command}`. Rounds: {self._rounds()}.",
                "Microseconds of the calling thread for one step of 1, 100 and 10,000 values, first calls left out, "
                f"each call **after other work**. {self._counted('paced')}",
                table(TIMES, [self._times(tool, "paced") for tool in self.tools]),
                f"The same with calls **back to back**. {self._counted('rushed')}",
                table(TIMES, [self._times(tool, "rushed") for tool in self.tools]),
                "Runs of 10,000 values a step: time from the last call to the end of the process, CPU of all processes "
                "of the tool, bytes of its files (random values). Last column: 300 steps of 10 values, "
                f"{kill_pause_s * 1e3:.0f} ms apart, then SIGKILL of all processes of the tool right after the last "
                "call; whole steps that its own reader or file format gives back (fewest of all rounds).",
                table(COSTS, [self._costs(tool) for tool in self.tools]),
                table(BARS, self._bars()),
            )
        )

    def _rounds(self) -> int:
        keys = Counter((result.tool, result.count) for result in self.results if result.survived < 0)
        return max(keys.values(), default=0)

    def _counted(self, mode: str) -> str:
        calls = {n: [s.calls for (_, m, o), s in self.spreads.items() if (m, o) == (n, mode) and s] for n in SIZES}
        told = "; ".join(f"{values(n)}: {min(c):,} to {max(c):,}" for n, c in calls.items() if c)
        return f"Calls counted for each tool: {told}."

    def _times(self, tool: str, mode: str) -> list[str]:
        cells = [tool, CALLS[tool]]
        for size in SIZES:
            found = self.spreads[tool, size, mode]
            cells += [number(x) for x in (found.median, found.p99, found.most)] if found else ["–"] * 3
        return cells

    def _costs(self, tool: str) -> list[str]:
        wide = [r for r in self.results if r.tool == tool and r.count == SIZES[-1] and r.values]
        written = sum(r.values for r in wide)
        keeps = tool not in ("otel-gauge", "glideslope-sending", "control")
        survived = self.survived(tool)
        return [
            tool,
            version(tool),
            number(statistics.median(r.exit_s for r in wide)) if wide else "–",
            number(sum(r.cpu_s for r in wide) / written * 1e6) if wide else "–",
            number(sum(r.disk_bytes for r in wide) / written) if wide and keeps else "–",
            "–" if survived is None else str(survived),
        ]

    def _bars(self) -> list[list[str]]:
        rows: list[list[str]] = []

        def bar(what: str, sign: str, limit: float, unit: str, *measured: float | None) -> None:
            cells = [what, f"{sign} {number(limit)} {unit}"]
            for value in measured:
                if value is None:
                    cells += ["–", "–"]
                else:
                    met = value <= limit if sign == "≤" else value >= limit
                    cells += [f"{number(value)} {unit}", "yes" if met else "no"]
            rows.append(cells + ["–"] * (len(BARS) - len(cells)))

        def both(tool: str, size: int, of: Callable[[Spread], float]) -> list[float | None]:
            found = [self.spreads[tool, size, mode] for mode in MODES]
            return [of(one) if one else None for one in found]

        for tool, size, limit in LIMITS:
            bar(f"{tool}, {values(size)}, median", "≤", limit, "µs", *both(tool, size, lambda s: s.median))
        for tool in ("glideslope", "glideslope-array", "glideslope-sending"):
            for size in SIZES:
                ratios = both(tool, size, lambda s: s.p99 / s.median)
                bar(f"{tool}, {values(size)}, p99 / median", "≤", 3, "×", *ratios)
        for size in SIZES:
            spreads = both("control", size, lambda s: s.p99 / s.median)
            told = [f"{number(value)} ×" if value else "–" for value in spreads]
            rows.append([f"control, {values(size)}, p99 / median", "–", told[0], "–", told[1], "–"])
        for size in SIZES:
            pairs = zip(
                *(both(tool, size, lambda s: s.median) for tool in ("glideslope", "neptune-scale")), strict=True
            )
            ratios = [theirs / ours if ours and theirs else None for ours, theirs in pairs]
            bar(f"neptune-scale / glideslope, {values(size)}, medians", "≥", 10, "×", *ratios)
        ours, theirs = self.survived("glideslope"), self.survived("neptune-scale")
        bar("glideslope, whole steps after SIGKILL", "≥", STEPS_KILLED, "steps", ours)
        less = ours - theirs if ours is not None and theirs is not None else None
        bar("the same less those of neptune-scale", "≥", 0, "steps", less)
        return rows
