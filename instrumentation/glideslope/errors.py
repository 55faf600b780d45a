# SPDX-License-Identifier: Apache-2.0
"""Every exception that glideslope raises.

* GlideslopeError
  x ConfigError      the caller, an environment variable or a file holds a value we cannot honour
  x InvalidValueError  a value that cannot be logged was passed to a Run in strict mode
  x SemconvError     a metric, attribute or event name is not in the registry
  x SpoolError       a spool folder cannot be read or written
  x StackError       a host-side program could not be built, started or stopped
  x StoreError       a store (VictoriaMetrics, VictoriaLogs, Jaeger, Alertmanager) refused or did not answer
  x RenderError      a dashboard, rule or name file could not be rendered, or differs from what is committed
  x PageError        an exporter page (DCGM, NVML) is not in the format it promises

Nothing is raised into training after instrumentation began: failures there are logged once and counted in
`train.telemetry.errors`. Each message says what to do. This module imports nothing.
"""


class GlideslopeError(Exception):
    """Root of the tree: catch this to catch everything that glideslope raises on purpose."""


class ConfigError(GlideslopeError, ValueError):
    """A value given by the caller, the environment or a file cannot be honoured."""


class InvalidValueError(GlideslopeError, ValueError):
    """A value that cannot be logged was passed to a `Run` in strict mode; without it, such values are dropped."""


class SemconvError(GlideslopeError, KeyError):
    """A name is not in the semantic-convention registry."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SpoolError(GlideslopeError, OSError):
    """A spool folder cannot be read or written."""


class StackError(GlideslopeError, RuntimeError):
    """A host-side program could not be built, started or stopped."""


class StoreError(GlideslopeError, RuntimeError):
    """A store refused a request or did not answer in time."""


class RenderError(GlideslopeError, RuntimeError):
    """A generated file could not be rendered, or differs from what is committed."""


class PageError(GlideslopeError, ValueError):
    """An exporter page is not in the format it promises."""
