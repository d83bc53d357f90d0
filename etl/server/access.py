"""Who may do what: the guard in front of every request."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from etl.server.requests import error_response
from etl.server.tokens import OneToken, Role, Tokens

COOKIE = "sluice_token"
"""The cookie with the token of a browser."""

SCREENS = frozenset({"/", "/studio", "/dead-letters", "/rules"})
"""Paths of the page. Its document is the same for everyone: what it shows comes from the API, and so needs the token."""

HEALTH_PATHS = frozenset({"/health", "/ready"})
"""Paths of checks whether the server and its pipelines work."""

PUBLIC_PATHS = HEALTH_PATHS | frozenset({"/login", "/api/session", "/favicon.ico"}) | SCREENS
"""Paths that need no token: they show nothing of the pipelines."""

PUBLIC_PREFIXES = ("/static/", "/pipelines/")
"""Below here are files of the page, and its screens of single pipelines."""

MAX_BODY_BYTES = 4 << 20
"""Maximum bytes of the body of a request."""

BODY_SECONDS = 20.0
"""Seconds that a client may take to send a body."""

NO_TOKEN = "no-token", "send a token: Authorization: Bearer TOKEN"
WRONG_TOKEN = "wrong-token", "the server does not know this token: it may be withdrawn; `etl token` makes another"
_READING = frozenset({"GET", "HEAD"})
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""Headers of every answer that does not have them already."""


@dataclass(frozen=True)
class Access:
    """Who may use the server. Without ``tokens`` everyone who reaches it, which is allowed on loopback only."""

    tokens: Tokens | OneToken | None = None
    secure: bool = False
    """Whether clients connect with TLS."""

    def role(self, headers: Headers) -> Role | None:
        """The role of a request; None without a valid token."""
        return self.role_of(self.token(headers))

    def role_of(self, token: str) -> Role | None:
        """The role of a token; None for one that is not valid, or empty."""
        if self.tokens is None:
            return "write"
        return self.tokens.role(token) if token else None

    def token(self, headers: Headers) -> str:
        """The token that a request has, valid or not; empty without one."""
        if self.tokens is None:
            return ""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else _cookie(headers)


ANYONE = Access()
"""Everyone on this machine."""


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


class Guard:
    """Refuses requests without the right role, from pages of other sites, and with bodies that are too large or too slow."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        send = _with_headers(send)
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _limited(receive), send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if self._access.tokens is None and not _LOOPBACK.fullmatch(headers.get("host", "")):
            return _refuse(HTTPStatus.FORBIDDEN, "wrong-host", "without tokens this server answers only for localhost")
        if method not in _READING and not _is_same_origin(headers):
            return _refuse(HTTPStatus.FORBIDDEN, "other-origin", "a page of another site sent this request")
        if (size := headers.get("content-length", "0")).isdecimal() and int(size[:20]) > MAX_BODY_BYTES:
            return _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"a body has at most {MAX_BODY_BYTES >> 20} MiB")
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
            return None
        return self._check_role(headers, method, path)

    def _check_role(self, headers: Headers, method: str, path: str) -> Response | None:
        role = self._access.role(headers)
        if role is None and method in _READING and "text/html" in headers.get("accept", "") and not path.startswith("/api/"):
            return RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        if role is None:
            response = _refuse(HTTPStatus.UNAUTHORIZED, *(WRONG_TOKEN if self._access.token(headers) else NO_TOKEN))
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        if role != "write" and method not in _READING:
            return _refuse(HTTPStatus.FORBIDDEN, "read-only", "this token only reads; changes need one with the role write")
        return None


def _refuse(status: HTTPStatus, code: str, message: str) -> Response:
    return error_response(status, code, message)


def _is_same_origin(headers: Headers) -> bool:
    """Whether a request comes from a page of this server, or from a program, which sends no ``Origin``."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def _limited(receive: Receive) -> Receive:
    """Receive a body of limited size in limited time. Raises HTTPException."""
    size, until = 0, asyncio.get_running_loop().time() + BODY_SECONDS
    done = False

    async def limited() -> Message:
        nonlocal size, done
        if done:
            return await receive()  # waits for the client's end
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come in {BODY_SECONDS:g} s") from None
        size += len(message.get("body", b""))
        done = not message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY_BYTES >> 20} MiB")
        return message

    return limited


def _with_headers(send: Send) -> Send:
    """Add the security headers to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
