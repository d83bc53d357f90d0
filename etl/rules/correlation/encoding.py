"""Texts as one text and back: groups of correlations, and events on their way through Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

END, PART = "\x1f", "\x1e"
"""What ends each text of a name, and what stands between the parts of an event. Inside of texts they are escaped."""

_ESCAPES = {"\\": "\\\\", END: "\\u", PART: "\\r"}
_PLAIN = {escape[1]: letter for letter, escape in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NULL = "\\0"


def escaped(text: str | None) -> str:
    """A text, or none, that can be a part."""
    if text is None:
        return _NULL
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return text


def plain(text: str) -> str | None:
    """What `escaped` was given."""
    if text == _NULL:
        return None
    return _ESCAPED.sub(lambda found: _PLAIN[found[1]], text) if "\\" in text else text


def escaped_column(column: pa.StringArray) -> pa.StringArray:
    """Texts, and nulls, that can be parts."""
    for letter, escape in _ESCAPES.items():
        column = pc.replace_substring(column, letter, escape)
    return pc.fill_null(column, _NULL)


def joined(texts: Sequence[str]) -> str:
    """Texts as a name, which can be a part."""
    return "".join(escaped(text) + END for text in texts)


def joined_columns(columns: Sequence[pa.StringArray | str]) -> pa.StringArray:
    """Each row's texts as a name; some columns may be one text for all rows."""
    texts = [escaped(one) if isinstance(one, str) else escaped_column(one) for one in columns]
    return pc.binary_join_element_wise(*texts, "", END)


def parted(name: str) -> tuple[str, ...]:
    """What `joined` was given."""
    return tuple(str(plain(text)) for text in name.split(END)[:-1])


def packed(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    """Each row's parts as one text."""
    return pc.binary_join_element_wise(*parts, PART)


def unpacked(texts: pa.StringArray, parts: int) -> list[pa.StringArray]:
    """What `packed` was given."""
    import numpy as np

    flat = pc.split_pattern(texts, PART).flatten()
    return [flat.take(pa.array(np.arange(place, len(flat), parts))) for place in range(parts)]
