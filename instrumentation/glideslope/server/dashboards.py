# SPDX-License-Identifier: Apache-2.0
"""The generated dashboards, read from their folder. In: uid. Out: the file as it is. Imports settings only."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

from glideslope.server.settings import Settings

_LOG = logging.getLogger(__name__)


def _read(folder: Path) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Every dashboard of the folder by uid, parsed and as bytes; damaged files are left out with a warning."""
    found: dict[str, tuple[dict[str, Any], bytes]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = path.read_bytes()
            parsed = json.loads(content)
            found[str(parsed["uid"])] = (parsed, content)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _LOG.warning("%s is no dashboard (%r): run `glideslope render`", path.name, error)
    return found


def router(settings: Settings) -> APIRouter:
    """GET /api/dashboards and /api/dashboards/{uid}."""
    routes = APIRouter(prefix="/api/dashboards")

    @routes.get("")
    def list_dashboards() -> list[dict[str, Any]]:
        return [
            {
                "uid": uid,
                "title": parsed.get("title", uid),
                "tags": parsed.get("tags", []),
                "description": parsed.get("description", ""),
            }
            for uid, (parsed, _) in _read(settings.dashboards).items()
        ]

    @routes.get("/{uid}")
    def get_dashboard(uid: str) -> Response:
        dashboards = _read(settings.dashboards)
        if uid not in dashboards:
            known = ", ".join(dashboards) or "none: run `glideslope render`"
            raise HTTPException(404, f"there is no such dashboard; there are {known}")
        return Response(dashboards[uid][1], media_type="application/json", headers={"Cache-Control": "no-cache"})

    return routes
