"""Several texts encoded as one: names of groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

END = "\x1f"
"""The end of each text of a name. It is escaped inside of texts."""

_ESCAPES = {"\\": "\\\\", END: "\\u"}
_PLAIN = {escape[1]: letter for letter, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def join_columns(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join each row's texts to a name. The name of a row with a null is null."""
    return join_escaped([_escape(column) for column in columns])


def join_escaped(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join each row's texts, as `split_escaped` gives them, to a name."""
    return pc.binary_join_element_wise(*columns, "", END)


def split_escaped(names: pa.StringArray, count: int) -> list[pa.StringArray]:
    """The texts of a number of names, still escaped."""
    import numpy as np

    flat = pc.split_pattern(names, END).flatten()
    return [flat.take(pa.array(np.arange(index, len(flat), count + 1))) for index in range(count)]


def split_columns(names: pa.StringArray, count: int) -> list[pa.StringArray]:
    """The texts of a number of names."""
    return [_unescape(column) for column in split_escaped(names, count)]


def _escape(column: pa.StringArray) -> pa.StringArray:
    for letter, escape in _ESCAPES.items():
        column = pc.replace_substring(column, letter, escape)
    return column


def _unescape(column: pa.StringArray) -> pa.StringArray:
    if not pc.any(pc.match_substring(column, "\\")).as_py():
        return column
    texts = [_ESCAPED.sub(lambda found: _PLAIN[found[1]], text) for text in column.to_pylist()]
    return pa.array(texts, pa.string())
