"""The table of endpoints, and the routes that are not JSON documents: events, metrics, health, log-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from etl.running.metrics import Sample, samples, text_lines
from etl.running.metrics_server import METRICS_TYPE, memory_samples
from etl.server import access, api_changes, api_letters, api_reading
from etl.server.endpoints import Endpoint
from etl.server.openapi import openapi
from etl.server.requests import error_response, json_response

if TYPE_CHECKING:
    from etl.server.pipeline_server import PipelineServer

ENDPOINTS: tuple[Endpoint, ...] = (*api_reading.ENDPOINTS, *api_letters.ENDPOINTS, *api_changes.ENDPOINTS)


def api_routes() -> list[BaseRoute]:
    """All routes."""
    return [
        *(endpoint.route() for endpoint in ENDPOINTS),
        Route("/api/openapi.json", _openapi),
        Route("/api/events", _events),
        Route("/api/session", _log_in, methods=["POST"]),
        Route("/api/session", _log_out, methods=["DELETE"]),
        Route("/login", _login_page),
        Route("/metrics", _metrics),
        Route("/health", _health),
        Route("/ready", _ready),
    ]


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return openapi(ENDPOINTS)


def _openapi(request: Request) -> Response:
    return json_response(document())


async def _events(request: Request) -> ASGIApp:
    """The stream: an application takes the place of a response."""
    events: ASGIApp = request.app.state.events
    return events


# ── Tokens of browsers ────────────────────────────────────────────────────────────────────────────

_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sluice: log in</title>
<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}
body{font:1rem system-ui;max-width:22rem;margin:20vh auto;padding:1rem}input,button{font:inherit;width:100%;margin:.3rem 0;
padding:.5rem;box-sizing:border-box}</style><h1>Sluice</h1><form method="post" action="/api/session">
<label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button></form></html>"""


MAX_FORM_BYTES = 4096
"""Maximum bytes of the form with a token: it is read before anybody is known."""


def _login_page(request: Request) -> Response:
    return HTMLResponse(_LOGIN)


async def _log_in(request: Request) -> Response:
    """Take the token of a form, and give it to the browser as a cookie that scripts cannot read."""
    from urllib.parse import parse_qs

    body = await request.body()
    if len(body) > MAX_FORM_BYTES:
        return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"the form has at most {MAX_FORM_BYTES} bytes")
    given = parse_qs(body.decode("ascii", "replace")).get("token", [""])[0].strip()
    rights: access.Access = request.app.state.access
    if rights.tokens is not None and rights.tokens.role(given) is None:
        return error_response(HTTPStatus.UNAUTHORIZED, *access.WRONG_TOKEN)
    response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    response.set_cookie(access.COOKIE, given, httponly=True, samesite="strict", secure=rights.secure)
    return response


def _log_out(request: Request) -> Response:
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    response.delete_cookie(access.COOKIE)
    return response


# ── Monitoring ────────────────────────────────────────────────────────────────────────────────────


def _metrics(request: Request) -> Response:
    found = server_samples(request.app.state.server)
    return PlainTextResponse("".join(f"{line}\n" for line in text_lines(found)), media_type=METRICS_TYPE)


def server_samples(server: PipelineServer) -> Iterator[Sample]:
    """The metrics of all pipelines and of the processes."""
    for job in server.jobs():
        labels = {"pipeline": str(job.name)}
        yield Sample("sluice_up", labels, float(job.status == "running"))
        yield Sample("sluice_restarts_total", labels, job.restarts, job.created)
        if job.run is not None:
            totals = job.run.totals
            for sample in _masked_texts(samples(str(job.name), totals), server.secrets.mask):
                yield sample._replace(since=totals.created)
    yield from memory_samples()


def _masked_texts(found: Iterable[Sample], mask: Callable[[str], str]) -> Iterator[Sample]:
    """Samples whose labels have no secrets: those of ``…_info`` are texts, such as the error of a table, the others are names."""
    for sample in found:
        is_text = sample.name.endswith("_info")
        yield sample._replace(labels={label: mask(text) for label, text in sample.labels.items()}) if is_text else sample


def _health(request: Request) -> Response:
    """503 while a pipeline that is to run does not, because of a failure, or hangs."""
    return _states(request, {"waiting", "failed", "refused"})


def _ready(request: Request) -> Response:
    """503 until all pipelines that are to run do so."""
    return _states(request, {"waiting", "failed", "refused", "starting", "stopping"})


def _states(request: Request, bad: set[str]) -> Response:
    """Numbers of pipelines only: this needs no token."""
    jobs = request.app.state.server.jobs()
    wrong = sum(job.status in bad or job.hangs for job in jobs)
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    return json_response({"pipelines": len(jobs), "not_running": wrong}, status)
