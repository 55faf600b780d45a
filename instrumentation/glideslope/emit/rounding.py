# SPDX-License-Identifier: Apache-2.0
"""Round to significant decimal digits: VictoriaMetrics stores decimal mantissas, and short ones take less disk.

Seen with 500 float32 random walks of 3,000 steps, merged: 6.2 bytes a sample, 1.9 with four digits, 2.9 with six.

In: float64 arrays. Out: float64 arrays whose values are the doubles nearest to the rounded decimals.
Imports nothing of glideslope.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EXACT = 22
"""Largest power of ten that a double holds exactly."""
_POWERS = 10.0 ** np.arange(_EXACT + 1)


def rounded(values: NDArray[np.float64], digits: NDArray[np.int8]) -> NDArray[np.float64]:
    """Round `values` (rows, series) to `digits` (series,) significant decimal digits; 0 = leave as they are.

    Whole numbers below 1e15 are left as they are, because they are counts and as short as they get; so are values that
    are not finite. The division by an exact power of ten gives the nearest double to the decimal.
    """
    wide = np.broadcast_to(digits, values.shape)
    chosen = (wide > 0) & np.isfinite(values) & ((values != np.rint(values)) | (np.abs(values) >= 1e15))
    if not chosen.any():
        return values
    some, wanted = values[chosen], wide[chosen].astype(np.intp)
    shift = wanted - 1 - np.floor(np.log10(np.abs(some))).astype(np.intp)
    inside = np.abs(shift) <= _EXACT
    power = _POWERS[np.minimum(np.abs(shift), _EXACT)]
    up = shift >= 0
    mantissa = np.rint(np.where(up, some * np.where(up, power, 1.0), some / power))
    made = np.where(up, mantissa / power, mantissa * np.where(up, 1.0, power))
    for index in np.flatnonzero(~inside).tolist():
        made[index] = float(f"{some[index]:.{wanted[index] - 1}e}")
    out = values.copy()
    # The largest doubles would round to infinity.
    out[chosen] = np.where(np.isfinite(made), made, some)
    return out
