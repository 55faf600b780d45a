# SPDX-License-Identifier: Apache-2.0
"""Keep other OpenTelemetry instrumentations from tracing our own HTTP calls.

In: nothing. Out: a context manager for the sender thread. Imports the OpenTelemetry API only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context

_KEYS = ("suppress_instrumentation", "suppress_http_instrumentation")


@contextmanager
def suppress_instrumentation() -> Iterator[None]:
    """Set the context keys that OpenTelemetry's instrumentations check before they act."""
    current = context.get_current()
    for key in _KEYS:
        current = context.set_value(key, True, current)
    token = context.attach(current)
    try:
        yield
    finally:
        context.detach(token)
