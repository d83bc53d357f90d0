"""A body of the bulk API: pairs of lines, an action and a document, and the status of each item."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from connectors.http.receiving.formats.lines import line_spans
from connectors.http.receiving.requests import RequestError
from connectors.shared.journal.batches import span_texts

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_ITEMS = 1 << 18
"""Items of a body: each has one in the answer, which may be longer."""

_STORED, _REFUSED = ("create", "index"), ("update", "delete")


class Action(NamedTuple):
    """An action: its name, and its item of the response when it succeeds."""

    name: str
    item: bytes
    target: dict[str, Any]


@dataclass(frozen=True)
class BulkItems:
    """The items of a body."""

    spans: Array
    """int64[2, n]: action and document of each item that is stored."""

    items: Sequence[bytes]
    """The item of each action of the body, as JSON."""

    failed: int


def parse_bulk(body: bytes, index: str | None, max_bytes: int) -> BulkItems:
    """Return the items of a body. Raises RequestError (400) if a line that should be an action is none.

    The usual body has only documents to create, and costs a Python loop over its distinct actions; a body with another action
    or a wrong document costs one over its items.
    """
    spans = line_spans(body)
    if spans.shape[1] > 2 * MAX_ITEMS:
        raise RequestError(413, f"the body has more than {MAX_ITEMS} items: send fewer at a time")
    if spans.shape[1] % 2 == 0 and spans.shape[1]:
        actions, which = _distinct_actions(body, spans[:, ::2], index)
        if actions and all(action.name in _STORED for action in actions):
            documents = spans[:, 1::2]
            if _are_objects(body, documents) and not (documents[1] - documents[0] > max_bytes).any():
                return BulkItems(_joined(spans), list(map([action.item for action in actions].__getitem__, which)), 0)
    return _parse_one_by_one(body, spans, index, max_bytes)


def _joined(spans: Array) -> Array:
    import numpy as np

    return np.stack([spans[0, ::2], spans[1, 1::2]])


def _distinct_actions(body: bytes, spans: Array, index: str | None) -> tuple[list[Action], list[int]]:
    """Return the distinct actions, none if a line is not an action; and the number of that of each item."""
    texts = span_texts(pa.py_buffer(body), spans[0], spans[1], "utf-8").cast(pa.string()).dictionary_encode()
    actions = [parse_action(text.encode(), index) for text in texts.dictionary.to_pylist()]
    found = [action for action in actions if action is not None]
    return (found, texts.indices.to_pylist()) if len(found) == len(actions) else ([], [])


def parse_action(line: bytes, index: str | None) -> Action | None:
    """Parse an action; None if the line is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, target),) = value.items()
    if name not in (*_STORED, *_REFUSED) or not isinstance(target, dict):
        return None
    shown = {"_index": target.get("_index", index), "_id": target.get("_id"), "_version": 1, "result": "created", "status": 201}
    return Action(name, json.dumps({name: shown}).encode(), target)


def _are_objects(body: bytes, spans: Array) -> bool:
    """Return whether each document begins and ends as an object; its members are checked by whoever reads them."""
    import numpy as np

    raw = np.frombuffer(body, np.uint8)
    return bool((raw[spans[0]] == ord("{")).all() and (raw[spans[1] - 1] == ord("}")).all())


def _parse_one_by_one(body: bytes, spans: Array, index: str | None, max_bytes: int) -> BulkItems:
    import numpy as np

    lines = spans.T.tolist()
    stored: list[tuple[int, int]] = []
    items: list[bytes] = []
    failed = at = 0
    while at < len(lines):
        begin, end = lines[at]
        action = parse_action(body[begin:end], index)
        if action is None:
            raise RequestError(400, f'Malformed action/metadata line [{at + 1}], expected an action such as {{"create":{{}}}}')
        at += 1
        if action.name == "delete":
            problem: tuple[int, str, str] | None = _refusal(action.name)
        elif at >= len(lines):
            raise RequestError(400, "The bulk request must have a document after its last action")
        else:
            document = lines[at]
            at += 1
            problem = _document_problem(body[document[0] : document[1]], action.name, max_bytes)
            if problem is None:
                stored.append((begin, document[1]))
        failed += problem is not None
        items.append(action.item if problem is None else _failed_item(action, index, *problem))
    return BulkItems(np.array(stored, np.int64).reshape(-1, 2).T, items, failed)


def _document_problem(document: bytes, action: str, max_bytes: int) -> tuple[int, str, str] | None:
    if action not in _STORED:
        return _refusal(action)
    if len(document) > max_bytes:
        return 413, "document_too_large", f"the document has {len(document)} bytes, more than max_event_bytes: {max_bytes}"
    if not (document.startswith(b"{") and document.endswith(b"}")):
        return 400, "document_parsing_exception", "the document is not a JSON object"
    return None


def _refusal(action: str) -> tuple[int, str, str]:
    return 400, "illegal_argument_exception", f"events can be created only, not {action}d"


def _failed_item(action: Action, index: str | None, status: int, kind: str, reason: str) -> bytes:
    error = {"type": kind, "reason": reason}
    shown = {"_index": action.target.get("_index", index), "_id": action.target.get("_id"), "status": status, "error": error}
    return json.dumps({action.name: shown}).encode()
