"""Kernels over encoded texts: bytes out, end to end.

All have one signature: where the texts lie, a table of 256 bytes, where the bytes go (no more than there were), int64[n]
for where each row's bytes end, and int64[n] for the index of the first wrong byte, -1 where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte
from etl.columns.kernels import kernel, kernel_function

SKIP, PAD, WRONG = np.uint8(64), np.uint8(65), np.uint8(255)
"""In a table, beside the values of digits: bytes that are skipped, padding, bytes that are not allowed."""

_ONE = np.uint64(1)
_PERCENT, _BACKSLASH, _PLUS, _SPACE, _X = np.uint8(0x25), np.uint8(0x5C), np.uint8(0x2B), np.uint8(0x20), np.uint8(0x78)


@kernel
def base64(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    """RFC 4648; what the table skips may stand anywhere, and the padding may be missing."""
    target = out
    for row in range(address.shape[0]):
        bits, digits, pads, bad = np.uint32(0), 0, 0, -1
        for at in range(length[row]):
            value = table[load_byte(address[row] + np.uint64(at))]
            if value < SKIP and pads == 0:
                bits = (bits << np.uint32(6)) | np.uint32(value)
                digits += 1
                if digits % 4 != 1:
                    store_byte(target, np.uint8((bits >> np.uint32(6 - 2 * ((digits - 1) % 4))) & np.uint32(0xFF)))
                    target += _ONE
            elif value == PAD and pads < 2 and digits % 4 > 1:
                pads += 1
            elif value != SKIP:
                bad = at
                break
        if bad < 0 and digits % 4 == 1:
            bad = length[row]
        ends[row], wrong[row] = np.int64(target - out), bad


@kernel
def hexadecimal(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    """Two digits a byte, with or without ``0x`` before them; what the table skips may stand between bytes."""
    target = out
    for row in range(address.shape[0]):
        at, high, bad = 0, np.int64(-1), -1
        if length[row] > 1 and load_byte(address[row]) == np.uint8(0x30):
            at = 2 if load_byte(address[row] + _ONE) | np.uint8(0x20) == _X else 0
        while at < length[row]:
            value = table[load_byte(address[row] + np.uint64(at))]
            if value < SKIP and high < 0:
                high = np.int64(value)
            elif value < SKIP:
                store_byte(target, np.uint8(high * 16 + np.int64(value)))
                target, high = target + _ONE, np.int64(-1)
            elif value != SKIP or high >= 0:
                bad = at
                break
            at += 1
        if bad < 0 and high >= 0:
            bad = length[row]
        ends[row], wrong[row] = np.int64(target - out), bad


@kernel
def percent(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    """``%41`` → A; a percent sign without two digits stays. The table's last value is what a plus becomes."""
    target, plus = out, table[255]
    for row in range(address.shape[0]):
        at, end = address[row], address[row] + np.uint64(max(length[row], np.int64(0)))
        while at < end:
            byte = load_byte(at)
            if byte == _PERCENT and end - at > np.uint64(2):
                high, low = table[load_byte(at + _ONE)], table[load_byte(at + np.uint64(2))]
                if high < SKIP and low < SKIP:
                    byte = np.uint8(high * np.uint8(16) + low)
                    at += np.uint64(2)
            elif byte == _PLUS:
                byte = plus
            store_byte(target, byte)
            target, at = target + _ONE, at + _ONE
        ends[row], wrong[row] = np.int64(target - out), -1


@kernel_function
def _decode_escape(at: Any, end: Any, table: Any) -> Any:
    """The byte that the escape at ``at`` (a backslash) stands for, and the length of the escape; 0 where no escape begins."""
    left = end - at
    if left < np.uint64(2):
        return np.uint8(0), 0
    kind = load_byte(at + _ONE)
    if kind == _X and left > np.uint64(3):
        high, low = table[load_byte(at + np.uint64(2))], table[load_byte(at + np.uint64(3))]
        if high < SKIP and low < SKIP:
            return np.uint8(high * np.uint8(16) + low), 4
        return np.uint8(0), 0
    for letter in range(_LETTERS.shape[0]):
        if _LETTERS[letter, 0] == kind:
            return _LETTERS[letter, 1], 2
    return np.uint8(0), 0


