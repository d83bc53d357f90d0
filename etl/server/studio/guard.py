"""What every answer to a browser has, and which requests are refused before anything reads them."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 8 << 20
"""Most bytes of a request's body."""

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'nonce-{nonce}'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The page runs its own scripts only: a log line that holds markup stays text, and nothing is sent elsewhere."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine in the header Host. Another name may be that of a hostile page whose address was changed to loopback."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BrowserGuard:
    """Refuses requests for other hosts, from pages of other origins, without the token, and with large bodies.

    ``token``: what requests for ``/api/`` bring as ``Authorization: Bearer …``; None where another layer asks for it.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK, token: str | None = None) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            status, message = refusal
            await error_response(status, "refused", message)(scope, receive, _with_headers(send))
            return
        await self.app(scope, _limited(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and message, if the request is refused."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts and _host_name(host) not in self.hosts:
            return 421, f"this server is not {host[:100]!r}; open it under the address that it printed"
        origin = headers.get("origin")
        if scope["method"] not in SAFE_METHODS and origin is not None and urlsplit(origin).netloc != host:
            return 403, "the request comes from a page of another server"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return 413, f"the request has more than {MAX_BODY_BYTES >> 20} MiB"
        if self.token is not None and scope["path"].startswith("/api/") and not _has_token(headers, self.token):
            return 401, "the address lacks its token; open the one that the command printed"
        return None


def error_response(status: int, code: str, message: str) -> JSONResponse:
    """An error: ``{"error": {"code": …, "message": …}}``."""
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _host_name(host: str) -> str:
    """``[::1]:8080`` → ``::1``."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _has_token(headers: Headers, token: str) -> bool:
    given = headers.get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


def _limited(receive: Receive) -> Receive:
    """Ends a body without a length when it becomes too large."""
    size = 0

    async def read() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if size > MAX_BODY_BYTES else message

    return read


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", CONTENT_POLICY.replace(" 'nonce-{nonce}'", ""))
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return answer
