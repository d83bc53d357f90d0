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


def escape(text: str) -> str:
    """Encode a text as a part of a name."""
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return text


def unescape(text: str) -> str:
    """Decode what `escape` has encoded."""
    return _ESCAPED.sub(lambda found: _PLAIN[found[1]], text) if "\\" in text else text


def escape_column(column: pa.StringArray) -> pa.StringArray:
    """Encode texts as parts of names."""
    for letter, escape in _ESCAPES.items():
        column = pc.replace_substring(column, letter, escape)
    return column


def join_name(texts: Sequence[str]) -> str:
    """Join texts to a name, which is a valid part."""
    return "".join(escape(text) + END for text in texts)


def join_columns(columns: Sequence[pa.StringArray | str]) -> pa.StringArray:
    """Join each row's texts to a name; a column may be one text for all rows. The name of a row with a null is null."""
    texts = [escape(one) if isinstance(one, str) else escape_column(one) for one in columns]
    return pc.binary_join_element_wise(*texts, "", END)


def split_name(name: str) -> tuple[str, ...]:
    """The texts of a name."""
    return tuple(unescape(text) for text in name.split(END)[:-1])
