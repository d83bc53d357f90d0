"""Several texts encoded as one: names of groups, and events that pass through Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

END, PART = "\x1f", "\x1e"
"""The end of each text of a name, and the separator of an event's parts. Both are escaped inside of texts."""

_ESCAPES = {"\\": "\\\\", END: "\\u", PART: "\\r"}
_PLAIN = {escape[1]: letter for letter, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NULL = "\\0"


def escape(text: str | None) -> str:
    """Encode a text or None as a part."""
    if text is None:
        return _NULL
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return text


def unescape(text: str) -> str | None:
    """Decode what `escape` has encoded."""
    if text == _NULL:
        return None
    return _ESCAPED.sub(lambda found: _PLAIN[found[1]], text) if "\\" in text else text


def escape_column(column: pa.StringArray) -> pa.StringArray:
    """Encode texts and nulls as parts."""
    for letter, escape in _ESCAPES.items():
        column = pc.replace_substring(column, letter, escape)
    return pc.fill_null(column, _NULL)


def join_name(texts: Sequence[str]) -> str:
    """Join texts to a name, which is a valid part."""
    return "".join(escape(text) + END for text in texts)


def join_columns(columns: Sequence[pa.StringArray | str]) -> pa.StringArray:
    """Join each row's texts to a name; a column may be one text for all rows."""
    texts = [escape(one) if isinstance(one, str) else escape_column(one) for one in columns]
    return pc.binary_join_element_wise(*texts, "", END)


def split_name(name: str) -> tuple[str, ...]:
    """The texts of a name."""
    return tuple(str(unescape(text)) for text in name.split(END)[:-1])


def pack(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join each row's parts to one text."""
    return pc.binary_join_element_wise(*parts, PART)


def unpack(texts: pa.StringArray, parts: int) -> list[pa.StringArray]:
    """The columns that `pack` has joined."""
    import numpy as np

    flat = pc.split_pattern(texts, PART).flatten()
    return [flat.take(pa.array(np.arange(place, len(flat), parts))) for place in range(parts)]
