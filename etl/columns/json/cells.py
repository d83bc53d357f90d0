"""Writes the values of a row as JSON, between the literals of `json_kernel`.

``column`` is the address of the column's row in the table (`json_table`). Functions take the address to write to and return
the address after what they wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.days import FIRST_DAY, LAST_DAY, date_of
from etl.columns.digits import EIGHT, ONE, ZERO, eight_digits, write_fraction, write_two, write_whole
from etl.columns.intrinsics import (
    copy_block,
    load_byte,
    load_long,
    load_word,
    store_byte,
    store_long,
    store_word,
)
from etl.columns.json.table import (
    BIT,
    DATE,
    DETAIL,
    FIRST,
    KIND,
    LITERAL,
    LITERAL_BYTES,
    SIGNED,
    TIME,
    VALIDITY,
    VALUES,
    ZONED,
)
from etl.columns.kernels import kernel_function

BLOCK = np.uint64(16)
ROOM = np.uint64(96)
"""Bytes that must be free besides those of texts and literals: for any other value, and for copies in blocks."""

WORD = np.uint64(4)
HUNDRED, _SIXTY = np.uint64(100), np.uint64(60)
DAY = np.int64(86_400)
_FIRST_OF_THREE, _SECOND_OF_THREE = np.uint64(1_000_000), np.uint64(1000)
_DASHES = np.uint64((ord("0") - ord("-")) * (1 << 16 | 1 << 40))
_COLONS = np.uint64((ord(":") - ord("0")) * (1 << 16 | 1 << 40))
_NULL, _TRUE, _FALS = (np.uint32(int.from_bytes(text, "little")) for text in (b"null", b"true", b"fals"))
_UNITS = np.array([10**digits for digits in range(10)], np.int64)
"""Time units of a second, by the number of its digits."""


@kernel_function
def field(column: Any, name: Any) -> Any:
    """A field of a column."""
    return load_long(column + np.uint64(name) * EIGHT)


@kernel_function
def literal(column: Any, left_out: Any, out: Any) -> Any:
    """Write the literal before a value, without its first ``left_out`` bytes."""
    source, end = field(column, LITERAL) + left_out, field(column, LITERAL) + field(column, LITERAL_BYTES)
    length = end - source
    copy_block(out, source)
    done = BLOCK
    while done < length:
        copy_block(out + done, source + done)
        done += BLOCK
    return out + length


@kernel_function
def null(out: Any) -> Any:
    """Write ``null``."""
    store_word(out, _NULL)
    return out + WORD


@kernel_function
def is_valid(column: Any, row: Any) -> Any:
    """Whether the value is not null."""
    if field(column, VALIDITY) == ZERO:
        return True
    return _bit(field(column, VALIDITY), field(column, FIRST) + row)


@kernel_function
def _bit(bits: Any, index: Any) -> Any:
    return (load_byte(bits + (index >> np.uint64(3))) >> np.uint8(index & np.uint64(7))) & np.uint8(1) != np.uint8(0)


# ── Other values ──────────────────────────────────────────────────────────────────────────────────


@kernel_function
def short_value(column: Any, row: Any, out: Any) -> Any:
    """Write a value of bounded length."""
    kind, row_index = field(column, KIND), field(column, FIRST) + row
    if kind == BIT:
        return _truth(out, _bit(field(column, VALUES), row_index))
    if kind == DATE:
        return _date(out, np.int64(np.int32(load_word(field(column, VALUES) + row_index * np.uint64(4)))))
    value = load_long(field(column, VALUES) + row_index * EIGHT)
    if kind == TIME:
        return _time(out, np.int64(value), field(column, DETAIL), field(column, ZONED))
    if kind == SIGNED and np.int64(value) < 0:
        store_byte(out, np.uint8(ord("-")))
        return write_whole(out + ONE, ZERO - value)
    return write_whole(out, value)


@kernel_function
def _truth(out: Any, value: Any) -> Any:
    if value:
        store_word(out, _TRUE)
        return out + WORD
    store_word(out, _FALS)
    store_byte(out + WORD, np.uint8(ord("e")))
    return out + WORD + ONE


@kernel_function
def _date(out: Any, day: Any) -> Any:
    """Write ``2026-01-02``: the century, then ``26-01-02`` as one number whose zeros between the parts become dashes."""
    year, month, day_of_month = date_of(day)
    century = year // HUNDRED
    out = write_two(out, century)
    store_long(
        out, eight_digits((year - century * HUNDRED) * _FIRST_OF_THREE + month * _SECOND_OF_THREE + day_of_month) - _DASHES
    )
    return out + EIGHT


@kernel_function
def _clock(out: Any, second: Any) -> Any:
    """Write ``03:04:05``, in the same way."""
    minute = second // _SIXTY
    hour = minute // _SIXTY
    digits = hour * _FIRST_OF_THREE + (minute - hour * _SIXTY) * _SECOND_OF_THREE + (second - minute * _SIXTY)
    store_long(out, eight_digits(digits) + _COLONS)
    return out + EIGHT


@kernel_function
def _time(out: Any, value: Any, digits: Any, zoned: Any) -> Any:
    """Write ``2026-01-02T03:04:05.000120Z`` with as many digits of a second as the unit has."""
    seconds, fraction = _seconds(value, digits)
    day = seconds // DAY
    out = _date(out, day)
    store_byte(out, np.uint8(ord("T")))
    out = _clock(out + ONE, np.uint64(seconds - day * DAY))
    if digits != ZERO:
        store_byte(out, np.uint8(ord(".")))
        out = write_fraction(out + ONE, fraction, digits)
    store_byte(out, np.uint8(ord("Z")))
    return out + zoned


@kernel_function
def _seconds(value: Any, digits: Any) -> Any:
    """Seconds and remainder. The divisors are constants, so that the compiler turns the divisions into multiplications."""
    if digits == np.uint64(6):
        seconds = value // 1_000_000
        return seconds, np.uint64(value - seconds * 1_000_000)
    if digits == np.uint64(3):
        seconds = value // 1000
        return seconds, np.uint64(value - seconds * 1000)
    if digits == ZERO:
        return value, ZERO
    seconds = value // 1_000_000_000
    return seconds, np.uint64(value - seconds * 1_000_000_000)


@kernel_function
def has_four_digits(column: Any, row: Any) -> Any:
    """Whether a time or date is within the years 0000 to 9999."""
    row_index = field(column, FIRST) + row
    if field(column, KIND) == DATE:
        return FIRST_DAY <= np.int64(np.int32(load_word(field(column, VALUES) + row_index * WORD))) <= LAST_DAY
    units = _UNITS[field(column, DETAIL)]
    if units > 1_000_000:
        return True  # an int64 of nanoseconds goes from 1677 to 2262
    value = np.int64(load_long(field(column, VALUES) + row_index * EIGHT))
    return FIRST_DAY * DAY * units <= value < (LAST_DAY + 1) * DAY * units
