# SPDX-License-Identifier: Apache-2.0
"""The application: routers put together behind the guard. In: settings. Out: an ASGI app. Imports the server only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glideslope._version import __version__
from glideslope.server import alerts, dashboards, datasources, runbooks, viewer
from glideslope.server.alert_book import AlertBook
from glideslope.server.security import Guard
from glideslope.server.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """Return the server's application."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        timeout = httpx.Timeout(settings.proxy_timeout_s, connect=5.0)
        limits = httpx.Limits(max_connections=64)
        # The stores are on loopback: a proxy of the environment must not come between.
        async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as client:
            app.state.http = client
            yield

    # The interactive API pages load scripts from other hosts, which the content security policy forbids.
    app = FastAPI(
        title="glideslope", version=__version__, lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None
    )
    app.add_middleware(Guard, settings=settings)

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    book = AlertBook(
        settings.state / "alerts.json", kept=settings.alerts_kept, watchdog_timeout_s=settings.watchdog_timeout_s
    )
    app.include_router(dashboards.router(settings))
    app.include_router(datasources.router(settings))
    app.include_router(alerts.router(settings, book))
    app.include_router(runbooks.router(settings))
    app.include_router(viewer.router(settings))
    return app
