# SPDX-License-Identifier: Apache-2.0
"""Configurations of any shape become flat keys with plain values, without secrets and of bounded size.

In: mappings, dataclasses, argparse namespaces, OmegaConf or attrs objects, nested. Out: `model/width` -> 512.
Imports redaction. What cannot be read becomes a text that says so; nothing is raised for it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

from glideslope.run.redaction import REDACTED, is_secret_flag, redact

MAX_DEPTH = 16
MAX_KEYS = 5_000
_MAX_COUNTED = 1_000_000
"""Entries that are looked at, so that an endless mapping cannot hold the training."""
MAX_KEY_BYTES = 512
MAX_VALUE_BYTES = 4_096
MAX_BYTES = 512 << 10
"""Most bytes of keys and values that one call may record."""

Plain = str | int | float | bool


class Flat(NamedTuple):
    """A flattened configuration."""

    values: dict[str, Plain]
    cut: int
    """Entries that were left out or shortened because of a bound."""


def is_config(config: Any) -> bool:
    """Whether `flatten` finds keys in it."""
    return _pairs(config) is not None


def flatten(config: Any) -> Flat:
    """Flatten `config`; keys are joined with "/", lists of plain values become JSON text."""
    values: dict[str, Plain] = {}
    size = cut = 0
    for key, value in islice(_walk("", config, 0, set()), _MAX_COUNTED):
        if len(values) >= MAX_KEYS or size >= MAX_BYTES or value is _TOO_DEEP:
            cut += 1
            continue
        short_key, plain = _shorten(key or "value", MAX_KEY_BYTES), redact(key, _plain(value))
        short = _shorten(plain, MAX_VALUE_BYTES) if isinstance(plain, str) else plain
        cut += short_key != (key or "value") or short is not plain
        values[short_key] = short
        size += len(short_key) + (len(short) if isinstance(short, str) else 8)
    return Flat(values, cut)


_TOO_DEEP = object()


def _walk(path: str, value: Any, depth: int, above: set[int]) -> Iterator[tuple[str, Any]]:
    """(key, leaf) of everything below `value`; `above` holds the identities of its containers."""
    pairs = _pairs(value)
    if pairs is None:
        yield path, value
        return
    if depth >= MAX_DEPTH or id(value) in above:
        yield path, _TOO_DEEP
        return
    above = above | {id(value)}
    empty = True
    try:
        for key, below in pairs:
            empty = False
            name = _text(key).strip("/") or "(empty)"
            yield from _walk(f"{path}/{name}" if path else name, below, depth + 1, above)
    except Exception as error:
        yield f"{path}/(unreadable)".lstrip("/"), f"(unreadable: {type(error).__name__})"
        return
    if empty and path:
        yield path, "{}" if not isinstance(value, Sequence) else "[]"


def _pairs(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """The entries of a container; None for a leaf."""
    if isinstance(value, (str, bytes, int, float, type(None), enum.Enum, type)):
        return None
    if isinstance(value, Mapping):
        return _items(value)
    if dataclasses.is_dataclass(value):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    if isinstance(value, (Sequence, AbstractSet)):
        few = list(islice(iter(value), MAX_KEYS + 1))
        if all(isinstance(one, (str, int, float, type(None))) for one in few):
            return None
        return ((str(position), one) for position, one in enumerate(few))
    kind = type(value)
    if kind.__module__ in ("argparse", "types") and kind.__name__ in ("Namespace", "SimpleNamespace"):
        return list(vars(value).items())
    for names in ("model_fields", "__attrs_attrs__"):
        found = getattr(kind, names, None)
        if isinstance(found, Mapping):
            return ((name, getattr(value, name, None)) for name in found)
        if isinstance(found, tuple):
            return ((one.name, getattr(value, one.name, None)) for one in found)
    bases = {base.__name__ for base in kind.__mro__}
    return list(vars(value).items()) if "Namespace" in bases else None


def _items(mapping: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Entries of a mapping; one that cannot be read (an interpolation, a missing value) does not hide the others."""
    for key in islice(iter(mapping), _MAX_COUNTED):
        try:
            yield key, mapping[key]
        except Exception as error:
            yield key, f"(unreadable: {type(error).__name__})"


def _plain(value: Any) -> Plain:
    if isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _text(value.name)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else _text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _text(value)
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes)"
    if isinstance(value, (Sequence, AbstractSet)):
        return _listed([*islice(iter(value), MAX_KEYS)])
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}".strip(
            "."
        )
    return _text(value)


def _listed(values: list[Any]) -> str:
    """A list of plain values as JSON, without the words behind secret options of a command line."""
    shown: list[Any] = []
    for position, one in enumerate(values):
        before = values[position - 1] if position else None
        secret = isinstance(before, str) and is_secret_flag(before)
        shown.append(REDACTED if secret else redact("", one) if isinstance(one, str) else one)
    return json.dumps(shown, ensure_ascii=False, default=str)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__qualname__}, unreadable: {type(error).__name__})"


def _shorten(text: str, limit: int) -> str:
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"
