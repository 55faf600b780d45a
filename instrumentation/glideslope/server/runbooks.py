# SPDX-License-Identifier: Apache-2.0
"""What to do about an alert: one Markdown page each. In: the alert's name. Out: text. Imports settings only."""

from __future__ import annotations

import re

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

from glideslope.server.settings import Settings

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,99}")


def router(settings: Settings) -> APIRouter:
    """GET /api/runbooks/{AlertName}."""
    routes = APIRouter(prefix="/api/runbooks")

    @routes.get("/{name}")
    def get_runbook(name: str) -> Response:
        path = settings.runbooks / f"{name}.md"
        if not _NAME.fullmatch(name) or not path.is_file():
            known = ", ".join(sorted(page.stem for page in settings.runbooks.glob("*.md"))) or "none"
            raise HTTPException(404, f"there is no runbook of that name; there are {known}")
        return Response(path.read_bytes(), media_type="text/markdown; charset=utf-8")

    return routes
