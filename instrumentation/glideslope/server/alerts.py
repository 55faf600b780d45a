# SPDX-License-Identifier: Apache-2.0
"""Alerts over HTTP: the list that the viewer shows, and the webhook that Alertmanager calls. Imports settings."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from glideslope.server.alert_book import AlertBook
from glideslope.server.security import read_body, require_bearer
from glideslope.server.settings import Settings

_LOG = logging.getLogger(__name__)


def router(settings: Settings, book: AlertBook) -> APIRouter:
    """GET /api/alerts and POST /api/alerts/webhook."""
    routes = APIRouter(prefix="/api/alerts")

    @routes.get("")
    def list_alerts() -> dict[str, Any]:
        return book.snapshot()

    @routes.post("/webhook")
    async def webhook(request: Request) -> dict[str, int]:
        require_bearer(request, settings)
        body = await read_body(request, settings.webhook_bytes)
        try:
            return {"received": await run_in_threadpool(book.record, json.loads(body))}
        except (ValueError, RecursionError) as error:
            # 4xx tells Alertmanager that sending the same again is useless, 5xx that it is not.
            raise HTTPException(400, f"the body cannot be used: {error}") from None
        except OSError as error:
            _LOG.error("alerts cannot be written (%r): free disk space under $GLIDESLOPE_HOME", error)
            raise HTTPException(503, "the alerts could not be written to disk: send them again") from None

    return routes
