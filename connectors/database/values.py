"""Arrow columns as what databases read: SQL literals, lines of PostgreSQL's COPY, Python values for SQLite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.json_values import as_text

TIME_WIDTH = len("2026-01-02 03:04:05.000120")


def literals(column: pa.Array) -> pa.StringArray:
    """Each value as a literal of MySQL, which no value can break out of; null is ``NULL``.

    Sessions are utf8mb4 and without NO_BACKSLASH_ESCAPES: there a text ends at no other character than its quote, and a
    backslash is the only escape.
    """
    values = _simple(column)
    return pc.fill_null(_first(_LITERALS, values.type)(values), "NULL")


def copied(column: pa.Array) -> pa.StringArray:
    """Each value as COPY's text format wants it; null is ``\\N``."""
    values = _simple(column)
    if pa.types.is_binary(values.type):
        return pc.fill_null(pc.binary_join_element_wise(r"\\x", _hex(values), ""), r"\N")
    texts = values.cast(pa.string())
    if pa.types.is_string(values.type):
        for raw, escaped in (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
            texts = _replaced(texts, raw, escaped)
    return pc.fill_null(texts, r"\N")


def objects(column: pa.Array) -> list[Any]:
    """Each value as SQLite takes it. By Polars, which makes Python values of texts five times as fast as Arrow."""
    import polars as pl

    values = _simple(column)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return pl.Series(values).to_list()


def joined(columns: list[pa.Array], separator: str) -> pa.StringArray:
    """Columns of texts side by side."""
    return pc.binary_join_element_wise(*columns, separator) if len(columns) > 1 else columns[0]


def text_of(rows: pa.StringArray, separator: str) -> bytes:
    """All rows in one text, UTF-8."""
    offsets = pa.array([0, len(rows)], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, rows), separator)[0].as_buffer().to_pybytes()


def _simple(column: pa.Array) -> pa.Array:
    """In types that databases have a plain text for: times without zone (UTC), JSON for what is nested."""
    return _first(_SIMPLE, column.type)(column)


def _first(table: tuple[tuple[Callable[[pa.DataType], bool], Any], ...], type_: pa.DataType) -> Any:
    return next(value for applies, value in table if applies(type_))


def _time(column: pa.Array) -> pa.Array:
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    texts = (micros.cast(pa.timestamp("us", "UTC")) if column.type.tz else micros).cast(pa.string())
    return pc.utf8_rtrim(texts, "Z") if column.type.tz else texts


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


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", _replaced(_replaced(texts, "\\", r"\\"), "'", "''"), "'", "")


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
