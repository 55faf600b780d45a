# SPDX-License-Identifier: Apache-2.0
"""A read-only way from the viewer to the stores: allow-listed paths, streamed, bounded in size and time.

In: `/api/datasources/proxy/{uid}/{path}`. Out: the store's answer as it is, or 502/504 that say what is wrong.
Nothing of the browser's credentials reaches a store, nothing that could run in a page comes back. Imports settings.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glideslope.config import Ports
from glideslope.server.security import read_body
from glideslope.server.settings import Settings

_LOG = logging.getLogger(__name__)
_PROMETHEUS = re.compile(r"api/v1/(query|query_range|series|labels|label/[A-Za-z_][A-Za-z0-9_:.]{0,255}/values)")
# `tail` never ends, so it does not belong behind a proxy that bounds time.
_LOGS = re.compile(r"select/logsql/(?!tail)[a-z_]{1,40}")
_TRACES = re.compile(r"api/(traces(/[0-9a-fA-F]{1,32})?|services(/[^/?#%\\]{1,200}/operations)?)")
_INERT = ("application/json", "application/stream+json", "application/x-ndjson", "text/plain")


@dataclass(frozen=True, slots=True)
class Datasource:
    """One store as Grafana names it, and which of its paths may be read."""

    uid: str
    kind: str
    name: str
    url: str
    allowed: re.Pattern[str]
    methods: frozenset[str] = frozenset({"GET", "POST"})


def datasources(ports: Ports) -> dict[str, Datasource]:
    """The stores of the stack by uid."""
    logs = "victoriametrics-logs-datasource"
    found = (
        Datasource("live", "prometheus", "Live", ports.url("live"), _PROMETHEUS),
        Datasource("curves", "prometheus", "Curves", ports.url("curves"), _PROMETHEUS),
        Datasource("logs", logs, "Logs", ports.url("logs"), _LOGS),
        Datasource("traces", "jaeger", "Traces", ports.url("traces_query"), _TRACES, frozenset({"GET"})),
    )
    return {source.uid: source for source in found}


def _unavailable(status: int, text: str) -> Response:
    body = {"status": "error", "errorType": "unavailable", "error": text}
    return Response(json.dumps(body), status, media_type="application/json")


class _Relay(Response):
    """Passes an open answer on, chunk by chunk; cuts the connection where a bound is passed, so nobody takes a part
    for the whole."""

    def __init__(self, upstream: httpx.Response, source: Datasource, limit: int, deadline: float) -> None:
        kind = upstream.headers.get("content-type", "text/plain")
        safe = kind if kind.partition(";")[0].strip().lower() in _INERT else "text/plain"
        headers = {"content-type": safe, "cache-control": "no-store"}
        for name in ("content-encoding", "content-length"):
            if name in upstream.headers:
                headers[name] = upstream.headers[name]
        super().__init__(status_code=upstream.status_code)
        self.raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._upstream, self._source, self._limit, self._deadline = upstream, source, limit, deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send status, headers and body."""
        request = Request(scope, receive)
        sent = 0
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with asyncio.timeout_at(self._deadline):
                async for chunk in self._upstream.aiter_raw():
                    sent += len(chunk)
                    if sent > self._limit:
                        _LOG.warning("%s sent more than %d bytes: cut off", self._source.uid, self._limit)
                        return
                    if await request.is_disconnected():
                        return
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except (httpx.HTTPError, TimeoutError) as error:
            _LOG.warning("%s broke off after %d bytes (%r): cut off", self._source.uid, sent, error)
        finally:
            await self._upstream.aclose()


def router(settings: Settings) -> APIRouter:
    """GET /api/datasources and GET|POST /api/datasources/proxy/{uid}/{path}; needs `request.app.state.http`."""
    routes = APIRouter(prefix="/api/datasources")
    sources = datasources(settings.ports)

    @routes.get("")
    def list_datasources() -> list[dict[str, Any]]:
        return [
            {"uid": source.uid, "type": source.kind, "name": source.name, "isDefault": source.uid == "live"}
            for source in sources.values()
        ]

    @routes.api_route("/proxy/{uid}/{path:path}", methods=["GET", "POST"])
    async def relay(uid: str, path: str, request: Request) -> Response:
        source = sources.get(uid)
        if source is None:
            raise HTTPException(404, f"there is no such datasource; there are {', '.join(sources)}")
        if not source.allowed.fullmatch(path):
            raise HTTPException(403, f"this path of {uid} is not on the list of paths that may be read")
        if request.method not in source.methods:
            raise HTTPException(405, f"{uid} is read with {' or '.join(sorted(source.methods))}")
        body = await read_body(request, settings.proxy_request_bytes)
        headers = {
            name: request.headers[name]
            for name in ("accept", "accept-encoding", "content-type")
            if name in request.headers
        }
        target = httpx.URL(source.url).copy_with(raw_path=_target(path, request.scope["query_string"]))
        client: httpx.AsyncClient = request.app.state.http
        deadline = asyncio.get_running_loop().time() + settings.proxy_timeout_s
        upstream_request = client.build_request(request.method, target, headers=headers, content=body)
        begun = time.monotonic()
        try:
            async with asyncio.timeout_at(deadline):
                upstream = await client.send(upstream_request, stream=True)
        except (httpx.TimeoutException, TimeoutError):
            waited = time.monotonic() - begun
            return _unavailable(
                504, f"{source.name} did not answer within {waited:.0f} s: ask for a shorter range or fewer series"
            )
        except httpx.HTTPError as error:
            return _unavailable(
                502, f"{source.name} cannot be reached ({type(error).__name__}): see `glideslope status`"
            )
        length = upstream.headers.get("content-length", "")
        if length.isdigit() and int(length) > settings.proxy_response_bytes:
            await upstream.aclose()
            return _unavailable(
                502, f"{source.name} answered with {length} bytes: ask for a shorter range or fewer series"
            )
        if upstream.is_redirect:
            await upstream.aclose()
            return _unavailable(502, f"{source.name} answered with a redirect: is another program on its port?")
        return _Relay(upstream, source, settings.proxy_response_bytes, deadline)

    return routes


def _target(path: str, query: bytes) -> bytes:
    encoded = httpx.URL("http://store/").copy_with(path="/" + path).raw_path
    return encoded + (b"?" + query if query else b"")
