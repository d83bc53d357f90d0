"""The kernel that cuts headers such as ``<134>Jan 1 host CEF:0|vendor|product|…|`` off texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

READ, NO_TEXT, NO_HEADER, SHORT, LINE_BREAK = (np.uint8(number) for number in range(5))
"""How a row ended: with a whole header; or a null text, no header, too few fields, a line break inside."""

_ONE, _NONE = np.uint64(1), np.uint64(0)
_PIPE, _BACKSLASH, _QUOTE = np.uint8(0x7C), np.uint8(0x5C), np.uint8(0x22)
_SPACE, _TAB, _FEED, _RETURN = np.uint8(0x20), np.uint8(0x09), np.uint8(0x0A), np.uint8(0x0D)
_DIGIT = np.uint8(0x30)


@kernel_function
def _is_digit(byte: Any) -> Any:
    return byte - _DIGIT <= np.uint8(9)


@kernel_function
def _is_alphanumeric(byte: Any) -> Any:
    return _is_digit(byte) or ((byte | np.uint8(0x20)) - np.uint8(0x61)) <= np.uint8(25)


@kernel_function
def _is_blank(byte: Any) -> Any:
    return byte in (_SPACE, _TAB)


@kernel_function
def _version_start(at: Any, end: Any, magic: Any) -> Any:
    """Where the version after the magic word begins; 0 when there is no magic word at ``at``."""
    for index in range(magic.shape[0]):
        if at >= end or load_byte(at) != magic[index]:
            return _NONE
        at += _ONE
    while at < end and _is_blank(load_byte(at)):
        at += _ONE
    return at if at < end and _is_digit(load_byte(at)) else _NONE


@kernel_function
def _find_magic(begin: Any, end: Any, magic: Any) -> Any:
    """Where the magic word and the version after it begin: the first word without a letter or digit before it."""
    at, inside = begin, False
    while at < end:
        byte = load_byte(at)
        if byte == magic[0] and not inside:
            version = _version_start(at, end, magic)
            if version != _NONE:
                return at, version
        inside = _is_alphanumeric(byte)
        at += _ONE
    return end, _NONE


@kernel_function
def _trim(at: Any, end: Any) -> Any:
    """A text without the line end after it and the quotes around it."""
    while end > at and load_byte(end - _ONE) in (_FEED, _RETURN):
        end -= _ONE
    if end > at + _ONE and load_byte(at) == _QUOTE and load_byte(end - _ONE) == _QUOTE:
        return at + _ONE, end - _ONE
    return at, end


@kernel_function
def _field_end(at: Any, end: Any) -> Any:
    """Where a field ends, whether there are escapes in it, and what is wrong."""
    escaped = False
    while at < end:
        byte = load_byte(at)
        if byte == _PIPE:
            return at, escaped, READ
        if byte in (_FEED, _RETURN):
            return at, escaped, LINE_BREAK
        if byte == _BACKSLASH:
            escaped = True
            at += _ONE
        at += _ONE
    return end, escaped, SHORT


@kernel
def cut_headers(
    address: Any, length: Any, magic: Any, starts: Any, lengths: Any, escaped: Any, body: Any, body_end: Any, outcomes: Any
) -> None:
    """Texts → the text before the magic word, the fields after it, and the address of what follows.

    ``starts`` (uint64[1 + fields, rows]) and ``lengths`` (int64, -1 for null) take the fields, ``escaped`` (uint8[1 + fields])
    notes which have escapes in any row.
    """
    for row in range(address.shape[0]):
        for number in range(starts.shape[0]):
            starts[number, row], lengths[number, row] = address[row], -1
        body[row] = body_end[row] = address[row]
        outcomes[row] = NO_TEXT
        if length[row] < 0:
            continue
        begin, end = _trim(address[row], address[row] + np.uint64(length[row]))
        word, at = _find_magic(begin, end, magic)
        outcomes[row] = NO_HEADER
        if at == _NONE:
            continue
        while word > begin and _is_blank(load_byte(word - _ONE)):
            word -= _ONE
        outcomes[row] = READ
        for number in range(1, starts.shape[0]):
            field_end, inside, outcomes[row] = _field_end(at, end)
            if outcomes[row] != READ:
                break
            starts[number, row], lengths[number, row] = at, np.int64(field_end - at)
            escaped[number] |= inside
            at = field_end + _ONE
        if outcomes[row] == READ:
            starts[0, row], lengths[0, row] = begin, np.int64(word - begin) if word > begin else np.int64(-1)
            body[row], body_end[row] = at, end
        else:
            for number in range(1, starts.shape[0]):
                lengths[number, row] = -1
