"""What the bulk API answers: what became of each document.

Inside an answer of 200 each document has a status of its own, in the order of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from connectors.elasticsearch.documents import Action
from connectors.http.connection import Answer
from etl.api import ComponentError

Fate = Literal["done", "retry", "dead", "stop"]

QUERY = "filter_path=errors,items.*.status,items.*.error"
"""The parts of an answer that are read: the others cost time on both sides."""

LONGEST_REASON = 1000

_NO_ERRORS = re.compile(rb'\s*\{\s*(?:"took"\s*:\s*\d+\s*,\s*)?"errors"\s*:\s*false\b')
_BUSY = (408, 429, 502, 503, 504)
_STOPS = re.compile(
    r"security_exception|index_not_found_exception|op_type of create|no write index is defined|pipeline with id .* does not exist"
)
"""Of errors whose reason is no event: they would send all of them to the dead letters."""


class Item(NamedTuple):
    """A document that was not simply taken: its row in the request."""

    row: int
    fate: Fate
    reason: str


def items(answer: Answer, action: Action, count: int) -> list[Item]:
    """What needs attention in an answer of 200. Raises ConnectionError when it is no answer of the bulk API.

    Where any document failed, a Python loop over the answer's items: the server tells of each in an object of its own.
    """
    if _NO_ERRORS.match(answer.body) and answer.body.rstrip().endswith(b"}"):
        return []
    try:
        said = json.loads(answer.body)
        results = [next(iter(item.values())) for item in said["items"]]
        found = list(_told(results, action))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ConnectionError(f"{answer.place} gave no answer of the bulk API: {answer.excerpt()!r}") from error
    if len(results) != count:
        raise ConnectionError(f"{answer.place} answered for {len(results)} documents of {count}")
    return found


def refuse(answer: Answer) -> None:
    """Raise what an answer means for the request as a whole: OSError, or ComponentError where trying again will not help."""
    said = f"{answer.place} answers {answer.status}: {reason_in(answer)}"
    if answer.status in _BUSY or answer.status >= 500 or "cluster_block_exception" in said:
        raise ConnectionError(said)
    raise ComponentError(said + _ADVICE.get(answer.status, ""))


def reason_in(answer: Answer) -> str:
    """The reason in an answer's body, or how the body begins."""
    try:
        error = json.loads(answer.body)["error"]
        return error[:LONGEST_REASON] if isinstance(error, str) else _reason(error)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return answer.reason()


_ADVICE = {
    401: "; see user and password, api_key or token",
    403: "; this login may not do that",
    404: "; is the path of the URL right?",
    405: "; is the path of the URL right?",
}


def _told(results: list[dict[str, Any]], action: Action) -> Iterator[Item]:
    for row, result in enumerate(results):
        status = result["status"]
        if status > 299:
            error = result.get("error") or {}
            reason = f"{status}: {_reason(error)}"
            yield Item(row, _fate(status, reason, action), reason)


def _fate(status: int, reason: str, action: Action) -> Fate:
    if status == 409:
        return "done" if action == "create" else "retry"
    if status in _BUSY or "cluster_block_exception" in reason:
        return "retry"
    return "stop" if status in (401, 403) or _STOPS.search(reason) else "dead"


def _reason(error: dict[str, Any]) -> str:
    """``type: reason``, with what caused it."""
    said = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    while isinstance(cause, dict) and len(said) < LONGEST_REASON:
        said += f"; {cause.get('type')}: {cause.get('reason')}"
        cause = cause.get("caused_by")
    return said[:LONGEST_REASON]
