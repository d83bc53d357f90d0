"""Keys of a table in the form in which they are compared: IPv4 addresses and integers as numbers, everything else as text.

A key of several fields becomes one text, joined with `_BETWEEN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.ip_kernel import parse_ipv4
from etl.columns.texts import Texts

KeyForm = Literal["address", "number", "text"]

_BETWEEN, _ESCAPE = "\x1f", "\x1e"


def join_key_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """Join the key's columns into one: numbers for a single integer column, else text. Null where any column is null."""
    if len(columns) == 1:
        return columns[0] if _number(columns[0].type) or _text(columns[0].type) else columns[0].cast(pa.string())
    texts = [column if _text(column.type) else column.cast(pa.string()) for column in columns]
    return pc.binary_join_element_wise(*(_escape_separators(text.cast(pa.string())) for text in texts), _BETWEEN)


def _escape_separators(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, f"[{_BETWEEN}{_ESCAPE}]")).as_py():
        return texts
    return pc.replace_substring(pc.replace_substring(texts, _ESCAPE, _ESCAPE + "e"), _BETWEEN, _ESCAPE + "b")


def to_addresses(texts: Texts) -> tuple[Any, int]:
    """int64[n]: each IPv4 address as a number, -1 for other texts; and the number of other texts."""
    numbers = np.empty(len(texts.address), np.int64)
    return numbers, parse_ipv4(texts.address, texts.length, numbers)


def to_numbers(column: pa.Array) -> tuple[Any, Any]:
    """int64[n] and which are valid."""
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), valid


def _number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) and type_ != pa.uint64()


def _text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.string_view(), pa.large_string())
