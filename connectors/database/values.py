"""Arrow columns as what databases read: SQL literals, lines of PostgreSQL's COPY, Python values for SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from connectors.json_values import as_text

TIME_WIDTH = len("2026-01-02 03:04:05.000120")


Parts: TypeAlias = "list[pa.Array | str]"
"""Texts of a column's values, and what stands between these texts in every row."""


def literals(column: pa.Array) -> Parts:
    """Each value as a literal of MySQL, which no value can break out of; null is ``NULL``.

    Sessions are utf8mb4 and without NO_BACKSLASH_ESCAPES: there a text ends at no other character than its quote, and a
    backslash is the only escape.
    """
    values = _simple(column)
    if pa.types.is_string(values.type) and not values.null_count:
        return ["'", _escaped(values), "'"]
    return [pc.fill_null(_first(_LITERALS, values.type)(values), "NULL")]


def copied(column: pa.Array) -> Parts:
    """Each value as COPY's text format wants it; null is ``\\N``."""
    values = _simple(column)
    if pa.types.is_binary(values.type):
        return [pc.fill_null(pc.binary_join_element_wise(r"\\x", _hex(values), ""), r"\N")]
    texts = values.cast(pa.string())
    if pa.types.is_string(values.type):
        for raw, escaped in (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
            texts = _replaced(texts, raw, escaped)
    return [pc.fill_null(texts, r"\N") if texts.null_count else texts]


def objects(column: pa.Array) -> list[Any]:
    """Each value as SQLite takes it. By Polars, which makes Python values of texts five times as fast as Arrow."""
    import polars as pl

    values = _simple(column)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return pl.Series(values).to_list()


def rows_of(columns: Sequence[Parts], before: str, between: str, behind: str) -> pa.StringArray:
    """The text of each row, in one pass: what stands before, between and behind its values goes into the same copy."""
    parts: Parts = [before]
    for number, column in enumerate(columns):
        for part in [*([between] if number else []), *column]:
            if isinstance(part, str) and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return pc.binary_join_element_wise(*parts, behind, "")


def text_of(rows: pa.StringArray) -> memoryview:
    """All rows in one text, UTF-8: their bytes as they lie."""
    _, ends, data = rows.buffers()
    first, last = (memoryview(ends).cast("i")[place] for place in (rows.offset, rows.offset + len(rows)))
    return memoryview(data)[first:last]


def _simple(column: pa.Array) -> pa.Array:
    """In types that databases have a plain text for: times without zone (UTC), JSON for what is nested."""
    return _first(_SIMPLE, column.type)(column)


def _first(table: tuple[tuple[Callable[[pa.DataType], bool], Any], ...], type_: pa.DataType) -> Any:
    return next(value for applies, value in table if applies(type_))


def _time(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.timestamp("us")).cast(pa.string())


def _same(column: pa.Array) -> pa.Array:
    return column


_SIMPLE = (
    (pa.types.is_timestamp, _time),
    (pa.types.is_dictionary, lambda column: _simple(column.dictionary_decode())),
    (lambda t: pa.types.is_nested(t), as_text),
    (lambda t: pa.types.is_date(t) or pa.types.is_time(t), lambda column: column.cast(pa.string())),
    (pa.types.is_null, lambda column: column.cast(pa.string())),
    (pa.types.is_duration, lambda column: column.cast(pa.int64())),
    (lambda t: pa.types.is_large_string(t) or t == pa.string_view(), lambda column: column.cast(pa.string())),
    (
        lambda t: pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or t == pa.binary_view(),
        lambda column: column.cast(pa.binary()),
    ),
    (lambda _: True, _same),
)


def _escaped(texts: pa.Array) -> pa.Array:
    return _replaced(_replaced(texts, "\\", r"\\"), "'", "''")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", _escaped(texts), "'", "")


def _floats(values: pa.Array) -> pa.Array:
    """NaN and infinities in quotes: the server says what it makes of them."""
    texts = values.cast(pa.string())
    finite = pc.fill_null(pc.is_finite(values), True)
    return texts if not finite.false_count else pc.if_else(finite, texts, _quoted(texts))


_LITERALS = (
    (pa.types.is_string, _quoted),
    (pa.types.is_binary, lambda values: pc.binary_join_element_wise("x'", _hex(values), "'", "")),
    (pa.types.is_boolean, lambda values: values.cast(pa.int8()).cast(pa.string())),
    (pa.types.is_floating, _floats),
    (lambda _: True, lambda values: values.cast(pa.string())),
)


def _replaced(texts: pa.Array, raw: str, escaped: str) -> pa.Array:
    """Replaced where it occurs at all: looking costs a tenth of writing."""
    found = pc.any(pc.match_substring(texts, raw)).as_py()
    return pc.replace_substring(texts, raw, escaped) if found else texts


def _hex(values: pa.Array) -> pa.Array:
    import polars as pl

    series = pl.Series(values.cast(pa.large_binary()))
    return series.bin.encode("hex").to_arrow().cast(pa.string())
