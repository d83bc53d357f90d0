"""Endpoints as values: method, path, parameters and documents, from which routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from etl.api import EtlError, nearest
from etl.server.access import Access
from etl.server.boards.shared_answers import KnownRequest, SharedAnswers
from etl.server.boards.viewer_turns import POLL_AFTER
from etl.server.documents import masked
from etl.server.names import PipelineName
from etl.server.pipeline_server import PipelineServer, UnknownPipelineError
from etl.server.requests import JSON, ApiError, encode, failure_response, json_response

if TYPE_CHECKING:
    from etl.server.events import Events

Value = str | int | bool


@dataclass(frozen=True)
class Download:
    """An answer that is a file, sent part by part."""

    media_type: str
    name: str
    """The name under which browsers save it."""
    parts: Iterator[bytes]

    def response(self) -> Response:
        """The answer, once its first part is there: what fails before it has a status of its own, what fails later ends the
        connection before the end of the answer."""
        first = next(self.parts, b"")
        headers = {"Content-Disposition": f'attachment; filename="{self.name}"'}
        return StreamingResponse(chain((first,), self.parts), media_type=self.media_type, headers=headers)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query string."""

    name: str
    description: str
    type: Literal["string", "integer"] = "string"
    default: Value | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Value:
        """The value of a text. Raises ApiError."""
        if self.type == "integer":
            return self._integer(text)
        if self.choices and text not in self.choices:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, "bad-parameter", f"{self.name} is one of {', '.join(self.choices)}, not {text[:80]!r}"
            )
        return text

    def _integer(self, text: str) -> int:
        low, high = self.minimum or 0, self.maximum if self.maximum is not None else 2**53
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not low <= number <= high:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, "bad-parameter", f"{self.name} is a whole number from {low} to {high}, not {text[:80]!r}"
            )
        return number


@dataclass(frozen=True)
class Call:
    """A request to an endpoint."""

    server: PipelineServer
    events: Events
    name: PipelineName | None
    """The pipeline in the path."""
    path: Mapping[str, str]
    values: Mapping[str, Any]
    """Parameters of the query string; those that are not given have their default."""
    body: bytes

    @property
    def pipeline(self) -> PipelineName:
        """The pipeline in the path, where there is one."""
        assert self.name is not None
        return self.name


@dataclass(frozen=True)
class Endpoint:
    """One thing that the API does. ``handle`` runs in a thread; an EtlError that it raises is the answer 422."""

    method: Literal["GET", "PUT", "POST", "DELETE"]
    path: str
    summary: str
    handle: Callable[[Call], Any]
    answer: Any
    """The model of the answer, or ``list[model]``; a sequence of media types if it is a `Download`."""
    parameters: tuple[Parameter, ...] = ()
    takes_file: bool = False
    """Whether the body is the text of a pipeline file."""
    status: int = HTTPStatus.OK
    is_shared: bool = False
    """Whether viewers ask for it again and again: one answer serves all who do so in the same second, unless a request has the
    header ``Cache-Control: no-cache``."""

    def route(self) -> Route:
        """The route of the application."""
        return Route(self.path, self._respond, methods=[self.method])

    async def _respond(self, request: Request) -> Response:
        mask: Callable[[str], str] = request.app.state.mask
        answers: SharedAnswers = request.app.state.answers
        try:
            call = self._call(request, await request.body())
            if self.is_shared and request.headers.get("cache-control") != "no-cache":
                return await self._share(request, answers, lambda: encode(masked(self.handle(call), mask)))
            answer = await run_in_threadpool(self._answer, call)
            if self.method != "GET":
                answers.forget()
        except UnknownPipelineError as error:
            return failure_response(ApiError(HTTPStatus.NOT_FOUND, "unknown-pipeline", str(error)))
        except (EtlError, OSError) as error:
            return failure_response(error, mask)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return json_response(masked(answer, mask), self.status)

    async def _share(self, request: Request, answers: SharedAnswers, compute: Callable[[], bytes]) -> Response:
        """The answer for all who ask for the same; it says when its viewer has the next turn."""
        access: Access = request.app.state.access
        token, key = access.token(request.headers), f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
        known_request = KnownRequest(key, token, lambda: access.role_of(token) is not None)
        text = await answers.get(known_request.key, lambda: run_in_threadpool(compute))
        answers.remember(getattr(request.state, "head", b""), known_request)
        return Response(text, media_type=JSON, headers={POLL_AFTER: f"{request.state.connection.pause(token):.2f}"})

    def _answer(self, call: Call) -> Any:
        answer = self.handle(call)
        return answer.response() if isinstance(answer, Download) else answer

    def _call(self, request: Request, body: bytes) -> Call:
        path, query = request.path_params, request.query_params
        known = {one.name: one for one in self.parameters}
        for name in query:
            if name not in known:
                hint = nearest(name, known) or f"there are {', '.join(known) or 'none'}"
                raise ApiError(HTTPStatus.BAD_REQUEST, "unknown-parameter", f"no parameter {name[:80]!r}; {hint}")
        values = {one.name: one.parse(query[one.name]) if one.name in query else one.default for one in self.parameters}
        state = request.app.state
        return Call(state.server, state.events, _name(path), path, values, body)


def _name(path: Mapping[str, str]) -> PipelineName | None:
    """The name in the path. Raises ApiError."""
    if "namespace" not in path:
        return None
    try:
        return PipelineName.of(path["namespace"], path["name"])
    except EtlError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "bad-name", str(error)) from None


def models(answer: Any) -> list[type[BaseModel]]:
    """The models of an answer."""
    if answer is None or isinstance(answer, tuple):
        return []
    return [answer] if isinstance(answer, type) and issubclass(answer, BaseModel) else list(get_args(answer))
