"""The studio's part of the API: what reads lines, a pipeline tried on them, the test of what is shown, and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from etl.resources import folder
from etl.server.requests import error_response
from etl.server.studio.worker_process import StudioError, WorkerProcess

PREFIX = "/api/studio"

MAX_CHARACTERS = 4 << 20
"""Maximum number of characters of the lines or the pipeline in a request."""


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InferQuery(_Query):
    """Lines whose format is requested."""

    text: str = Field(min_length=1, max_length=MAX_CHARACTERS)
    requested: str | None = Field(default=None, max_length=200)
    origin: str = Field(default="lines.log", max_length=4_000)


class TryQuery(_Query):
    """A pipeline and the lines to try it on."""

    text: str = Field(max_length=MAX_CHARACTERS)
    lines: str = Field(max_length=MAX_CHARACTERS)
    step: str = Field(default="", max_length=500)
    now: str | None = Field(default=None, max_length=40)


class DraftTestQuery(_Query):
    """A pipeline and the lines of which a test is made."""

    text: str = Field(max_length=MAX_CHARACTERS)
    lines: str = Field(max_length=MAX_CHARACTERS)
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,100}$")
    now: str | None = Field(default=None, max_length=40)


class RulesQuery(_Query):
    """Rules whose problems and test results are requested."""

    text: str = Field(max_length=MAX_CHARACTERS)


Q = TypeVar("Q", bound=BaseModel)


def studio_routes(worker: WorkerProcess) -> list[BaseRoute]:
    """Routes below `PREFIX`, answered by the worker: they only read, except what steps of the user's own do."""

    def post(path: str, query: type[Q], name: str) -> BaseRoute:
        async def endpoint(request: Request) -> Response:
            return await answer_json(request, query, lambda body: worker.call(name, **body.model_dump()))

        return Route(PREFIX + path, endpoint, methods=["POST"])

    return [
        post("/infer", InferQuery, "infer"),
        post("/try", TryQuery, "try"),
        post("/test", DraftTestQuery, "test"),
        post("/rules", RulesQuery, "rules"),
        Route(f"{PREFIX}/samples", _sample_names),
        Route(f"{PREFIX}/samples/{{name}}", _sample),
    ]


async def answer_json(request: Request, query: type[Q], work: Callable[[Q], Any]) -> Response:
    """The work's value as JSON; 422 with a message for what cannot be answered."""
    try:
        body = query.model_validate_json(await request.body())
        return JSONResponse(await run_in_threadpool(work, body))
    except ValidationError as error:
        return error_response(422, "bad-request", _first_error(error))
    except StudioError as error:
        return error_response(422, "refused", str(error))


def _first_error(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'the request'}: {found['msg']}"


async def _sample_names(_: Request) -> Response:
    return JSONResponse(sorted(path.name for path in folder("samples").glob("*.log")))


async def _sample(request: Request) -> Response:
    """The lines of a sample that comes with the package; other names are not found, whatever they hold."""
    name = request.path_params["name"]
    path = next((path for path in folder("samples").glob("*.log") if path.name == name), None)
    if path is None:
        return error_response(404, "not-found", "there is no such sample")
    return JSONResponse({"name": name, "text": path.read_text("utf-8", "replace")})
