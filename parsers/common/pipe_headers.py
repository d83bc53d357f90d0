"""Columns of texts with a header such as ``CEF:0|vendor|product|…|`` → the header's fields, and the addresses of the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from parsers.common.escapes import resolve_escapes
from parsers.common.pipe_header_kernel import LINE_BREAK, NO_HEADER, NO_TEXT, SHORT, cut_headers
from parsers.pairs.value_columns import make_text_column

Array = np.ndarray[Any, Any]

_MEANINGS = {"|": "|", "\\": "\\"}


class Headers(NamedTuple):
    """The header of each row."""

    fields: list[pa.Array]
    """The text before the magic word (null: none), then the fields after it; all null where a row failed."""

    version: Array
    """uint64[rows]: the address of the first field, which begins with a digit where the row has not failed."""

    body: Array
    body_end: Array
    """uint64[rows]: addresses of what follows; empty where a row failed."""

    outcomes: Array
    """uint8[rows]: 0, or one of `header_reasons`."""


def read_headers(texts: Texts, magic: bytes, fields: int) -> Headers:
    """The headers of all texts; ``fields`` follow the magic word."""
    rows = len(texts.length)
    starts, lengths = np.empty((1 + fields, rows), np.uint64), np.empty((1 + fields, rows), np.int64)
    body, body_end = np.empty((2, rows), np.uint64)
    escaped, outcomes = np.zeros(1 + fields, np.uint8), np.empty(rows, np.uint8)
    word = np.frombuffer(magic, np.uint8)
    cut_headers(texts.address, texts.length, word, starts, lengths, escaped, body, body_end, outcomes)
    every = np.arange(rows)
    columns = []
    for start, length, has_escapes in zip(starts, lengths, escaped, strict=True):
        field = texts._replace(address=start, length=length)
        there = np.where(length < 0, -1, every)
        columns.append(make_text_column(resolve_escapes(field, every, _MEANINGS) if has_escapes else field, there))
    return Headers(columns, starts[1], body, body_end, outcomes)


def header_reasons(magic: str, fields: int) -> dict[int, str]:
    """Outcome of `cut_headers` → the reason of the reject."""
    return {
        int(NO_TEXT): "is null",
        int(NO_HEADER): f"has no {magic!r} with a version after it",
        int(SHORT): f"has fewer than {fields} fields, each ended by '|', after {magic!r}",
        int(LINE_BREAK): "has a line break inside",
    }
