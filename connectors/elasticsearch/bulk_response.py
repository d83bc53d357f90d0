"""Responses of the bulk API: the outcome of each document.

A response with status 200 has a status for each document, in the order of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from connectors.elasticsearch.documents import Action
from connectors.http.connection import Response
from etl.api import ComponentError

Handling = Literal["done", "retry", "dead", "stop"]

RESPONSE_FILTER = "filter_path=errors,items.*.status,items.*.error"
"""The parts of a response that are used: the others cost time on both sides."""

MAX_REASON_CHARS = 1000

_NO_ERRORS = re.compile(rb'\s*\{\s*(?:"took"\s*:\s*\d+\s*,\s*)?"errors"\s*:\s*false\b')
_BUSY = (408, 429, 502, 503, 504)
_PIPELINE_ERRORS = re.compile(
    r"security_exception|index_not_found_exception|op_type of create|no write index is defined|pipeline with id .* does not exist"
)
"""Errors that are not caused by an event: they would make all events dead letters."""


class DocumentFailure(NamedTuple):
    """A document that was not indexed: its row in the request."""

    row: int
    handling: Handling
    reason: str


def parse_bulk_response(response: Response, action: Action, count: int) -> list[DocumentFailure]:
    """Return the failed documents of a response with status 200. Raises ConnectionError if it is not a response of the bulk
    API.

    If a document failed, loops in Python over all documents: each has a JSON object of its own.
    """
    if _NO_ERRORS.match(response.body) and response.body.rstrip().endswith(b"}"):
        return []
    try:
        message = json.loads(response.body)
        results = [next(iter(item.values())) for item in message["items"]]
        found = list(_failed_documents(results, action))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ConnectionError(f"{response.server} sent no response of the bulk API: {response.excerpt()!r}") from error
    if len(results) != count:
        raise ConnectionError(f"{response.server} responded for {len(results)} of {count} documents")
    return found


def raise_for_response(response: Response) -> None:
    """Raise the error that a response means for the whole request: OSError, or ComponentError if a retry cannot help."""
    message = f"{response.server} answers {response.status}: {error_reason(response)}"
    if response.status in _BUSY or response.status >= 500 or "cluster_block_exception" in message:
        raise ConnectionError(message)
    raise ComponentError(message + _HINTS.get(response.status, ""))


def error_reason(response: Response) -> str:
    """Return the reason in a response's body, or the beginning of the body."""
    try:
        error = json.loads(response.body)["error"]
        return error[:MAX_REASON_CHARS] if isinstance(error, str) else _reason(error)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return response.reason()


_HINTS = {
    401: "; check user and password, api_key or token",
    403: "; this login lacks the right",
    404: "; check the path of the URL",
    405: "; check the path of the URL",
}


def _failed_documents(results: list[dict[str, Any]], action: Action) -> Iterator[DocumentFailure]:
    for row, result in enumerate(results):
        status = result["status"]
        if status > 299 and not (status == 404 and "error" not in result):  # a document to delete that is not there
            error = result.get("error") or {}
            reason = f"{status}: {_reason(error)}"
            yield DocumentFailure(row, _classify(status, reason, action), reason)


def _classify(status: int, reason: str, action: Action) -> Handling:
    if status == 409:
        return "done" if action == "create" else "retry"
    if status in _BUSY or "cluster_block_exception" in reason:
        return "retry"
    return "stop" if status in (401, 403) or _PIPELINE_ERRORS.search(reason) else "dead"


def _reason(error: dict[str, Any]) -> str:
    """Return ``type: reason``, followed by its causes."""
    message = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    while isinstance(cause, dict) and len(message) < MAX_REASON_CHARS:
        message += f"; {cause.get('type')}: {cause.get('reason')}"
        cause = cause.get("caused_by")
    return message[:MAX_REASON_CHARS]
