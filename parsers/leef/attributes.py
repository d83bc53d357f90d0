"""Columns of LEEF events → the fields of their headers, and their attributes as pairs.

A kernel cuts attributes at the delimiter of their event: ``src=10.0.0.1^usrName=root``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function
from etl.columns.texts import Texts
from parsers.common.failures import Failures
from parsers.common.pipe_header_kernel import LINE_BREAK, READ
from parsers.common.pipe_headers import header_reasons, read_headers
from parsers.pairs.pair_buffer import PairBuffer, put_pair
from parsers.pairs.pair_columns import Pairs

TAB = np.uint32(0x09)
"""A delimiter as a number: the bytes of its character, the first one lowest."""

_ZERO, _ONE, _TWO, _NONE = np.uint8(0), np.uint64(1), np.uint64(2), np.uint64(0)
_PIPE, _EQUALS, _BACKSLASH, _DIGIT = np.uint8(0x7C), np.uint8(0x3D), np.uint8(0x5C), np.uint8(0x30)
_SPACE, _FEED, _RETURN = np.uint8(0x20), np.uint8(0x0A), np.uint8(0x0D)
_SECOND, _X, _T = np.uint8(ord("2")), np.uint8(ord("x")), np.uint8(ord("t"))
_MAX_DELIMITER_BYTES = np.uint64(7)
"""Maximum bytes of a delimiter field, ``0xFFFF``, with the pipe after it."""

_LOW = np.uint32(0xFF)


@kernel_function
def _hex_number(at: Any, end: Any) -> Any:
    """The number of 1 to 4 hexadecimal digits; 0 for another text."""
    code = np.uint32(0)
    if at == end or end > at + np.uint64(4):
        return code
    while at < end:
        byte = load_byte(at)
        digit = np.uint32(byte - _DIGIT)
        if digit > np.uint32(9):
            letter = np.uint32((byte | np.uint8(0x20)) - np.uint8(0x61))
            if letter > np.uint32(5):
                return np.uint32(0)
            digit = letter + np.uint32(10)
        code = (code << np.uint32(4)) | digit
        at += _ONE
    return code


@kernel_function
def _utf8_bytes(code: Any) -> Any:
    """The UTF-8 bytes of a character up to U+FFFF; 0 stays 0."""
    if code < np.uint32(0x80):
        return code
    tail = np.uint32(0x80) | (code & np.uint32(0x3F))
    if code < np.uint32(0x800):
        return np.uint32(0xC0) | (code >> np.uint32(6)) | (tail << np.uint32(8))
    middle = np.uint32(0x80) | ((code >> np.uint32(6)) & np.uint32(0x3F))
    return np.uint32(0xE0) | (code >> np.uint32(12)) | (middle << np.uint32(8)) | (tail << np.uint32(16))


@kernel_function
def _delimiter_size(delimiter: Any) -> Any:
    """Bytes of a delimiter."""
    size = _ONE
    while delimiter > _LOW:
        delimiter >>= np.uint32(8)
        size += _ONE
    return size


@kernel_function
def _one_character(at: Any, end: Any) -> Any:
    """The bytes of a text that is one character, 0 for another."""
    lead = load_byte(at)
    size = _ONE
    for bound in (np.uint8(0xC0), np.uint8(0xE0), np.uint8(0xF0)):
        size += np.uint64(lead >= bound)
    if end != at + size:
        return np.uint32(0)
    found = np.uint32(0)
    for index in range(size):
        found |= np.uint32(load_byte(at + np.uint64(index))) << np.uint32(8 * index)
    return found


@kernel_function
def _read_delimiter(at: Any, end: Any) -> Any:
    """The delimiter that a field names: empty or ``\\t`` (a tab), one character, ``x5E`` or ``0x5E``; 0 for another text."""
    if at == end:
        return TAB
    one = _one_character(at, end)
    if one != np.uint32(0):
        return one
    if load_byte(at) == _BACKSLASH and load_byte(at + _ONE) == _T and end == at + _TWO:
        return TAB
    if load_byte(at) == _DIGIT:
        at += _ONE
    if load_byte(at) | np.uint8(0x20) == _X:
        return _utf8_bytes(_hex_number(at + _ONE, end))
    return np.uint32(0)


@kernel_function
def _find_delimiter(at: Any, end: Any) -> Any:
    """The delimiter field at the beginning of a body: the delimiter, and where the attributes begin."""
    after = at
    while after < min(end, at + _MAX_DELIMITER_BYTES):
        if load_byte(after) == _PIPE:
            found = _read_delimiter(at, after)
            return (found, after + _ONE) if found != np.uint32(0) else (TAB, at)
        after += _ONE
    return TAB, at


@kernel_function
def _is_delimiter(at: Any, end: Any, delimiter: Any, size: Any) -> Any:
    """Whether the bytes at ``at`` are the delimiter."""
    if end < at + size:
        return False
    same = True
    for index in range(size):
        same &= load_byte(at + np.uint64(index)) == np.uint8((delimiter >> np.uint32(8 * index)) & _LOW)
    return same


@kernel_function
def _attribute_end(at: Any, end: Any, delimiter: Any, size: Any) -> Any:
    """The address where an attribute ends, that of its ``=`` (0 without one), and whether a line break ends it."""
    equals, first = _NONE, np.uint8(delimiter & _LOW)
    while at < end:
        byte = load_byte(at)
        if byte == first and _is_delimiter(at, end, delimiter, size):
            return at, equals, False
        if byte == _EQUALS and equals == _NONE:
            equals = at
        if byte in (_FEED, _RETURN):
            return at, equals, True
        at += _ONE
    return end, equals, False


@kernel_function
def _put_attribute(buffer: Any, pair: Any, key: Any, key_end: Any, value: Any, value_length: Any) -> None:
    """Write a pair, its key without white space around."""
    while key < key_end and load_byte(key) <= _SPACE:
        key += _ONE
    while key < key_end and load_byte(key_end - _ONE) <= _SPACE:
        key_end -= _ONE
    put_pair(buffer, pair, key, key_end, value, value_length, _ZERO)


@kernel_function
def _cut_row(buffer: Any, at: Any, end: Any, delimiter: Any, pair: Any) -> Any:
    """Write the attributes of one event, from number ``pair`` on; the next number, and the outcome."""
    size = _delimiter_size(delimiter)
    while at < end:
        after, equals, breaks = _attribute_end(at, end, delimiter, size)
        if breaks:
            return pair, LINE_BREAK
        if equals != _NONE:
            _put_attribute(buffer, pair, at, equals, equals + _ONE, np.int64(after - equals) - 1)
            pair += 1
        elif after > at:
            _put_attribute(buffer, pair, at, after, at, np.int64(-1))
            pair += 1
        at = after + size
    return pair, READ


@kernel
def cut_attributes(version: Any, body: Any, body_end: Any, given: Any, buffer: Any, bounds: Any, outcomes: Any) -> None:
    """Bodies → pairs; rows that fail, in their header or here, have none. ``given`` is the delimiter of all events; with 0
    each event has its own."""
    pair = np.int64(0)
    bounds[0] = 0
    for row in range(body.shape[0]):
        before, outcome = pair, outcomes[row]
        if outcome == READ:
            delimiter, at = TAB, body[row]
            if load_byte(version[row]) == _SECOND:
                delimiter, at = _find_delimiter(at, body_end[row])
            if given != np.uint32(0):
                delimiter = given
            pair, outcome = _cut_row(buffer, at, body_end[row], delimiter, pair)
        if outcome != READ:
            pair = before
        outcomes[row], bounds[row + 1] = outcome, pair


# ── Columns ───────────────────────────────────────────────────────────────────────────────────────

_FIELDS = 5
_REASONS = header_reasons("LEEF:", _FIELDS)


def compile_cut(delimiter: str) -> Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]:
    """A function of a column: the fields of its headers, its attributes, and the rows that fail.

    ``delimiter`` is that of all events; when empty, each event has its own.
    """
    given = np.uint32(int.from_bytes(delimiter.encode("utf-8", "replace"), "little"))

    def cut(column: pa.Array) -> tuple[list[pa.Array], Pairs, Failures]:
        texts = Texts.of(column)
        headers = read_headers(texts, b"LEEF:", _FIELDS)
        buffer = PairBuffer.of(texts, headers.outcomes)
        cut_attributes(headers.version, headers.body, headers.body_end, given, buffer.addresses(), buffer.bounds, buffer.outcomes)
        return headers.fields, buffer.pairs(texts, {}), buffer.failures(_REASONS)

    return cut
