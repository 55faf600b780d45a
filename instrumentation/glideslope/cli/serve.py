# SPDX-License-Identifier: Apache-2.0
"""`glideslope serve`. In: options. Out: a running web server; exit codes as in `glideslope.cli`."""

from __future__ import annotations

import click

from glideslope.config import LOOPBACK, Home, Ports
from glideslope.server.listen import run
from glideslope.server.settings import Settings
from glideslope.stack.assets import stack_root
from glideslope.stack.settings import ensure_token


@click.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to bind.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=None, help="Port to bind; 8700 unless shifted, 0 = free."
)
@click.option(
    "--auth",
    type=click.Choice(["none", "token"]),
    default="none",
    show_default=True,
    help="Whether reading needs the token of $GLIDESLOPE_HOME/token; required beyond loopback.",
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Also answer under this Host name; repeatable.")
def serve(host: str, port: int | None, auth: str, allow_host: tuple[str, ...]) -> None:
    """Serve the viewer, the alerts and the read-only store proxy."""
    home, ports = Home.from_env(), Ports.from_env()
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = Settings(
        assets=stack_root(),
        state=home.data / "server",
        token=ensure_token(home).read_text("utf-8").strip(),
        ports=ports,
        allowed_hosts=(*allow_host, host),
        require_token=auth == "token",
    )
    run(settings, host, ports.server if port is None else port, lambda url: click.echo(f"Serving on {url}"))
