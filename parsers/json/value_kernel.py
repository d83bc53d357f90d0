"""Kernels that classify JSON texts and values by their first and last bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import any_of_three, load_byte, trailing_zeros
from etl.columns.kernels import kernel, kernel_function
from parsers.json.lenient_tokens import BLOCK, CLOSE, ONE, OPEN, OPEN_LIST, QUOTE, has_backslash, space_end, value_end

MISSING, TEXT, SCALAR, NESTED, ESCAPED = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3), np.uint8(4)
"""Kinds of values: none or null, a string, a number or truth value, an array or object, and what has a backslash in it."""

_LETTER_N = np.uint8(0x6E)
_MINUS, _DIGIT = np.uint8(ord("-")), np.uint8(ord("0"))
_MAX_DIGITS = np.uint64(18)
"""Digits of a number that always fits int64."""


@kernel
def has_braces(address: Any, length: Any, good: Any) -> None:
    """Which texts begin and end as objects do (bool[n])."""
    for row in range(address.shape[0]):
        last = address[row] + np.uint64(max(length[row], np.int64(1))) - ONE
        good[row] = length[row] > 1 and load_byte(address[row]) == OPEN and load_byte(last) == CLOSE


@kernel
def classify(address: Any, starts: Any, ends: Any, kinds: Any) -> None:
    """The kind of each value; the span of a string becomes that of its characters."""
    for row in range(address.shape[0]):
        if starts[row] < 0:
            kinds[row] = MISSING
            continue
        at, end = address[row] + np.uint64(starts[row]), address[row] + np.uint64(ends[row])
        byte = load_byte(at) if at < end else _LETTER_N
        if byte == _LETTER_N:
            kinds[row] = MISSING
            starts[row] = -1
        elif has_backslash(at, end):
            kinds[row] = ESCAPED
        elif byte == QUOTE:
            kinds[row] = TEXT
            starts[row] += 1
            ends[row] -= 1
        else:
            kinds[row] = NESTED if byte in (OPEN, OPEN_LIST) else SCALAR


@kernel
def read_whole(address: Any, starts: Any, ends: Any, low: Any, high: Any, values: Any, valid: Any) -> Any:
    """Read values that are whole numbers from ``low`` to ``high``, or null; returns whether all are one of these.

    A number of more than 18 digits, or with a fraction or exponent, is not read: the result is then without use.
    """
    for row in range(address.shape[0]):
        at, end = address[row] + np.uint64(max(starts[row], 0)), address[row] + np.uint64(max(ends[row], 0))
        values[row] = 0
        valid[row] = starts[row] >= 0 and at < end and load_byte(at) != _LETTER_N
        if not valid[row]:
            continue
        negative = load_byte(at) == _MINUS
        at += np.uint64(negative)
        if at == end or end - at > _MAX_DIGITS:
            return False
        number = np.int64(0)
        while at < end:
            digit = load_byte(at) - _DIGIT
            if digit > np.uint8(9):
                return False
            number = number * 10 + np.int64(digit)
            at += ONE
        number = -number if negative else number
        if number < low or number > high:
            return False
        values[row] = number
    return True


@kernel
def first_ends(address: Any, length: Any, ends: Any) -> None:
    """Where the first value of each text ends, white space after it included: bytes from the text's beginning."""
    for row in range(address.shape[0]):
        end = address[row] + np.uint64(max(length[row], np.int64(0)))
        ends[row] = np.int64(space_end(value_end(address[row], end), end) - address[row])


CLEAN, NUL, MAYBE_NUMBER = np.uint8(0), np.uint8(1), np.uint8(2)
"""Marks of a text: clean, with a NUL, or with letters that begin ``NaN`` and ``Infinity``."""

_BIG_N, _BIG_I = np.uint8(0x4E), np.uint8(0x49)
_SMALL_A, _SMALL_N = np.uint8(0x61), np.uint8(0x6E)


@kernel_function
def _misread_mark(at: Any, end: Any) -> Any:
    mark = CLEAN
    while at < end:
        if end - at >= BLOCK:
            found = any_of_three(at, np.uint8(0), _BIG_N, _BIG_I)
            if found == 0:
                at += BLOCK
                continue
            at += np.uint64(trailing_zeros(found))
        byte = load_byte(at)
        if byte == 0:
            return NUL
        following = load_byte(at + ONE) if at + ONE < end else np.uint8(0)
        if (byte == _BIG_N and following == _SMALL_A) or (byte == _BIG_I and following == _SMALL_N):
            mark = MAYBE_NUMBER
        at += ONE
    return mark


@kernel
def mark_misread(address: Any, length: Any, marks: Any) -> None:
    """Mark the texts in which Arrow's reader may find an early end, or a number where JSON has none."""
    for row in range(address.shape[0]):
        marks[row] = _misread_mark(address[row], address[row] + np.uint64(max(length[row], np.int64(0))))
