"""Escapes with a backslash → the characters they stand for, in the texts that have any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etl.columns.texts import Texts

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

QUOTE_ESCAPES = {'"': '"', "'": "'", "\\": "\\"}
"""What a backslash and a character stand for; before any other character a backslash stays."""

JSON_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def resolve_escapes(texts: Texts, rows: Array, meanings: Mapping[str, str], unicode: bool = False) -> Texts:
    """The texts, those of ``rows`` (int64[m]) without escapes; ``unicode`` resolves ``\\u00e9`` as well."""
    import numpy as np

    from parsers.common.escapes_kernel import unescape

    if not len(rows):
        return texts
    letters = np.zeros(256, np.uint8)
    for written, meant in meanings.items():
        letters[ord(written)] = ord(meant)
    address, length = texts.address.copy(), texts.length.copy()
    target = np.empty(int(np.maximum(length[rows], 0).sum()) + 1, np.uint8)
    unescape(address, length, rows, letters, unicode, np.uint64(target.ctypes.data))
    return texts._replace(address=address, length=length, owner=(texts.owner, target))
