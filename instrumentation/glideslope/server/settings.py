# SPDX-License-Identifier: Apache-2.0
"""What the server needs to know: folders, stores, token, bounds. Imports config and errors only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from glideslope.config import Ports
from glideslope.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of one server."""

    assets: Path
    """Folder that holds `dashboards/` and `alerts/` (glideslope.stack.assets.stack_root)."""
    state: Path
    """Folder for what the server remembers, such as $GLIDESLOPE_HOME/data/server."""
    token: str
    """Bearer token of everything that changes something."""
    ports: Ports = field(default_factory=Ports)
    """Where the stores listen on loopback."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, besides loopback, under which browsers may address the server."""
    require_token: bool = False
    """Ask for the token on every request, also to read: needed when others can reach the port."""
    proxy_timeout_s: float = 60.0
    """Longest time that a relayed query may take in all."""
    proxy_request_bytes: int = 1 << 20
    proxy_response_bytes: int = 256 << 20
    """Most bytes of a store's answer, as sent, that are relayed."""
    webhook_bytes: int = 1 << 20
    alerts_kept: int = 1000
    """Most alerts that are remembered; the oldest resolved ones go first, counted."""
    watchdog_timeout_s: float = 90.0
    """The alerting chain counts as broken when no Watchdog alert arrived for this long; Alertmanager repeats it
    every 30 s."""

    def __post_init__(self) -> None:
        if len(self.token) < 16:
            raise ConfigError(
                "the server needs a token of at least 16 characters: delete the token file to get a new one"
            )
        for name in (
            "proxy_timeout_s",
            "proxy_request_bytes",
            "proxy_response_bytes",
            "webhook_bytes",
            "alerts_kept",
            "watchdog_timeout_s",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be more than 0, got {getattr(self, name)}")

    @property
    def dashboards(self) -> Path:
        """Folder with the generated dashboards."""
        return self.assets / "dashboards" / "generated"

    @property
    def viewer(self) -> Path:
        """Folder with the built viewer; it may not be there yet."""
        return self.assets / "dashboards" / "viewer" / "dist"

    @property
    def runbooks(self) -> Path:
        """Folder with one Markdown page for each alert."""
        return self.assets / "alerts" / "runbooks"
