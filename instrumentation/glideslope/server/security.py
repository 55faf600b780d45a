# SPDX-License-Identifier: Apache-2.0
"""What every request passes first: the Host check against DNS rebinding, the token, security headers, body caps.

In: ASGI scopes and headers. Out: refusals as JSON `{"error": …}`, or the request passed on. Imports settings only.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re

from fastapi import HTTPException, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glideslope.server.settings import Settings

_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})

# Emotion, which @grafana/ui styles itself with, inserts <style> elements: hence 'unsafe-inline' for styles alone.
_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def same_token(given: str, expected: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def bearer(headers: Headers) -> str:
    """The bearer token of a request, empty when there is none."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _basic_password(headers: Headers) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def hostname(host: str) -> str:
    """The name part of a Host header, lower case, without the port; empty for a header that is not well formed."""
    match = _HOST.fullmatch(host.strip().lower())
    return match[1] if match else ""


class Guard:
    """ASGI middleware: refuses foreign Host names, asks for the token where that is set, adds security headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = LOOPBACK_HOSTS | {host.lower() for host in settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                outgoing = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    outgoing[name] = value
            await send(message)

        if hostname(headers.get("host", "")) not in self._hosts:
            text = "this Host name is not served: use 127.0.0.1, or start with `glideslope serve --allow-host NAME`"
            await _refuse(send_guarded, 421, text, {})
        elif self._settings.require_token and not self._known(headers):
            text = "this server asks for its token: send it as `Authorization: Bearer`, or as the password of any user"
            await _refuse(send_guarded, 401, text, {"WWW-Authenticate": 'Basic realm="glideslope"'})
        else:
            await self._app(scope, receive, send_guarded)

    def _known(self, headers: Headers) -> bool:
        return same_token(bearer(headers) or _basic_password(headers), self._settings.token)


async def _refuse(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    body = json.dumps({"error": text}).encode()
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def require_bearer(request: Request, settings: Settings) -> None:
    """Refuse a request that does not carry the token as a bearer token.

    A browser never sends one by itself, unlike a password it remembers: so no foreign page can make it act.
    """
    if not same_token(bearer(request.headers), settings.token):
        raise HTTPException(
            401, "send the token of $GLIDESLOPE_HOME/token as `Authorization: Bearer …`", {"WWW-Authenticate": "Bearer"}
        )


async def read_body(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes; refuse a longer one with 413 without reading the rest."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise HTTPException(413, f"the body may hold at most {limit} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"the body may hold at most {limit} bytes")
    return bytes(body)
