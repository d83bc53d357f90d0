"""Text functions over the bytes of a column, where these are enough: ASCII never occurs inside other characters of UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, copy_texts

_BYTES = np.arange(256, dtype=np.uint8)
_IS_UPPER, _IS_LOWER = (ord("A") <= _BYTES) & (ord("Z") >= _BYTES), (ord("a") <= _BYTES) & (ord("z") >= _BYTES)
_IS_WORD = _IS_UPPER | _IS_LOWER | ((ord("0") <= _BYTES) & (ord("9") >= _BYTES))
_CASE = np.uint8(ord("a") - ord("A"))
_UPPER, _LOWER = np.where(_IS_LOWER, _BYTES - _CASE, _BYTES), np.where(_IS_UPPER, _BYTES + _CASE, _BYTES)


def translate(old: str, new: str, texts: pa.StringArray) -> pa.StringArray:
    """Each ASCII character of ``old`` as the one in its place of ``new``, which is ASCII; without one it is dropped."""
    table, is_dropped = _BYTES.copy(), np.zeros(256, bool)
    for at, character in reversed(list(enumerate(old.encode()))):
        is_dropped[character] = at >= len(new)
        table[character] = ord(new[at]) if at < len(new) else character
    offsets, data = _parts(texts)
    is_remaining = ~is_dropped[data]
    if not is_remaining.all():
        offsets = np.concatenate(([0], np.cumsum(is_remaining, dtype=np.int32)))[offsets].astype(np.int32)
        data = data[is_remaining]
    return _as_array(offsets, table[data], texts)


def init_cap(texts: pa.StringArray) -> pa.StringArray:
    """Words in lower case with their first letter in upper case; words are of letters and digits of ASCII."""
    offsets, data = _parts(texts)
    is_word = _IS_WORD[data]
    follows = np.concatenate(([False], is_word[:-1])) if len(data) else is_word
    follows[offsets[:-1][offsets[:-1] < offsets[1:]]] = False
    return _as_array(offsets, np.where(is_word & ~follows, _UPPER[data], np.where(is_word, _LOWER[data], data)), texts)


def find_ascii(texts: pa.StringArray) -> Any:
    """bool[n]: which texts have ASCII only; null counts as such."""
    return pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)


def cut(texts: pa.StringArray, begin: Any, end: Any) -> pa.StringArray:
    """The bytes of each text from one position to another (int64[n]), within the text."""
    found = Texts.of(texts)
    size = np.maximum(found.length, 0)
    first = np.clip(begin, 0, size)
    return copy_texts(found.address + first.astype(np.uint64), np.where(found.length < 0, -1, np.clip(end, first, size) - first))


def sizes(texts: pa.StringArray) -> Any:
    """int64[n]: bytes of each text, 0 for null."""
    return np.maximum(Texts.of(texts).length, 0)


def _parts(texts: pa.StringArray) -> tuple[Any, Any]:
    """The offsets of the texts, from 0, and their bytes."""
    _, bounds, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32, len(texts) + 1, texts.offset * 4)
    given = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return offsets - offsets[0], given[offsets[0] : offsets[-1]]


def _as_array(offsets: Any, data: Any, texts: pa.StringArray) -> pa.StringArray:
    offsets, data = np.ascontiguousarray(offsets, np.int32), np.ascontiguousarray(data, np.uint8)
    array = pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))
    return pc.if_else(texts.is_valid(), array, pa.scalar(None, pa.string())) if texts.null_count else array
