"""The bulk API of Elasticsearch and what agents ask before they use it: Filebeat, Logstash, Fluent Bit, Vector, Beats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from connectors.http.receiving.formats.bulk_items import parse_bulk
from connectors.http.receiving.formats.lines import TOO_LONG, TOO_LONG_REASON
from connectors.http.receiving.requests import AcceptedEvents, Reply, Request, RequestError, RequestProtocol
from connectors.shared.journal.batches import FIELDS, EventRows
from connectors.shared.journal.event_blocks import Frames
from etl.api import OFFSET, Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

VERSION = "8.17.0"
"""The version that is sent to agents, which then use the bulk API of Elasticsearch 8."""

_BULK = re.compile(r"(?:/([^/_][^/]*))?(?:/_doc)?/_bulk/?")
_ACTIONS = ("create", "index")
_LINE_ENDS = (10, 13)
MAX_INDEX_BYTES = 255
"""Longest name of an index, as in Elasticsearch: the answer repeats it for each document."""

_ROOT = {
    "name": "sluice",
    "cluster_name": "sluice",
    "cluster_uuid": "c2x1aWNlLXJlY2VpdmVy",
    "version": {
        "number": VERSION,
        "build_flavor": "default",
        "build_type": "tar",
        "build_hash": "unknown",
        "build_date": "2024-12-11T12:08:05.663969764Z",
        "build_snapshot": False,
        "lucene_version": "9.12.0",
        "minimum_wire_compatibility_version": "7.17.0",
        "minimum_index_compatibility_version": "7.0.0",
    },
    "tagline": "You Know, for Search",
}
_LICENSE = {"status": "active", "uid": "sluice", "type": "basic", "mode": "basic"}
_HEALTH = {"cluster_name": "sluice", "status": "green", "timed_out": False, "number_of_nodes": 1, "number_of_data_nodes": 1}

_DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "/": _ROOT,
    "/_license": {"license": _LICENSE},
    "/_xpack": {"license": _LICENSE, "features": {"ilm": {"available": False, "enabled": False}}},
    "/_cluster/health": _HEALTH,
    "/_nodes": {"cluster_name": "sluice", "nodes": {}},
    "/_nodes/http": {"cluster_name": "sluice", "nodes": {}},
    "/_nodes/_all/http": {"cluster_name": "sluice", "nodes": {}},
}
"""What a request to read a path gets."""


class BulkProtocol(RequestProtocol):
    """Stores the documents of bulk requests. Templates, policies and aliases are acknowledged, and not stored."""

    form: ClassVar[str] = "elasticsearch"
    error_reasons: ClassVar[Mapping[str, str]] = {TOO_LONG: TOO_LONG_REASON}  # of lines that were received before
    headers: ClassVar[Mapping[str, str]] = {"x-elastic-product": "Elasticsearch"}

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes

    @property
    def fields(self) -> Schema:
        """The document, its index and identifier."""
        return pa.schema([*FIELDS, pa.field("elasticsearch.index", pa.string()), pa.field("elasticsearch.id", pa.string())])

    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Store the documents of a bulk request, or answer what an agent asks before."""
        path = _BULK.fullmatch(request.path)
        if path and request.method in ("POST", "PUT"):
            return self._store(request.body, path[1])
        if request.method in ("GET", "HEAD"):
            document = _DOCUMENTS.get(request.path.rstrip("/") or "/")
            if document is not None:
                return _json(200, document)
            raise RequestError(404, f"{request.path} does not exist", "resource_not_found_exception")
        if request.method in ("PUT", "POST"):
            return _json(200, {"acknowledged": True})
        raise RequestError(405, f"{request.method} is not accepted", "method_not_allowed")

    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return the error as Elasticsearch does."""
        kind = error.detail or _ERROR_TYPES.get(error.status, "illegal_argument_exception")
        cause = {"type": kind, "reason": error.message}
        reply = _json(error.status, {"error": {"root_cause": [cause], **cause}, "status": error.status})
        if error.status != 401:
            return reply
        return Reply(reply.status, reply.body, headers={"www-authenticate": 'Basic realm="sluice", charset="UTF-8"'})

    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Yield the documents; index and identifier are read from the actions."""
        from connectors.shared.receiving.json_members import member_spans, value_texts

        ends, documents = _divide(rows)
        actions = member_spans(rows.buffer, rows.starts, ends, _ACTIONS)
        target = _first_present(actions)
        index, identifier = member_spans(rows.buffer, target[0], target[1], ("_index", "_id"))
        texts = rows.texts_of(documents, rows.ends)
        columns = [texts, *rows.origin_columns(), _or_default(value_texts(rows.buffer, index), rows)]
        columns += [value_texts(rows.buffer, identifier), pa.array(rows.offsets)]
        yield pa.record_batch(columns, names=[*self.fields.names, OFFSET])

    def _store(self, body: bytes, index: str | None) -> AcceptedEvents:
        if index is not None and len(index.encode()) > MAX_INDEX_BYTES:
            raise RequestError(
                400, f"the name of the index has more than {MAX_INDEX_BYTES} bytes", "invalid_index_name_exception"
            )
        bulk = parse_bulk(body, index, self._max_event_bytes)
        if not bulk.items:
            raise RequestError(400, "request body is required", "parse_exception")
        errors = b"true" if bulk.failed else b"false"
        reply = Reply(200, b'{"took":0,"errors":%b,"items":[%b]}' % (errors, b",".join(bulk.items)))
        return AcceptedEvents(Frames(body, [bulk.spans]), reply, (None if index is None else json.dumps(index),))


def _json(status: int, document: Any) -> Reply:
    return Reply(status, json.dumps(document).encode())


def _divide(rows: EventRows) -> tuple[Array, Array]:
    """Return the end of each action, and the begin of its document."""
    import numpy as np

    raw = np.frombuffer(rows.buffer, np.uint8)
    newlines = np.flatnonzero(raw == 10)
    ends = newlines[np.searchsorted(newlines, rows.starts)]
    starts = ends + 1
    if np.isin(raw[starts], _LINE_ENDS).any():  # empty lines between an action and its document
        filled = np.flatnonzero(~np.isin(raw, _LINE_ENDS))
        starts = filled[np.searchsorted(filled, starts)]
    return ends, starts


def _first_present(spans: Array) -> Array:
    """Return the span of the action's target, whichever action it is."""
    import numpy as np

    return np.where(spans[0] >= 0, spans[0], spans[1])


def _or_default(index: pa.Array, rows: EventRows) -> pa.Array:
    """Return the index of each document, or that of the request's path."""
    import pyarrow.compute as pc

    defaults = [None if len(sender) < 3 or sender[2] is None else json.loads(sender[2]) for sender in rows.senders]
    if not any(defaults):
        return index
    return pc.coalesce(index.cast(pa.string()), pa.array(defaults, pa.string()).take(pa.array(rows.sender_of_row)))


_ERROR_TYPES = {
    401: "security_exception",
    403: "security_exception",
    413: "content_too_long_exception",
    429: "es_rejected_execution_exception",
    503: "unavailable_shards_exception",
}
