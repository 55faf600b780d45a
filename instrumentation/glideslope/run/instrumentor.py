# SPDX-License-Identifier: Apache-2.0
"""`PyTorchInstrumentor`: what `opentelemetry-instrument` finds and what `glideslope run` calls.

In: the environment (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_SDK_DISABLED,
GLIDESLOPE_*). Out: a running `Session`, or nothing in processes that do not train. Imports no torch: it is
instrumented when the script imports it.

    from glideslope import PyTorchInstrumentor
    PyTorchInstrumentor().instrument()
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from glideslope.run import current
from glideslope.run.session import Session

_log = logging.getLogger("glideslope")
_instruments = ("torch >= 2.0.0a0",)


class PyTorchInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # untyped in opentelemetry
    """Instruments PyTorch training in this process without a change to the script; a singleton, as in OpenTelemetry."""

    _session: Session | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """The distributions that must be installed; pre-releases of torch 2.0 count, so that vendor builds pass."""
        return _instruments

    def _instrument(self, **kwargs: Any) -> None:
        # Any exception here would abort every other OpenTelemetry instrumentation of the process.
        try:
            self._session = current.instrument()
        except Exception as error:
            _log.warning("glideslope stays off: %s: %s", type(error).__name__, error)

    def _uninstrument(self, **kwargs: Any) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.stop()
