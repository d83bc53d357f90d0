"""Record batches as JSON lines.

What JSON has no form for: a timestamp is text in ISO 8601 with six digits of a second
(``2026-01-02T03:04:05.000120Z``; without ``Z`` when it knows no zone), a date ``2026-01-02``, a decimal its digits
as text, bytes are Base64, NaN and infinities are null. Null members are kept: every line has the same members.

Most columns of a log need nothing escaped. One look at their bytes (`memchr`) tells, and then a line is its columns
and the text between them, joined by one kernel: 12 million events a second of 4 fields and 110 bytes, where Polars
writes 5 million. Where more than one column needs more than that, Polars writes all.
"""

from __future__ import annotations

import ctypes
import io
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.json_values import as_text, iso_times, plain
from etl.api import HIDDEN, nest, nested_schema

MAX_JOINED_BYTES = 1 << 29
"""Batches of more bytes are left to Polars: the joined text has offsets of 32 bits."""

MAX_HARD = 1
"""Columns that are escaped one by one; beyond, Polars is faster."""


class Piece(NamedTuple):
    """A column as JSON text without nulls; ``quoted`` when the quotes around it are still to be written."""

    text: pa.Array
    quoted: bool


def encode(batch: pa.RecordBatch) -> memoryview:
    """Flat batch → one JSON object a line, hidden columns left out."""
    columns = _visible(batch)
    if not columns or not batch.num_rows:
        return memoryview(b"{}\n" * batch.num_rows)
    pieces = _pieces(columns) if batch.nbytes <= MAX_JOINED_BYTES else None
    return _bytes_of(_joined(pieces)) if pieces is not None else _by_polars(columns)


def sizes(batch: pa.RecordBatch) -> pa.Array:
    """Bytes of each event's line, its newline included (int64). Costs as much as `encode`."""
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(encode(batch), dtype=np.uint8) == ord("\n"))  # inside a line it is written \\n
    return pa.array(np.diff(ends, prepend=-1), pa.int64())


def _visible(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: column for name, column in zip(batch.schema.names, batch.columns, strict=True) if name not in HIDDEN}


def _by_polars(columns: Mapping[str, pa.Array]) -> memoryview:
    import polars as pl

    events = nest(pa.RecordBatch.from_arrays([plain(column) for column in columns.values()], names=list(columns)))
    lines = io.BytesIO()
    pl.from_arrow(events).write_ndjson(lines)  # type: ignore[union-attr]
    return lines.getbuffer()


def _pieces(columns: Mapping[str, pa.Array]) -> dict[str, Piece] | None:
    """Each column as text, or None when too many of them are hard."""
    easy = {name: _easy(column) for name, column in columns.items()}
    if sum(piece is None for piece in easy.values()) > MAX_HARD:
        return None
    return {name: piece or Piece(as_text(columns[name]).fill_null("null"), False) for name, piece in easy.items()}


def _easy(values: pa.Array) -> Piece | None:
    """The column's JSON text where a kernel gives it; None where values need more care."""
    type_ = values.type
    if pa.types.is_string(type_):
        return _quoted(values) if _needs_no_escape(values) else None
    if pa.types.is_integer(type_):
        return Piece(values.cast(pa.string()).fill_null("null"), False)
    if pa.types.is_timestamp(type_):
        return _quoted(iso_times(values))
    if pa.types.is_date32(type_):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_boolean(type_):
        return Piece(pc.if_else(values, "true", "false").fill_null("null"), False)
    return None


def _quoted(text: pa.Array) -> Piece:
    if not text.null_count:
        return Piece(text, True)
    return Piece(pc.binary_join_element_wise('"', text, '"', "").fill_null("null"), False)


def _needs_no_escape(text: pa.StringArray) -> bool:
    """True when no byte of the column is a quote, a backslash or a control character."""
    import numpy as np

    data = text.buffers()[2]
    if data is None:
        return True
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)
    start, end = int(offsets[text.offset]), int(offsets[text.offset + len(text)])
    find = _memchr()
    if any(find(data.address + start, ord(character), end - start) for character in '"\\'):
        return False
    return start == end or np.frombuffer(data, dtype=np.uint8)[start:end].min() >= ord(" ")


@cache
def _memchr() -> Any:
    """The C library's search for a byte: address, byte, length → address or None."""
    find = ctypes.CDLL(None).memchr
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    return find


def _joined(pieces: Mapping[str, Piece]) -> pa.StringArray:
    """Columns with the text between them folded into as few pieces as can be."""
    parts: list[Any] = [""]
    types = pa.schema([pa.field(name, pa.null()) for name in pieces])
    for part in _parts(nested_schema(types), "", pieces):
        if isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return pc.binary_join_element_wise(*parts[:-1], parts[-1] + "\n", "")


def _parts(members: Any, prefix: str, pieces: Mapping[str, Piece]) -> Iterator[Any]:
    """Literal text and columns of an object, in order."""
    for number, member in enumerate(members):
        name = prefix + member.name
        yield ("," if number else "{") + json.dumps(member.name, ensure_ascii=False) + ":"
        if name not in pieces:
            yield from _parts(member.type, f"{name}.", pieces)
        else:
            quote = '"' if pieces[name].quoted else ""
            yield from (quote, pieces[name].text, quote)
    yield "}"


def _bytes_of(text: pa.StringArray) -> memoryview:
    """All texts, one behind the other, without copying."""
    import numpy as np

    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)
    return memoryview(text.buffers()[2])[offsets[text.offset] : offsets[text.offset + len(text)]]
