# SPDX-License-Identifier: Apache-2.0
"""The viewer's built files, with index.html for every route of the single-page application. Imports settings only."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response

from glideslope.server.settings import Settings

_FILES = (".css", ".gif", ".ico", ".js", ".json", ".map", ".mjs", ".png", ".svg", ".ttf", ".txt", ".woff", ".woff2")
_NOT_BUILT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>glideslope: the viewer is not built</title>
<h1>The viewer is not built yet</h1>
<p>The server runs, and its API answers. To build the viewer, run in the checkout:</p>
<pre>cd dashboards/viewer &amp;&amp; npm ci &amp;&amp; npm run build</pre>
<p>Then load this page again; the server need not be restarted. The wheel of glideslope brings the viewer built.</p>
</html>
"""


def _inside(root: Path, path: str) -> Path | None:
    """The file at `path` under `root`, or None when there is none or a link or `..` leads out."""
    try:
        candidate = (root / path).resolve()
    except (OSError, ValueError):
        return None
    return candidate if candidate.is_relative_to(root) and candidate.is_file() else None


def router(settings: Settings) -> APIRouter:
    """Every path that no other router took."""
    routes = APIRouter()

    @routes.api_route("/{path:path}", methods=["GET", "HEAD"])
    def get_file(path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise HTTPException(404, "there is no such API")
        root = settings.viewer.resolve()
        index = root / "index.html"
        if not index.is_file():
            return HTMLResponse(_NOT_BUILT, 503, headers={"Cache-Control": "no-store"})
        found = _inside(root, path) if path else None
        if found is None:
            if path.startswith("assets/") or path.lower().endswith(_FILES):
                raise HTTPException(404, "the viewer has no such file")
            return FileResponse(index, headers={"Cache-Control": "no-cache"})
        # Vite puts a hash of the content into the names under assets/.
        hashed = found.is_relative_to(root / "assets")
        cache = "public, max-age=31536000, immutable" if hashed else "no-cache"
        return FileResponse(found, headers={"Cache-Control": cache})

    return routes
