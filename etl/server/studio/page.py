"""The page: one HTML document, and the files that `npm run build` in ``web/`` wrote."""

from __future__ import annotations

import secrets
from pathlib import Path

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from etl.resources import schema_file
from etl.server.access import SCREENS

STATIC = Path(__file__).parent.parent / "static"

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


def page_routes() -> list[BaseRoute]:
    """The document at each screen's address, its files, and the schema that the editor completes from."""
    return [
        *(Route(path, _document) for path in (*sorted(SCREENS), "/pipelines/{name:path}")),
        Mount(
            "/static",
            routes=[Route("/schema.json", _schema), Mount("/", _Files(directory=STATIC))],
            middleware=[Middleware(GZipMiddleware, minimum_size=1024)],
        ),
    ]


async def _document(_: Request) -> Response:
    """The document; the editor's styles carry the nonce of this answer."""
    nonce = secrets.token_urlsafe(16)
    text = (STATIC / "index.html").read_text("utf-8").replace("{nonce}", nonce)
    return HTMLResponse(text, headers={"Content-Security-Policy": CONTENT_POLICY.format(nonce=nonce)})


async def _schema(_: Request) -> Response:
    return Response(schema_file().read_bytes(), media_type="application/json", headers={"Cache-Control": "max-age=3600"})


class _Files(StaticFiles):
    """Files whose names hold a hash of their content never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "max-age=31536000, immutable" if "-" in Path(path).stem else "no-cache"
        return response
