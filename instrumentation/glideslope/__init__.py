# SPDX-License-Identifier: Apache-2.0
"""glideslope: open observability for training foundation models.

The public face. Importing it loads no torch, no OpenTelemetry SDK and no web framework; names resolve on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glideslope._version import __version__
from glideslope.errors import ConfigError, GlideslopeError, InvalidValueError, SpoolError, StackError, StoreError

if TYPE_CHECKING:
    from glideslope.run.facade import Run, init
    from glideslope.run.instrumentor import PyTorchInstrumentor

__all__ = [
    "ConfigError",
    "GlideslopeError",
    "InvalidValueError",
    "PyTorchInstrumentor",
    "Run",
    "SpoolError",
    "StackError",
    "StoreError",
    "__version__",
    "init",
]

_LAZY = {
    "PyTorchInstrumentor": "glideslope.run.instrumentor",
    "Run": "glideslope.run.facade",
    "init": "glideslope.run.facade",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'glideslope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
