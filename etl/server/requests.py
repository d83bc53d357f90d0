"""Answers as JSON, and errors as answers, in which secrets are masked."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from etl.api import EtlError
from etl.config.problems import ConfigError

log = logging.getLogger("sluice.server")


class ApiError(EtlError):
    """An error with the status and the code of its answer."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


JSON = "application/json"


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def json_response(value: Any, status: int = HTTPStatus.OK) -> Response:
    """A value as JSON."""
    return Response(encode(value), status, media_type=JSON)


def error_response(status: int, code: str, message: str, **more: Any) -> Response:
    """An error: ``{"error": {"code": …, "message": …}}``."""
    return json_response({"error": {"code": code, "message": message, **more}}, status)


def failure_response(error: Exception, mask: Callable[[str], str] = str) -> Response:
    """The answer for an error of a handler."""
    if isinstance(error, ApiError):
        return error_response(error.status, error.code, mask(str(error)))
    if isinstance(error, ConfigError):
        problems = [_masked_problem(problem.as_dict(), mask) for problem in error.problems]
        message = "the file has problems"
        return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", message, problems=problems)
    if isinstance(error, OSError):
        log.warning("a request is refused: %s", error)
        return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", mask(_without_folders(error)))
    return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "refused", mask(str(error)))


def _masked_problem(problem: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    return {name: mask(value) if name in ("message", "hint") and value else value for name, value in problem.items()}


def _without_folders(error: OSError) -> str:
    """The error without the folders of the server, which clients must not see: ``ssh.yaml on the server: No space
    left on device``."""
    if error.errno is None:
        return str(error)
    name = os.path.basename(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else ""
    reason = error.strerror or os.strerror(error.errno)
    return f"{name} on the server: {reason}" if name else f"{reason} on the server"


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
