# SPDX-License-Identifier: Apache-2.0
"""What stands between our callbacks and the training: no exception passes, time is counted, a broken callback goes off.

In: callbacks. Out: the same callbacks, made harmless. Imports events only, never torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from glideslope.events import Happened, Severity

T = TypeVar("T")

ERROR_LIMIT = 5
"""A callback that failed this often is switched off."""

_log = logging.getLogger("glideslope")


class Guard:
    """Makes callbacks exception-proof and counts what they cost.

    Args:
        report: gets one `train.telemetry.disabled` event for each callback that is switched off; must not raise.
        clock_ns: wall clock in nanoseconds.
    """

    def __init__(self, report: Callable[[Happened], None], clock_ns: Callable[[], int]) -> None:
        self._report = report
        self._clock_ns = clock_ns
        self._errors: dict[str, int] = {}
        self._nested = False
        self.off = False
        """True makes every callback return at once: in forked children, after uninstall, when the session declined."""
        self.overhead_s = 0.0
        """Host seconds spent inside protected callbacks so far."""

    def errors(self) -> dict[str, int]:
        """Failures so far by callback name."""
        return dict(self._errors)

    def protect(self, name: str, function: Callable[..., T]) -> Callable[..., T | None]:
        """Return `function` so that it never raises, is timed, and goes off after ERROR_LIMIT failures.

        The protected callback returns None when it is off or failed. Positional arguments only.
        """
        errors = self._errors

        def protected(*args: Any) -> T | None:
            if self.off or errors.get(name, 0) >= ERROR_LIMIT:
                return None
            if self._nested:
                # A part of a callback that may fail by itself; its time is in that of the callback.
                try:
                    return function(*args)
                except Exception as error:
                    self.failed(name, error)
                    return None
            self._nested = True
            started = perf_counter()
            try:
                return function(*args)
            except Exception as error:
                self.failed(name, error)
                return None
            finally:
                self._nested = False
                self.overhead_s += perf_counter() - started

        return protected

    def failed(self, name: str, error: Exception) -> None:
        """Count a failure of the callback `name`; the one that reaches the limit is reported once and logged once."""
        count = self._errors.get(name, 0) + 1
        self._errors[name] = count
        if count != ERROR_LIMIT:
            return
        kind = type(error).__qualname__
        body = f"the callback {name} failed {count} times and is off from now on; last error: {kind}: {error}"
        _log.warning("glideslope: %s; training goes on, what it measured is missing", body)
        self._report(
            Happened(
                "train.telemetry.disabled",
                self._clock_ns(),
                body,
                Severity.WARN,
                attributes={"callback": name, "error.type": kind},
            )
        )
