# SPDX-License-Identifier: Apache-2.0
"""Binding and running the server. In: address and settings. Out: a listening uvicorn. Imports settings, app, errors."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from glideslope.errors import ConfigError, StackError
from glideslope.server.app import create_app
from glideslope.server.settings import Settings


def is_loopback(host: str) -> bool:
    """True when every address that `host` stands for is a loopback address; raises ConfigError for an unknown name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"--host {host!r} is no address of this machine ({error}): use 127.0.0.1") from None
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def bind(host: str, port: int, settings: Settings) -> socket.socket:
    """Return a listening socket.

    Raises ConfigError when others could reach the port while no token is asked, StackError when it is taken.
    """
    if not settings.require_token and not is_loopback(host):
        raise ConfigError(
            f"binding {host} would show every run to the network: add `--auth token` (browsers ask for the token of "
            "$GLIDESLOPE_HOME/token as password, any user name), or keep 127.0.0.1 and use an SSH tunnel"
        )
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # From here on connections wait for the server instead of being refused.
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise StackError(
            f"port {port} on {host} cannot be bound ({error.strerror}): is another `glideslope serve` running? "
            "Choose another with --port, or set GLIDESLOPE_PORT_OFFSET for the whole stack"
        ) from None
    return bound


def run(settings: Settings, host: str, port: int, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted; `ready` is called with the URL once the port listens. Raises as `bind` does."""
    bound = bind(host, port, settings)
    address, number = bound.getsockname()[:2]
    ready(f"http://{f'[{address}]' if ':' in address else address}:{number}")
    config = uvicorn.Config(
        create_app(settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    try:
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        bound.close()
