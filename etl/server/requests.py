"""Errors as answers, and answers as JSON, in which secrets are masked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from etl.api import EtlError
from etl.config.problems import ConfigError


class ApiError(EtlError):
    """An error with the status and the code of its answer."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def json_response(value: Any, status: int = HTTPStatus.OK, mask: Callable[[str], str] = str) -> Response:
    """A value as JSON."""
    return Response(mask(json.dumps(value, ensure_ascii=False)).encode("utf-8", "replace"), status, media_type="application/json")


def error_response(status: int, code: str, message: str, **more: Any) -> Response:
    """An error: ``{"error": {"code": …, "message": …}}``."""
    return json_response({"error": {"code": code, "message": message, **more}}, status)


def failure_response(error: Exception, mask: Callable[[str], str] = str) -> Response:
    """The answer for an error of a handler."""
    if isinstance(error, ApiError):
        return error_response(error.status, error.code, mask(str(error)))
    if isinstance(error, ConfigError):
        problems = [{**problem.as_dict(), "message": mask(problem.message)} for problem in error.problems]
        message = "the file has problems"
        return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", message, problems=problems)
    return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", mask(str(error)))


def error_handlers() -> Mapping[Any, Callable[[Request, Exception], Response]]:
    """What the application answers where no handler does."""

    def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        response = error_response(error.status_code, code, error.detail)
        response.headers.update(error.headers or {})
        return response

    def on_error(request: Request, error: Exception) -> Response:
        return error_response(
            HTTPStatus.INTERNAL_SERVER_ERROR, "defect", f"{type(error).__name__}; the log of the server says more"
        )

    return {HTTPException: on_http_error, Exception: on_error}
