r"""Escapes ``\uXXXX`` of JSON and its relatives (RFC 8259, section 7), for kernels: reading them, and writing UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte
from etl.columns.kernels import kernel_function

_ONE, _TWO, _SIX = np.uint64(1), np.uint64(2), np.uint64(6)
_BACKSLASH, _U = np.uint8(ord("\\")), np.uint8(ord("u"))
_NONE = np.int64(-1)
_REPLACEMENT = np.int64(0xFFFD)

_DIGITS = np.array([int(chr(one), 16) if chr(one) in "0123456789abcdefABCDEF" else -1 for one in range(256)], np.int64)
"""The value of each hexadecimal digit, -1 for other bytes."""


@kernel_function
def _code_unit(at: Any, end: Any) -> Any:
    r"""The number of the ``\uXXXX`` at an address, -1 if there is none."""
    if end < at + _SIX or load_byte(at) != _BACKSLASH or load_byte(at + _ONE) != _U:
        return _NONE
    code = np.int64(0)
    for index in range(2, 6):
        digit = _DIGITS[load_byte(at + np.uint64(index))]
        if digit < 0:
            return _NONE
        code = code << 4 | digit
    return code


@kernel_function
def read_escape(at: Any, end: Any) -> Any:
    """The code point of the escape at an address, -1 if there is none, and the address after it.

    Two escapes that are a surrogate pair are one code point; a surrogate without its other half is U+FFFD.
    """
    code = _code_unit(at, end)
    if code < 0:
        return _NONE, at
    at += _SIX
    if code < 0xD800 or code >= 0xE000:
        return code, at
    low = _code_unit(at, end) if code < 0xDC00 else _NONE
    if low < 0xDC00 or low >= 0xE000:
        return _REPLACEMENT, at
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at + _SIX


@kernel_function
def _put_tail(out: Any, bits: Any) -> Any:
    store_byte(out, np.uint8(0x80 | (bits & 0x3F)))
    return out + _ONE


@kernel_function
def write_utf8(out: Any, code: Any) -> Any:
    """Write a code point as UTF-8; returns the address after it."""
    if code < 0x80:
        store_byte(out, np.uint8(code))
        return out + _ONE
    if code < 0x800:
        store_byte(out, np.uint8(0xC0 | (code >> 6)))
        return _put_tail(out + _ONE, code)
    if code < 0x10000:
        store_byte(out, np.uint8(0xE0 | (code >> 12)))
        return _put_tail(_put_tail(out + _ONE, code >> 6), code)
    store_byte(out, np.uint8(0xF0 | (code >> 18)))
    return _put_tail(_put_tail(_put_tail(out + _ONE, code >> 12), code >> 6), code)
