# SPDX-License-Identifier: Apache-2.0
"""What people log becomes plain numbers, or a reason why not.

In: whatever was passed to `log_metrics`. Out: names with float64 values, device tensors that are read later, refusals.
Imports numpy; torch is never imported here, and `tensors` (which does) only for a value that is a tensor already.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from itertools import islice
from operator import countOf
from typing import Any, NamedTuple

import numpy as np

MAX_STEP = 1e12
"""Steps lie in 0..1e12, as in Neptune's clients; floats tell micro-steps apart up to there."""
MAX_NAME_BYTES = 1024
MAX_VALUES = 1_000_000
"""Values of one call; what comes on top is refused, so that an endless iterable cannot hold the training."""
_ARRAY_FROM = 16
_NAME_SETS = 256

_PLAIN = frozenset({float, int, bool, Decimal, Fraction})
_FAST = _PLAIN | {
    np.dtype(code).type for code in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
}
"""Types whose `__float__` is known to be cheap and not to wait for a device."""


class Refused(NamedTuple):
    """A value that cannot be logged."""

    cause: str
    """Short key: people are told once for each."""
    told: str
    """What was wrong and what to do, without the name of the metric."""
    name: str = ""
    lost: int = 1
    """Values that are gone with it."""


class Read(NamedTuple):
    """What one call holds."""

    names: tuple[str, ...] = ()
    """The same tuple object for the same names in the same order."""
    values: Any = ()
    """Tuple of floats or float64 array, (len(names),)."""
    late_names: tuple[str, ...] = ()
    late: tuple[Any, ...] = ()
    """Device tensors whose values, in order, belong to `late_names`."""
    refused: tuple[Refused, ...] = ()


class MetricReader:
    """Reads the arguments of `log_metrics`; remembers the sets of names it has seen, so that they are checked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self._last: tuple[str, ...] = ()

    def read(self, values: Any, names: Any = None) -> Read:
        """Read a mapping name -> number, or numbers with `names`; raises nothing but what is no `Exception`."""
        try:
            fast = self._fast(values, names)
            return self._slow(values, names) if fast is None else fast
        except Exception as error:
            return Read(refused=(_unreadable(error),))

    def _fast(self, values: Any, names: Any) -> Read | None:
        """Known names with plain host numbers; None for everything else."""
        last = self._last
        if names is None:
            if type(values) is not dict:
                return None
            key = tuple(values)
            # Comparing the same str objects costs half of hashing them.
            known = last if key == last else self._known.get(key)
            if known is None:
                return None
            self._last = known
            numbers = _numbers(values.values(), len(known))
        else:
            known = last if names is last else self._listed(names)
            if known is None or type(values) is not np.ndarray or values.shape != (len(known),):
                return None
            numbers = _array(values)
            if type(numbers) is Refused:
                return None
        return None if numbers is None else Read(known, numbers)

    def _listed(self, names: Any) -> tuple[str, ...] | None:
        """The tuple that stands for a list or tuple of names; None when they are new."""
        if type(names) is not tuple and type(names) is not list:
            return None
        try:
            known = self._known.get(tuple(names))
        except TypeError:
            return None
        if known is names:
            self._last = known
        return known

    def _slow(self, values: Any, names: Any) -> Read:
        tensor = tensor_type()
        if names is None:
            if not isinstance(values, Mapping):
                return Read(refused=(_no_mapping(values),))
            return self._pairs(list(islice(values.items(), MAX_VALUES + 1)))
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            told = "names must be a list or tuple of str, one for each value"
            return Read(refused=(Refused("names", told),))
        # The very tuple of the caller, so that the next call knows it by identity.
        own = type(names) is tuple and len(names) <= MAX_VALUES
        listed: tuple[Any, ...] = names if own else tuple(islice(names, MAX_VALUES + 1))  # type: ignore[assignment]
        whole = None
        if isinstance(values, np.ndarray):
            whole = _array(values)
        elif tensor is not None and isinstance(values, tensor):
            whole = _tensors().many(values)
        elif isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            whole = Refused("type", f"values are {_kind(values)}: with names, log an array, a tensor or a list")
        else:
            values = list(islice(values, MAX_VALUES + 1))
        if isinstance(whole, Refused):
            return Read(refused=(whole._replace(lost=max(1, len(listed))),))
        count = len(values) if whole is None else math.prod(whole.shape)
        if count != len(listed) or (whole is not None and len(whole.shape) != 1):
            shape = (count,) if whole is None else tuple(whole.shape)
            told = f"values have shape {shape} but there are {len(listed)} names: pass one name for each value"
            return Read(refused=(Refused("shape", told, lost=max(1, len(listed))),))
        if whole is None:
            return self._pairs(list(zip(listed, values, strict=True)))
        refused = tuple(bad for bad in map(name_refused, listed) if bad is not None)
        if refused and isinstance(whole, np.ndarray):
            good = [position for position, name in enumerate(listed) if name_refused(name) is None]
            listed, whole = tuple(listed[position] for position in good), whole[good]
        elif refused:
            return Read(refused=tuple(bad._replace(lost=1) for bad in refused))
        listed = self._same(listed)
        if isinstance(whole, np.ndarray):
            return Read(listed, whole, refused=refused)
        return Read(late_names=listed, late=(whole,))

    def _pairs(self, pairs: list[tuple[Any, Any]]) -> Read:
        names: list[str] = []
        numbers: list[float] = []
        late_names: list[str] = []
        late: list[Any] = []
        refused: list[Refused] = []
        if len(pairs) > MAX_VALUES:
            pairs = pairs[:MAX_VALUES]
            refused.append(Refused("size", f"more than {MAX_VALUES} values in one call: log them in parts"))
        for name, value in pairs:
            bad = name_refused(name)
            found = scalar(value) if bad is None else bad
            if isinstance(found, float):
                names.append(str(name))
                numbers.append(found)
            elif isinstance(found, Refused):
                refused.append(found if bad is not None else found._replace(name=str(name)))
            else:
                late_names.append(str(name))
                late.append(found)
        array = np.array(numbers, np.float64) if len(numbers) >= _ARRAY_FROM else tuple(numbers)
        return Read(self._same(tuple(names)), array, self._same(tuple(late_names)), tuple(late), tuple(refused))

    def _same(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The tuple that stands for these names from now on; all of them must have been checked."""
        if not names:
            return ()
        known = self._known.setdefault(names, names)
        if len(self._known) > _NAME_SETS:
            # A copy, because a signal handler or another thread may log, and so add a set, at any moment.
            for oldest in list(self._known)[:-_NAME_SETS]:
                self._known.pop(oldest, None)
        return known


