"""Columns of bytes in a character set → columns of texts."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

REFUSED = frozenset(
    {"utf-7", "idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "unicode-escape", "raw-unicode-escape"}
)
"""Codecs of Python that are not character sets, or whose texts need not be Unicode."""

COMMON = (
    "utf-8",
    "latin-1",
    "cp1252",
    "gbk",
    "gb18030",
    "big5",
    "shift_jis",
    "euc-jp",
    "euc-kr",
    "koi8-r",
    "utf-16",
    "utf-16-le",
)

_ASCII = bytes(range(128))

ToTexts: TypeAlias = Callable[[pa.LargeBinaryArray], pa.Array]
"""Bytes → large_string, null where they are not text."""


def codec(name: str) -> str:
    """The codec of a character set. Raises ValueError that says what is accepted."""
    from etl.api import nearest

    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        raise ValueError(f"charset {name!r} is unknown; names are Python's: {', '.join(COMMON)} …") from None
    if found.name in REFUSED or not getattr(found, "_is_text_encoding", True):
        hint = nearest(name, COMMON) or f"such are {', '.join(COMMON)} …"
        raise ValueError(f"{name!r} is not a character set; {hint}")
    return found.name


Invalid: TypeAlias = Literal["fail", "replace", "escape"]
"""What becomes of bytes that a character set does not have: the text fails, U+FFFD, or ``\\x80``."""

_ERRORS: dict[Invalid, str] = {"fail": "strict", "replace": "replace", "escape": "backslashreplace"}


def make_charset_reader(name: str, invalid: Invalid) -> ToTexts:
    """How bytes in a character set become texts.

    Where all bytes are ASCII, or all are UTF-8 and should be, nothing is looked at one by one. Otherwise Python decodes
    each distinct value: no vectorised library knows these character sets.
    """
    errors = _ERRORS[invalid]
    like_ascii = _ASCII.decode(name, "replace") == _ASCII.decode()

    def read(data: pa.LargeBinaryArray) -> pa.Array:
        if name == "utf-8" or (like_ascii and _is_ascii(data)):
            try:
                return pc.cast(data, pa.large_string())
            except pa.ArrowInvalid:
                pass
        encoded = data.dictionary_encode()
        texts = [_text(one, name, errors) for one in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.large_string()).take(encoded.indices)

    return read


def _is_ascii(data: pa.LargeBinaryArray) -> bool:
    import numpy as np

    content: Any = np.frombuffer(data.buffers()[2] or b"", np.uint8)
    return not len(content) or int(content.max()) < 0x80


def _text(data: bytes, name: str, errors: str) -> str | None:
    try:
        return data.decode(name, errors)
    except UnicodeDecodeError:
        return None
