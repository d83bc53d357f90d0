"""Responses of a search as record batches: the parts of hits as columns, without a Python object for each."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from connectors.http.connection import Response

_START = b'"hits":['
PARTS = {"_index": "string", "_id": "string", "_source": "string"}


class Hits(NamedTuple):
    """A page of documents."""

    index: pa.Array
    id: pa.Array
    source: pa.Array
    """JSON text of each document."""

    after: list[Any] | None
    """Sort values of the last document, where the next page begins."""

    response: dict[str, Any]
    """The response without its hits."""

    def document_numbers(self) -> pa.Array:
        """Return a number (int64) for each document that does not depend on when and where it is read."""
        import numpy as np

        from connectors.elasticsearch.hits_kernel import hash_names
        from etl.columns.texts import Texts

        index, id_ = Texts.of(self.index), Texts.of(self.id)
        document_numbers = np.empty(len(self.id), np.int64)
        hash_names(index.address, index.length, id_.address, id_.length, document_numbers)
        return pa.array(document_numbers)


def parse_hits(response: Response, max_hits: int) -> Hits:
    """Parse a response of at most ``max_hits``. Raises ConnectionError if it is not a response of a search."""
    try:
        return _hits(response.body, max_hits)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConnectionError(f"{response.server} sent no response of a search: {response.excerpt()!r}") from error


def _hits(body: bytes, max_hits: int) -> Hits:
    import numpy as np

    from connectors.elasticsearch.hits_kernel import find_objects
    from etl.columns.texts import Texts, make_span_views, materialize_array

    begin = body.find(_START)
    if begin < 0:  # filter_path removes empty lists
        none = pa.array([], pa.string())
        return Hits(none, none, none, None, json.loads(body))
    begin += len(_START)
    starts, ends = np.empty(max_hits, np.int32), np.empty(max_hits, np.int32)
    count, end = find_objects(np.frombuffer(body, np.uint8), begin, starts, ends)
    if count < 0:
        raise ValueError("the list of hits is incomplete")
    response = json.loads(body[:begin] + body[end:])
    buffer = pa.py_buffer(body)
    address = np.full(count, buffer.address, np.uint64)
    whole = Texts(address, np.full(count, len(body), np.int64), buffer, buffer.address, pa.nulls(0))
    texts = materialize_array(make_span_views(starts[:count], ends[:count], whole))
    after = json.loads(body[starts[count - 1] : ends[count - 1]]).get("sort") if count else None
    return Hits(*_parts(texts), after, response)


def _parts(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    from etl.columns.texts import materialize_array
    from parsers.json.parser import Json

    parsed = Json.model_validate({"type": "json", "fields": PARTS}).compile()(texts)
    if parsed.failed is not None and parsed.failed.true_count:
        raise ValueError("a hit is not a JSON object")
    index, id_, source = (materialize_array(parsed.columns[name]) for name in PARTS)
    return index, id_, source.fill_null("{}") if source.null_count else source
