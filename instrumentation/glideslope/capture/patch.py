# SPDX-License-Identifier: Apache-2.0
"""Replacing functions of torch and putting the very same objects back.

In: an owner (module or class), a name, three callbacks. Out: a patched attribute. Imports nothing of torch.

A wrapper takes itself out of the tracebacks of what it wraps: the entry of its own frame is the first of the traceback
when its `except` runs, and a bare `raise` continues the unwinding without adding it again (RERAISE in CPython).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Around(NamedTuple):
    """Callbacks around one function; all of them must be protected (`Guard.protect`)."""

    before: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    """Gets the arguments, returns a token; None means that the two others are not called."""
    after: Callable[[Any, Any], object] = lambda token, result: None
    """Gets the token and the result."""
    failed: Callable[[Any], object] = lambda token: None
    """Gets the token when the function raised."""


def wrap(original: Callable[..., Any], around: Around, compiling: Callable[[], bool]) -> Callable[..., Any]:
    """Return `original` with callbacks around it; while `compiling()` holds it is the original and nothing else."""
    before, after, failed = around

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(*args, **kwargs)
        token = before(args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            if token is not None:
                failed(token)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        if token is not None:
            after(token, result)
        return result

    return wrapper


class Patches:
    """The attributes that are replaced at the moment.

    Args:
        compiling: true while torch.compile traces; wrappers are transparent then.
        keep_out: tells the compiler to leave the frames of a wrapper alone.
    """

    def __init__(self, compiling: Callable[[], bool], keep_out: Callable[[Callable[..., Any]], object]) -> None:
        self._compiling = compiling
        self._keep_out = keep_out
        self._done: list[tuple[Any, str, Any, Any]] = []

    def apply(self, places: Sequence[tuple[Any, str]], around: Around) -> bool:
        """Wrap the function found at the first of `places` and put the wrapper at each place that holds it.

        Returns False, and does nothing, when the first place has no such attribute (another torch version).
        """
        owner, name = places[0]
        original = vars(owner).get(name)
        if original is None:
            return False
        wrapper = wrap(original, around, self._compiling)
        self._keep_out(wrapper)
        for owner, name in places:
            if vars(owner).get(name) is original:
                setattr(owner, name, wrapper)
                self._done.append((owner, name, original, wrapper))
        return True

    def restore(self) -> None:
        """Put every original back, except where somebody patched over us: there our wrapper stays, inert."""
        while self._done:
            owner, name, original, wrapper = self._done.pop()
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
