# SPDX-License-Identifier: Apache-2.0
"""Fork safety: no lock of ours is held across a fork, and a forked child starts inert.

In: objects that want to be told. Out: calls around each fork of this process. Imports nothing of glideslope.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What has to act around a fork."""

    def before_fork(self) -> None:
        """Take the locks."""

    def after_fork_in_parent(self) -> None:
        """Give the locks back."""

    def after_fork_in_child(self) -> None:
        """Become inert: no file, no thread, no lock of the parent."""


_guarded: weakref.WeakSet[Forkable] = weakref.WeakSet()
_told: list[Forkable] = []


def guard(thing: Forkable) -> None:
    """Tell `thing` about every fork from now on, as long as it lives."""
    _guarded.add(thing)


def _before() -> None:
    _told[:] = list(_guarded)
    for thing in _told:
        thing.before_fork()


def _in_parent() -> None:
    for thing in reversed(_told):
        thing.after_fork_in_parent()
    _told.clear()


def _in_child() -> None:
    for thing in _told:
        thing.after_fork_in_child()
    _told.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
