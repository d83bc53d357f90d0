"""Answers of a search as record batches: the hits' parts as columns, without a Python object for each."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from connectors.http.connection import Answer

_START = b'"hits":['
PARTS = {"_index": "string", "_id": "string", "_source": "string"}


class Hits(NamedTuple):
    """A page of documents."""

    index: pa.Array
    id: pa.Array
    source: pa.Array
    """Each document's JSON text."""

    after: list[Any] | None
    """The sort values of the last, from where the next page goes on."""

    rest: dict[str, Any]
    """The answer without its hits."""

    def numbers(self) -> pa.Array:
        """A number (int64) for each document, the same whenever and wherever it is read."""
        import numpy as np

        from connectors.elasticsearch.hits_kernel import name_numbers
        from etl.columns.texts import Texts

        index, id_ = Texts.of(self.index), Texts.of(self.id)
        numbers = np.empty(len(self.id), np.int64)
        name_numbers(index.address, index.length, id_.address, id_.length, numbers)
        return pa.array(numbers)


def read_hits(answer: Answer, most: int) -> Hits:
    """Cut an answer of at most so many hits. Raises ConnectionError when it is no answer of a search."""
    try:
        return _hits(answer.body, most)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConnectionError(f"{answer.place} gave no answer of a search: {answer.excerpt()!r}") from error


def _hits(body: bytes, most: int) -> Hits:
    import numpy as np

    from connectors.elasticsearch.hits_kernel import elements
    from etl.columns.texts import Texts, owned_array, views_of

    begin = body.find(_START)
    if begin < 0:  # filter_path leaves out what is empty
        none = pa.array([], pa.string())
        return Hits(none, none, none, None, json.loads(body))
    begin += len(_START)
    starts, ends = np.empty(most, np.int32), np.empty(most, np.int32)
    count, end = elements(np.frombuffer(body, np.uint8), begin, starts, ends)
    if count < 0:
        raise ValueError("the hits do not end")
    rest = json.loads(body[:begin] + body[end:])
    buffer = pa.py_buffer(body)
    address = np.full(count, buffer.address, np.uint64)
    whole = Texts(address, np.full(count, len(body), np.int64), buffer, buffer.address, pa.nulls(0))
    texts = owned_array(views_of(starts[:count], ends[:count], whole))
    after = json.loads(body[starts[count - 1] : ends[count - 1]]).get("sort") if count else None
    return Hits(*_parts(texts), after, rest)


def _parts(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    from etl.columns.texts import owned_array
    from parsers.json.parser import Json

    parsed = Json.model_validate({"type": "json", "fields": PARTS}).compile()(texts)
    if parsed.failed is not None and parsed.failed.true_count:
        raise ValueError("a hit is no JSON object")
    index, id_, source = (owned_array(parsed.columns[name]) for name in PARTS)
    return index, id_, source.fill_null("{}") if source.null_count else source
