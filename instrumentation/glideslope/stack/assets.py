# SPDX-License-Identifier: Apache-2.0
"""Where the shipped stack files lie: collectors, dashboards, alerts, compose.

In: nothing. Out: paths that exist. Imports errors only. A wheel carries the folders under `glideslope/_stack/`;
a checkout (editable install) has them at its top. No second place computes a data path.
"""

from __future__ import annotations

from pathlib import Path

import glideslope
from glideslope.errors import StackError

KINDS = ("collectors", "dashboards", "alerts", "compose")


def stack_root() -> Path:
    """Return the folder that holds the four stack folders.

    Raises StackError when neither the wheel's nor the checkout's folders are there.
    """
    package = Path(glideslope.__file__).resolve().parent
    candidates = (package / "_stack", package.parents[1])
    for candidate in candidates:
        if all((candidate / kind).is_dir() for kind in KINDS):
            return candidate
    raise StackError(f"no stack files in {candidates[0]} or {candidates[1]}: reinstall glideslope")


def stack_file(*parts: str) -> Path:
    """Return one shipped file or folder, for example `stack_file("collectors", "otelcol", "local.yaml")`.

    Raises StackError when it is not there.
    """
    path = stack_root().joinpath(*parts)
    if not path.exists():
        raise StackError(f"{path} is missing: reinstall glideslope, or run `glideslope render` if it is generated")
    return path
