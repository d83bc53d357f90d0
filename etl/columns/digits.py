"""Writes numbers as decimal digits, for kernels. Addresses, values and lengths are ``uint64``."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import store_byte, store_long
from etl.columns.kernels import kernel_function

ZERO, ONE, EIGHT, TEN = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(10)
DIGIT = np.uint64(ord("0"))
EIGHT_DIGITS = np.uint64(10**8)
FOUR_DIGITS = np.uint64(10**4)


@kernel_function
def eight_digits(value: Any) -> Any:
    """A number below 10**8 → its eight ASCII digits as a uint64, the first digit in the lowest byte.

    Divides the number's halves, then their halves, in parallel within one word, with one multiplication for each step.
    """
    halves = value // FOUR_DIGITS | (value % FOUR_DIGITS) << np.uint64(32)
    hundreds = (halves * np.uint64(10486) >> np.uint64(20)) & np.uint64(0x7F_0000_007F)
    pairs = hundreds | (halves - np.uint64(100) * hundreds) << np.uint64(16)
    tens = (pairs * np.uint64(103) >> np.uint64(10)) & np.uint64(0x000F_000F_000F_000F)
    return (tens | (pairs - TEN * tens) << EIGHT) | np.uint64(0x3030_3030_3030_3030)


@kernel_function
def write_whole(out: Any, value: Any) -> Any:
    """Write the digits of a uint64; writes to up to 24 bytes; returns the address after the digits."""
    if value >= EIGHT_DIGITS:
        out = _write_up_to_16(out, value // EIGHT_DIGITS)
        store_long(out, eight_digits(value % EIGHT_DIGITS))
        return out + EIGHT
    return _write_up_to_8(out, value)


@kernel_function
def _write_up_to_16(out: Any, value: Any) -> Any:
    """Write the digits of a number below 10**16."""
    if value >= EIGHT_DIGITS:
        out = _write_up_to_8(out, value // EIGHT_DIGITS)
        store_long(out, eight_digits(value % EIGHT_DIGITS))
        return out + EIGHT
    return _write_up_to_8(out, value)


@kernel_function
def _write_up_to_8(out: Any, value: Any) -> Any:
    leading = np.uint64(7)
    bound = TEN
    for _ in range(7):
        leading -= np.uint64(value >= bound)
        bound *= TEN
    store_long(out, eight_digits(value) >> (leading * EIGHT))
    return out + EIGHT - leading


@kernel_function
def write_fraction(out: Any, value: Any, count: Any) -> Any:
    """Write the last ``count`` digits (at most nine), with leading zeros."""
    if count > EIGHT:
        store_byte(out, np.uint8(DIGIT + value // EIGHT_DIGITS))
        store_long(out + ONE, eight_digits(value % EIGHT_DIGITS))
    else:
        store_long(out, eight_digits(value) >> (EIGHT - count) * EIGHT)
    return out + count


@kernel_function
def write_two(out: Any, value: Any) -> Any:
    """Write two digits."""
    store_byte(out, np.uint8(DIGIT + value // TEN))
    store_byte(out + ONE, np.uint8(DIGIT + value % TEN))
    return out + np.uint64(2)