def _numbers(values: Any, count: int) -> Any:
    """A view of exactly `count` plain numbers as floats; None when one of them needs a closer look."""
    if countOf(map(type, values), float) != count:
        if not _FAST.issuperset(map(type, values)):
            return None
        try:
            values = tuple(map(float, values))
        except (OverflowError, ValueError):
            return None
    if count < _ARRAY_FROM:
        return tuple(values)
    return np.frombuffer(struct.pack(f"{count}d", *values))


def _array(values: Any) -> Any:
    """A numpy array of numbers as float64, or Refused."""
    if values.dtype == np.float64:
        return values
    if values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return values.astype(np.float64)
    if values.dtype.kind == "c":
        return _COMPLEX
    if values.dtype.kind == "V" and values.dtype.names is None and values.dtype.subdtype is None:
        # bfloat16 and the 8-bit floats of ml_dtypes are kinds of their own.
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            pass
    return Refused("type", f"an array of {str(values.dtype)[:40]} holds no numbers: convert it to float64 first")


_COMPLEX = Refused("complex", "it is complex: log abs(x), or x.real and x.imag under two names")
_NONE = Refused("none", "it is None: leave the name out, or log float('nan') to mark a failure")
_TEXT = Refused("text", "it is text: convert it with float(), or use log_text")


def scalar(value: Any) -> Any:
    """One number as a float, as a device tensor to be read later, or Refused; raises no `Exception`."""
    kind = type(value)
    if kind is float:
        return value
    try:
        if kind in _FAST:
            return float(value)
        if value is None:
            return _NONE
        if isinstance(value, (str, bytes, bytearray)):
            return _TEXT
        if isinstance(value, (complex, np.complexfloating)):
            return _COMPLEX
        if isinstance(value, (np.ndarray, np.generic)):
            return _one(np.asarray(value))
        tensor = tensor_type()
        if tensor is not None and isinstance(value, tensor):
            return _tensors().scalar(value)
        if kind.__module__.partition(".")[0] == "torch" or not (
            hasattr(kind, "__float__") or hasattr(kind, "__index__")
        ):
            return Refused("type", f"it is {_kind(value)}: log a number, or nest names with '/' such as 'eval/loss'")
        return float(value)
    except Exception as error:
        return _unreadable(error)


def host_scalar(value: Any) -> float | Refused:
    """One number that is needed now, such as a step; a tensor on a device is refused."""
    found = scalar(value)
    if isinstance(found, (float, Refused)):
        return found
    return Refused("device", "it lives on a device and reading it would wait: pass a Python number")


def step_of(step: Any) -> float | Refused:
    """A step, checked to lie in 0..MAX_STEP."""
    found = host_scalar(step)
    if isinstance(found, Refused):
        given = "no step was given" if step is None else f"the step is {_kind(step)}"
        return Refused("step", f"{given}: pass the number of completed optimizer steps, step=…")
    if not 0.0 <= found <= MAX_STEP:
        return Refused("step", f"step {found:g} is outside 0..1e12: pass completed optimizer steps, floats allowed")
    return found


def name_refused(name: Any) -> Refused | None:
    """Why a name cannot be used, or None."""
    if not isinstance(name, str):
        return Refused("name", f"a name is {_kind(name)}: names are str")
    if not name:
        return Refused("name", "a name is empty: give the value a name")
    if len(name) * 4 > MAX_NAME_BYTES and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return Refused("name", f"a name is longer than {MAX_NAME_BYTES} bytes: shorten it", name[:64])
    return None


def tensor_type() -> type | None:
    """`torch.Tensor` where torch is loaded."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def _tensors() -> Any:
    return import_module("glideslope.capture.tensors")


def _one(array: Any) -> float | Refused:
    if array.size != 1:
        return several(tuple(array.shape))
    found = _array(array.reshape(1))
    return found if isinstance(found, Refused) else float(found[0])


def several(shape: tuple[int, ...]) -> Refused:
    """The refusal of an array where one number was expected."""
    return Refused("shape", f"it has shape {shape}: log one number such as x.mean(), log_histogram, or pass names=")


def _no_mapping(values: Any) -> Refused:
    return Refused("type", f"values are {_kind(values)}: pass a dict of names and numbers, or an array with names=")


def _kind(value: Any) -> str:
    return f"of type {type(value).__qualname__[:60]}"


def _unreadable(error: Exception) -> Refused:
    return Refused("unreadable", f"it cannot be read as a number ({type(error).__name__}): pass float(x) yourself")
