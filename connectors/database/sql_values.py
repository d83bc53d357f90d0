"""Converts Arrow columns to what databases accept: SQL literals, lines of PostgreSQL's COPY, Python values for SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.json.values import as_text

Parts: TypeAlias = "list[pa.Array | str]"
"""Texts of a column's values, and constant texts between them."""


def to_mysql_literals(column: pa.Array) -> Parts:
    """Return each value as a literal of MySQL, safely quoted; null is ``NULL``.

    Sessions use utf8mb4 without NO_BACKSLASH_ESCAPES, so a text ends only at its quote, and a backslash is the only escape.
    """
    values = _to_simple_type(column)
    if pa.types.is_string(values.type) and not values.null_count:
        return ["'", _escape(values), "'"]
    return [pc.fill_null(_lookup(_LITERALS, values.type)(values), "NULL")]


def to_copy_text(column: pa.Array) -> Parts:
    r"""Return each value in COPY's text format; null is ``\\N``."""
    values = _to_simple_type(column)
    if pa.types.is_binary(values.type):
        return [pc.fill_null(pc.binary_join_element_wise(r"\\x", _hex(values), ""), r"\N")]
    texts = values.cast(pa.string())
    if pa.types.is_string(values.type):
        for raw, escaped in (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
            texts = _replace_if_present(texts, raw, escaped)
    return [pc.fill_null(texts, r"\N") if texts.null_count else texts]


def to_python_values(column: pa.Array) -> list[Any]:
    """Return each value as SQLite accepts it. Polars makes Python values of texts five times as fast as Arrow."""
    import polars as pl

    values = _to_simple_type(column)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return pl.Series(values).to_list()


def join_rows(columns: Sequence[Parts], before: str, between: str, after: str) -> pa.StringArray:
    """Return the text of each row, with the texts before, between and after its values, in one pass."""
    parts: Parts = [before]
    for number, column in enumerate(columns):
        for part in [*([between] if number else []), *column]:
            if isinstance(part, str) and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return pc.binary_join_element_wise(*parts, after, "")


def rows_as_bytes(rows: pa.StringArray) -> memoryview:
    """Return all rows as one UTF-8 text, without copying."""
    _, ends, data = rows.buffers()
    first, last = (memoryview(ends).cast("i")[at] for at in (rows.offset, rows.offset + len(rows)))
    return memoryview(data)[first:last]


def _to_simple_type(column: pa.Array) -> pa.Array:
    """Convert to a type with a plain text form: times without zone (UTC), JSON for nested values."""
    return _lookup(_SIMPLE, column.type)(column)


def _lookup(table: tuple[tuple[Callable[[pa.DataType], bool], Any], ...], type_: pa.DataType) -> Any:
    return next(value for applies, value in table if applies(type_))


def _time_to_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.timestamp("us")).cast(pa.string())


def _return_unchanged(column: pa.Array) -> pa.Array:
    return column


_SIMPLE = (
    (pa.types.is_timestamp, _time_to_text),
    (pa.types.is_dictionary, lambda column: _to_simple_type(column.dictionary_decode())),
    (lambda t: pa.types.is_nested(t), as_text),
    (lambda t: pa.types.is_date(t) or pa.types.is_time(t), lambda column: column.cast(pa.string())),
    (pa.types.is_null, lambda column: column.cast(pa.string())),
    (pa.types.is_duration, lambda column: column.cast(pa.int64())),
    (lambda t: pa.types.is_large_string(t) or t == pa.string_view(), lambda column: column.cast(pa.string())),
    (
        lambda t: pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or t == pa.binary_view(),
        lambda column: column.cast(pa.binary()),
    ),
    (lambda _: True, _return_unchanged),
)


def _escape(texts: pa.Array) -> pa.Array:
    return _replace_if_present(_replace_if_present(texts, "\\", r"\\"), "'", "''")


def _quote(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", _escape(texts), "'", "")


def _float_literals(values: pa.Array) -> pa.Array:
    """NaN and infinities are quoted; the server decides what to do with them."""
    texts = values.cast(pa.string())
    finite = pc.fill_null(pc.is_finite(values), True)
    return texts if not finite.false_count else pc.if_else(finite, texts, _quote(texts))


_LITERALS = (
    (pa.types.is_string, _quote),
    (pa.types.is_binary, lambda values: pc.binary_join_element_wise("x'", _hex(values), "'", "")),
    (pa.types.is_boolean, lambda values: values.cast(pa.int8()).cast(pa.string())),
    (pa.types.is_floating, _float_literals),
    (lambda _: True, lambda values: values.cast(pa.string())),
)


def _replace_if_present(texts: pa.Array, raw: str, escaped: str) -> pa.Array:
    """Replace a text if it occurs at all: searching costs a tenth of writing."""
    found = pc.any(pc.match_substring(texts, raw)).as_py()
    return pc.replace_substring(texts, raw, escaped) if found else texts


def _hex(values: pa.Array) -> pa.Array:
    import polars as pl

    series = pl.Series(values.cast(pa.large_binary()))
    return series.bin.encode("hex").to_arrow().cast(pa.string())
