"""Escapes that Apache and nginx write into quoted fields are undone: ``\\"`` ``\\\\`` ``\\n`` ``\\x16``.

A loop over the few texts that hold a backslash: what they decode to must be proven to be UTF-8 one by one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.columns.texts import Texts, owned_array, taken
from parsers.common.view_values import laid

if TYPE_CHECKING:
    from re import Match

_ESCAPE = re.compile(rb'\\(?:x([0-9A-Fa-f]{2})|(["\\/bfnrtv]))')
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def unescaped(texts: pa.Array) -> pa.Array:
    """The views with escapes undone; a text that would be no UTF-8 then stays as it was written."""
    rows = Texts.of(texts).have(ord("\\")).nonzero()[0]
    if not len(rows):
        return texts
    written = owned_array(taken(texts, rows)).to_pylist()
    return laid(texts, rows, pa.array([_unescaped(text) for text in written], pa.string_view()))


def _unescaped(text: str) -> str:
    try:
        return _ESCAPE.sub(_character, text.encode()).decode()
    except UnicodeDecodeError:
        return text


def _character(found: Match[bytes]) -> bytes:
    if found[1]:
        return bytes([int(found[1], 16)])
    return _LETTERS.get(found[2], found[2])
