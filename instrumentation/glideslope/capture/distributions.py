# SPDX-License-Identifier: Apache-2.0
"""Values become histograms with fixed edges.

In: arrays or tensors of any shape, or edges and counts. Out: counts, sum and the number of non-finite values.
Imports numpy and values; torch only through `tensors`, for what is a tensor already.

The edges are the same for every histogram and never change, so that histograms of different steps, ranks and runs can
be added: two per decade from 1e-10 to 1e6, mirrored for negative values, one bin around zero, and outermost bins that
reach to the largest float. Two per decade tells magnitudes a factor of 3 apart, for 67 series at most.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glideslope.capture.values import Refused, tensor_type

_MAGNITUDES = 10.0 ** (np.arange(-20, 13) / 2)
_LARGEST = np.finfo(np.float64).max
EDGES: NDArray[np.float64] = np.concatenate(([-_LARGEST], -_MAGNITUDES[::-1], _MAGNITUDES, [_LARGEST]))
"""float64, shape (68,); bin i is (EDGES[i], EDGES[i + 1]]."""
EDGES.flags.writeable = False
BINS = EDGES.size - 1
MAX_EDGES = 1_025


class Counted(NamedTuple):
    """A histogram without its name."""

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    total: float
    nonfinite: int


def from_values(values: Any) -> Any:
    """Count values of any shape: `Counted`, a flat device tensor for `unpack`, or Refused. Raises no `Exception`."""
    try:
        tensor = tensor_type()
        if tensor is not None and isinstance(values, tensor):
            found = import_module("glideslope.capture.tensors").histogram(values, EDGES)
            if not isinstance(found, np.ndarray):
                return found
            return _count(found)
        array = np.asarray(values)
        if array.dtype.kind not in "biufV":
            return Refused("type", f"values are of type {str(array.dtype)[:40]}: pass an array of real numbers")
        return _count(array.astype(np.float64).reshape(-1))
    except Exception as error:
        return Refused("unreadable", f"the values cannot be counted ({type(error).__name__}): pass an array of numbers")


def from_counts(edges: Any, counts: Any) -> Counted | Refused:
    """Check edges (n + 1,) and counts (n,) that the caller made."""
    try:
        bounds = np.array(edges, np.float64)
        numbers = np.array(counts, np.float64)
    except Exception as error:
        return Refused("unreadable", f"edges or counts cannot be read ({type(error).__name__}): pass lists of numbers")
    if bounds.ndim != 1 or not 2 <= bounds.size <= MAX_EDGES or numbers.shape != (bounds.size - 1,):
        told = f"edges {bounds.shape} and counts {numbers.shape} do not fit: pass n + 1 edges (n <= 1024) and n counts"
        return Refused("shape", told)
    if not np.isfinite(bounds).all() or not (np.diff(bounds) > 0).all():
        return Refused("edges", "edges must be finite and strictly increasing")
    if not np.isfinite(numbers).all() or not (numbers >= 0).all() or not (numbers == np.floor(numbers)).all():
        return Refused("counts", "counts must be whole numbers, 0 or more (densities times the number of values)")
    return Counted(bounds, numbers, float("nan"), 0)


def unpack(flat: NDArray[np.float64]) -> Counted:
    """Read what a device counted: counts (BINS,), sum, number of non-finite values."""
    return Counted(EDGES, flat[:BINS].copy(), float(flat[BINS]), int(flat[BINS + 1]))


def _count(values: NDArray[np.float64]) -> Counted:
    finite = np.isfinite(values)
    good = values if finite.all() else values[finite]
    bins = np.clip(np.searchsorted(EDGES, good, side="left") - 1, 0, BINS - 1)
    counts = np.bincount(bins, minlength=BINS).astype(np.float64)
    with np.errstate(over="ignore"):
        return Counted(EDGES, counts, float(good.sum()), int(values.size - good.size))
