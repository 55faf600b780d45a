# SPDX-License-Identifier: Apache-2.0
"""`glideslope render`: write the generated dashboards, rules and names, or say which of them are stale.

In: options. Out: files under dashboards/ and alerts/, or exit code 1 with their names. Imports stack.render.
"""

from __future__ import annotations

import click

from glideslope.errors import RenderError
from glideslope.stack import render as rendering


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and name the files that are not up to date.")
def render(check: bool) -> None:
    """Render dashboards, rules and names from Jsonnet."""
    if check:
        stale = rendering.check()
        if stale:
            raise RenderError(f"not up to date: {', '.join(stale)}; run `glideslope render` and commit the result")
        click.echo("Generated files are up to date.")
        return
    changed = rendering.render()
    for path in changed:
        click.echo(f"wrote {path}")
    click.echo(f"{len(changed)} of the generated files changed." if changed else "Generated files are up to date.")
