# SPDX-License-Identifier: Apache-2.0
"""Values that look like training: three shapes of logging, from recorded loss curves or from a generator.

In: a CSV file (`run,step,loss,…`, perhaps gzip) or nothing. Out: shapes: names, times, rows. Imports numpy only.
Files print losses with four decimals, which no float32 has: the missing digits are filled with uniform noise below the
last one printed, so that nothing compresses better than a float32 does. Without a file a loss is
floor + height x (1 + step / scale) ** -power, times exp of first-order autoregressive noise, as float32.
"""

import csv
import gzip
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_STEP_S, _JITTER = 0.2, 0.03
_GENERATED, _LENGTH = 19, 4000


@dataclass(frozen=True)
class Shape:
    """Rows of values that are logged together."""

    kind: str
    """`step`, `named` or `layers`: by which event glideslope logs it."""
    title: str
    names: tuple[str, ...]
    times_ns: NDArray[np.int64]
    """(steps,)"""
    values: Floats
    """(steps, names), each a float32, an integer or a double, as training has them."""


def curves(path: Path | None, rng: np.random.Generator) -> list[Floats]:
    """Losses, one array a run."""
    if path is None:
        return [_generated(rng) for _ in range(_GENERATED)]
    runs: dict[str, list[float]] = {}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for row in csv.DictReader(lines):
            runs.setdefault(row["run"], []).append(float(row["loss"] or "nan"))
    found = [np.array(losses) + rng.uniform(-5e-5, 5e-5, len(losses)) for losses in runs.values()]
    return [_float32(losses[np.isfinite(losses)]) for losses in found]


def _generated(rng: np.random.Generator) -> Floats:
    noise, level = np.empty(_LENGTH), 0.0
    for step, shock in enumerate(rng.normal(0, 0.01, _LENGTH)):
        level = noise[step] = 0.7 * level + shock
    floor, height, scale, power = rng.uniform(2, 3), rng.uniform(7, 9), rng.uniform(50, 200), rng.uniform(0.4, 0.8)
    return _float32((floor + height * (1 + np.arange(_LENGTH) / scale) ** -power) * np.exp(noise))


def _float32(values: Floats) -> Floats:
    return values.astype(np.float32).astype(np.float64)


def _pick(losses: list[Floats], number: int, steps: int, rng: np.random.Generator) -> Floats:
    """A stretch of a run; short runs are repeated from their end backwards."""
    run = losses[number % len(losses)]
    if len(run) < steps:
        run = np.resize(np.concatenate([run, run[::-1]]), steps)
    start = int(rng.integers(0, len(run) - steps + 1))
    return run[start : start + steps]


def _times(steps: int, every: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    spent = every * _STEP_S * np.exp(rng.normal(0, _JITTER, steps))
    ends = time.time() - spent.sum() + np.cumsum(spent)
    return (ends * 1e9).astype(np.int64), spent


def one_step(losses: list[Floats], steps: int, rng: np.random.Generator) -> Shape:
    """The 18 series of a step that hooks give."""
    times, spent = _times(steps, 1, rng)
    loss = _pick(losses, 0, steps, rng)
    norm = _float32(0.3 * loss * np.exp(rng.normal(0, 0.2, steps)))
    number = np.arange(1.0, steps + 1)
    shares = rng.dirichlet((5, 300, 600, 95), steps) * spent[:, None]
    zero = np.zeros(steps)
    memory = [np.full(steps, 6.1e10), np.full(steps, 7.2e10), 9e9 + 4096.0 * rng.integers(0, 500, steps).cumsum()]
    columns = {
        "train/loss": loss,
        "train/grad_norm": norm,
        "train/grad_norm_clipped": np.minimum(norm, 1.0),
        "train/step": number,
        "train/step_seconds": spent,
        "train/tokens": number * 524_288,
        "train/samples": number * 512,
        "nonfinite/loss": zero,
        "nonfinite/grad_norm": zero,
        "nonfinite/grad": zero,
        "lr": 3e-4 * np.minimum(number / 200, 0.5 + 0.5 * np.cos(np.pi * number / steps / 1.1)),
        **{f"phase/{name}": shares[:, i] for i, name in enumerate(("data", "forward", "backward", "optimizer"))},
        **{f"memory/{name}": memory[i] for i, name in enumerate(("allocated", "reserved", "host"))},
    }
    return Shape("step", "18 series of a step", tuple(columns), times, np.stack(list(columns.values()), axis=1))


def by_name(losses: list[Floats], steps: int, rng: np.random.Generator) -> Shape:
    """100 losses logged by name, such as those of 100 evaluation sets."""
    times, _ = _times(steps, 1, rng)
    values = [_float32(_pick(losses, i, steps, rng) * rng.uniform(0.5, 2)) for i in range(100)]
    names = tuple(f"eval/set{i}/loss" for i in range(100))
    return Shape("named", "100 series by name", names, times, np.stack(values, axis=1))


def by_layer(losses: list[Floats], steps: int, rng: np.random.Generator, series: int = 10_000) -> Shape:
    """A gradient norm per parameter, every tenth step: level of the layer x trend of a loss x 10 % noise."""
    times, _ = _times(steps, 10, rng)
    trend = np.stack([_pick(losses, i, steps, rng) for i in range(len(losses))], axis=1)
    level = np.exp(rng.normal(-3, 1.5, series))
    noise = np.exp(rng.normal(0, 0.1, (steps, series)))
    values = _float32(level * trend[:, np.arange(series) % trend.shape[1]] * noise)
    names = tuple(f"blocks.{i // 40}.attn.w{i % 40}" for i in range(series))
    return Shape("layers", f"{series:,} series of layers", names, times, values)