_LETTERS = np.array(
    [
        tuple(pair)
        for pair in (b"n\n", b"t\t", b"r\r", b"b\b", b"f\f", b"v\v", b"a\a", b"e\x1b", b"0\0", b"\\\\", b'""', b"''", b"//")
    ],
    np.uint8,
)
"""Letters after a backslash, and their bytes."""


@kernel
def escapes(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    r"""``\x41`` → A, ``\n`` → a line feed; a backslash that begins no escape stays."""
    target = out
    for row in range(address.shape[0]):
        at, end = address[row], address[row] + np.uint64(max(length[row], np.int64(0)))
        while at < end:
            byte, taken = load_byte(at), 0
            if byte == _BACKSLASH:
                found, taken = _decode_escape(at, end, table)
                byte = found if taken > 0 else byte
            store_byte(target, byte)
            target, at = target + _ONE, at + np.uint64(max(taken, 1))
        ends[row], wrong[row] = np.int64(target - out), -1


@kernel
def latin1(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    """Characters up to U+00FF, of one or two bytes in UTF-8 → the bytes of their numbers."""
    target = out
    for row in range(address.shape[0]):
        at, bad = np.int64(0), np.int64(-1)
        while at < length[row]:
            byte = load_byte(address[row] + np.uint64(at))
            if byte >= np.uint8(0x80):
                if byte > np.uint8(0xC3) or byte < np.uint8(0xC2) or at + 1 >= length[row]:
                    bad = at
                    break
                at += 1
                byte = np.uint8((byte << np.uint8(6)) | (load_byte(address[row] + np.uint64(at)) & np.uint8(0x3F)))
            store_byte(target, byte)
            target, at = target + _ONE, at + 1
        ends[row], wrong[row] = np.int64(target - out), bad


@kernel
def byte_array(address: Any, length: Any, table: Any, out: Any, ends: Any, wrong: Any) -> None:
    """A JSON array of the numbers of bytes: ``[72, 105]``."""
    target = out
    for row in range(address.shape[0]):
        state, number, bad = _BEFORE, np.int64(0), np.int64(-1)
        for at in range(length[row]):
            byte = load_byte(address[row] + np.uint64(at))
            digit = np.int64(byte) - np.int64(0x30)
            if byte == _SPACE or byte == np.uint8(0x09) or byte == np.uint8(0x0A) or byte == np.uint8(0x0D):
                state = _AFTER_VALUE if state == _INSIDE else state
            elif 0 <= digit < 10 and _BEFORE < state <= _INSIDE:
                number = digit + np.int64(10) * number if state == _INSIDE else digit
                state = _INSIDE
                if number > 0xFF:
                    bad = np.int64(at)
                    break
            elif byte == np.uint8(0x2C) and _INSIDE <= state <= _AFTER_VALUE:
                store_byte(target, np.uint8(number))
                target, state = target + _ONE, _NEXT
            elif byte == np.uint8(0x5D) and (state == _FIRST or _INSIDE <= state <= _AFTER_VALUE):
                if state != _FIRST:
                    store_byte(target, np.uint8(number))
                    target += _ONE
                state = _CLOSED
            elif byte == np.uint8(0x5B) and state == _BEFORE:
                state = _FIRST
            else:
                bad = np.int64(at)
                break
        if bad < 0 and state != _CLOSED and length[row] >= 0:
            bad = length[row]
        ends[row], wrong[row] = np.int64(target - out), bad


_BEFORE, _FIRST, _NEXT, _INSIDE, _AFTER_VALUE, _CLOSED = range(6)
"""Where a byte array is: before its bracket, before the first number, before a further one, in one, after one, at its end."""
