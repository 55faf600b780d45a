# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition in tests, with a deadline instead of a fixed sleep."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    """Poll until `condition()` is true and return its answer; fails, naming `what`, after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
