# SPDX-License-Identifier: Apache-2.0
"""How each native program is built: a table of pinned Go modules.

In: nothing. Out: recipes, in build order (what a dashboard needs first; the two slow ones last). Imports errors only.
Versions are pinned by the `go.mod` and `go.sum` in each folder; the version here says what `--version` must fit.
Facts and build times: measured on two cores from an empty build cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glideslope.errors import StackError

_VICTORIA_VERSION = "github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version"

# The module on the Go proxy lacks the built web pages and `go:embed` refuses an empty folder; the API needs none.
_ALERTMANAGER_PAGE = "<!doctype html><title>Alertmanager</title><p>This build has no web pages; use /api/v2.</p>\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """One program: where its go.mod lies, which package is built and how."""

    program: str
    """Name of the binary."""
    folder: str
    """Folder with go.mod and go.sum, relative to the stack root."""
    package: str
    """Go package to build; `.` builds the folder's own sources."""
    version: str
    """Upstream version; major.minor must be that of a binary found on PATH."""
    stamp: str = ""
    """Linker variable that `--version` prints."""
    stamped: str = "{version}"
    """Text put into `stamp`."""
    tags: str = ""
    """Go build tags."""
    patched_module: str = ""
    """Module that is copied and completed with `added` before the build."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Files to add to the patched module: relative path -> content."""
    seconds: int
    """Wall seconds that the build took here on two cores; for the progress display only."""
    essential: bool = True
    """False for tools that the running stack does not need."""

    @property
    def ldflags(self) -> str:
        """Linker flags: no symbol table, and the version where the program has a variable for it."""
        stamp = f" -X {self.stamp}={self.stamped.format(version=self.version)}" if self.stamp else ""
        return f"-s -w{stamp}"


def _victoria(app: str, seconds: int, essential: bool = True) -> Recipe:
    return Recipe(
        program=app,
        folder="compose/local/victoria-metrics",
        package=f"github.com/VictoriaMetrics/VictoriaMetrics/app/{app}",
        version="1.151.0",
        stamp=_VICTORIA_VERSION,
        stamped=f"{app}-v{{version}}",
        seconds=seconds,
        essential=essential,
    )


def _alertmanager(command: str, seconds: int, essential: bool = True) -> Recipe:
    return Recipe(
        program=command,
        folder="compose/local/alertmanager",
        package=f"github.com/prometheus/alertmanager/cmd/{command}",
        version="0.35.0",
        stamp="github.com/prometheus/common/version.Version",
        patched_module="github.com/prometheus/alertmanager",
        added={"ui/app/dist/index.html": _ALERTMANAGER_PAGE},
        seconds=seconds,
        essential=essential,
    )


_TABLE = (
    _victoria("victoria-metrics", 73),
    Recipe(
        program="victoria-logs",
        folder="compose/local/victoria-logs",
        package="github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
        version="1.52.1",
        stamp=_VICTORIA_VERSION,
        stamped="victoria-logs-v{version}",
        seconds=21,
    ),
    _alertmanager("alertmanager", 49),
    _victoria("vmalert", 9),
    _victoria("vmalert-tool", 2, essential=False),
    _alertmanager("amtool", 2, essential=False),
    Recipe(
        program="glideslope-collector",
        folder="collectors/otelcol",
        package=".",
        version="0.160.0",
        # Without the tag every cloud's service discovery is compiled in: half as long again, a third bigger.
        tags="remove_all_sd",
        seconds=220,
    ),
    Recipe(
        program="jaeger",
        folder="compose/local/jaeger",
        package="github.com/jaegertracing/jaeger/cmd/jaeger",
        version="1.76.0",
        stamp="github.com/jaegertracing/jaeger/internal/version.latestVersion",
        stamped="v{version}",
        seconds=290,
    ),
    Recipe(
        program="compose-spec",
        folder="compose/local/compose-go",
        package=".",
        version="2.9.1",
        seconds=5,
        essential=False,
    ),
)

RECIPES: dict[str, Recipe] = {recipe.program: recipe for recipe in _TABLE}


def recipe(program: str) -> Recipe:
    """Look a recipe up; raises StackError that lists the programs there are."""
    try:
        return RECIPES[program]
    except KeyError:
        raise StackError(f"no program {program!r}: choose from {', '.join(RECIPES)}") from None
