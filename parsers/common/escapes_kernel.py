"""The kernel that resolves escapes with a backslash."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte
from etl.columns.kernels import kernel, part

_ONE, _TWO, _SIX = np.uint64(1), np.uint64(2), np.uint64(6)
_BACKSLASH, _U = np.uint8(0x5C), np.uint8(ord("u"))
_ZERO = np.uint8(0)
_NONE = np.int64(-1)
_REPLACEMENT = np.int64(0xFFFD)


@part
def _hex_digit(byte: Any) -> Any:
    """The value of a hexadecimal digit, -1 for none."""
    if np.uint8(0x30) <= byte <= np.uint8(0x39):
        return np.int64(byte) - 0x30
    lower = np.int64(byte | np.uint8(0x20)) - 0x61
    return lower + 10 if 0 <= lower < 6 else _NONE


@part
def _code_unit(at: Any, end: Any) -> Any:
    r"""The code unit of ``\uXXXX``, -1 where there is none."""
    if end < at + _SIX or load_byte(at) != _BACKSLASH or load_byte(at + _ONE) != _U:
        return _NONE
    code = np.int64(0)
    for place in range(2, 6):
        digit = _hex_digit(load_byte(at + np.uint64(place)))
        if digit < 0:
            return _NONE
        code = code * 16 + digit
    return code


@part
def _put_tail(out: Any, bits: Any) -> Any:
    store_byte(out, np.uint8(0x80 | (bits & 0x3F)))
    return out + _ONE


@part
def _put_utf8(out: Any, code: Any) -> Any:
    """Write a character as UTF-8; where the next one goes."""
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


@kernel
def unescape(address: Any, length: Any, rows: Any, letters: Any, unicode: Any, target: Any) -> Any:
    """Write the texts of some rows without escapes to ``target`` (at least their size), and set their addresses and lengths.

    ``letters[b]`` is what a backslash and ``b`` stand for, 0 where both stay; ``unicode`` resolves ``\\uXXXX``.
    """
    out = target
    for number in range(rows.shape[0]):
        row = rows[number]
        at, begin = address[row], out
        end = at + np.uint64(max(length[row], np.int64(0)))
        while at < end:
            byte = load_byte(at)
            if byte == _BACKSLASH and at + _ONE < end:
                code = _code_unit(at, end) if unicode else _NONE
                if code >= 0:
                    at += _SIX
                    low = _code_unit(at, end) if 0xD800 <= code < 0xDC00 else _NONE
                    if 0xDC00 <= low < 0xE000:
                        at += _SIX
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    out = _put_utf8(out, _REPLACEMENT if 0xD800 <= code < 0xE000 else code)
                    continue
                meant = letters[load_byte(at + _ONE)]
                if meant != _ZERO:
                    store_byte(out, meant)
                    out, at = out + _ONE, at + _TWO
                    continue
            store_byte(out, byte)
            out, at = out + _ONE, at + _ONE
        address[row], length[row] = begin, np.int64(out - begin)
