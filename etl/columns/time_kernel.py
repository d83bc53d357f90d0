"""The kernel that runs the programs of `times` over texts.

An instruction is five ``int64``: the opcode (from bit 8 on, the field that it sets), the number of bytes that it reads, and
three operands: the bytes of a literal; the index of the first name and the end of the names; for a number the factor, the
divisor and the summand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import same_bytes
from etl.columns.days import days_of, month_length
from etl.columns.intrinsics import load_byte, load_long, store_long
from etl.columns.kernels import kernel, kernel_function

LITERAL, POINT, NUMBER, NAME, OFFSET = range(5)
UNREAD, INSTANT, WALL_CLOCK = np.uint8(0), np.uint8(1), np.uint8(2)
"""A text that no layout reads, one with an offset from UTC, one without."""

YEAR, MONTH, DAY, HOUR, HALF_DAY_HOUR, HALF_DAY, MINUTE, SECOND, MICROS, ZONE, SKIP, ROOM = range(12)
FIELDS = {
    "year": YEAR,
    "year2": YEAR,
    "month": MONTH,
    "month_name": MONTH,
    "day": DAY,
    "hour": HOUR,
    "hour12": HALF_DAY_HOUR,
    "ampm": HALF_DAY,
    "minute": MINUTE,
    "second": SECOND,
    "fraction": MICROS,
}

ABSENT = np.int64(-(2**62))
"""The value of a field that the text does not set."""

_ONE = np.uint64(1)
_ZERO = np.uint8(ord("0"))


@kernel
def read_times(  # type: ignore[no-untyped-def]
    address, length, first, bounds, program, names, fields, year, years, latest, micros, kinds
) -> None:
    """Texts by address and length → microseconds and kinds.

    ``first`` is the index of the first layout of each length, ``bounds`` that of the first instruction of each layout.
    ``program``, ``names`` and ``fields`` (room to work in) are addresses, ``uint64``. A text equal to the one before it, as when
    many lines are written within one second, gets the same result.
    """
    for row in range(len(address)):
        kinds[row] = UNREAD
        size = length[row]
        if size < 0 or size >= len(first) - 1:
            continue
        if row > 0 and length[row - 1] == size and same_bytes(address[row - 1], address[row], size):
            micros[row], kinds[row] = micros[row - 1], kinds[row - 1]
            continue
        for layout in range(first[size], first[size + 1]):
            _clear(fields)
            if not _run(_item(program, 5 * bounds[layout]), _item(program, 5 * bounds[layout + 1]), names, address[row], fields):
                continue
            time = _time(fields, year, years, latest)
            if time == ABSENT:
                continue
            offset = _get(fields, ZONE)
            micros[row] = time if offset == ABSENT else time - offset * 1_000_000
            kinds[row] = WALL_CLOCK if offset == ABSENT else INSTANT
            break


@kernel_function
def _item(array: Any, index: Any) -> Any:
    """The address of an int64 of an array."""
    return array + np.uint64(index) * np.uint64(8)


@kernel_function
def _get(array: Any, index: Any) -> Any:
    return np.int64(load_long(_item(array, index)))


@kernel_function
def _set(array: Any, index: Any, value: Any) -> None:
    store_long(_item(array, index), np.uint64(value))


@kernel_function
def _clear(fields: Any) -> None:
    for field in range(MINUTE, ROOM):
        _set(fields, field, np.int64(0))
    for field in (YEAR, HALF_DAY_HOUR, ZONE):
        _set(fields, field, ABSENT)
    _set(fields, HOUR, np.int64(0))


@kernel_function
def _run(at: Any, end: Any, names: Any, address: Any, fields: Any) -> Any:
    """Set the fields; False if the text does not match the layout."""
    good = True
    while at < end and good:
        what, width, one, other = _get(at, 0), _get(at, 1), _get(at, 2), _get(at, 3)
        kind, field = what & 255, what >> 8
        if kind == LITERAL:
            good = _is_literal(address, width, one)
        elif kind == NUMBER:
            value = _number(address, width)
            good = value >= 0
            if other != 1:
                value //= other
            _set(fields, field, value * one + _get(at, 4))
        elif kind == NAME:
            value = _name(names, one, other, address, width)
            good = value > 0
            _set(fields, field, value)
        elif kind == POINT:
            good = load_byte(address) == np.uint8(ord(".")) or load_byte(address) == np.uint8(ord(","))
        else:
            value = _offset(address, width)
            good = value != ABSENT
            _set(fields, ZONE, value)
        address += np.uint64(width)
        at = _item(at, 5)
    return good


@kernel_function
def _is_literal(address: Any, width: Any, text: Any) -> Any:
    good: Any = True
    for _ in range(width):
        good &= load_byte(address) == np.uint8(text & 255)
        text >>= 8
        address += _ONE
    return good


@kernel_function
def _number(address: Any, width: Any) -> Any:
    """The number of ``width`` digits; below 0 if a byte is not a digit."""
    value = np.int64(0)
    strange: Any = False
    for _ in range(width):
        digit = np.uint8(load_byte(address) - _ZERO)
        strange |= digit > np.uint8(9)
        value = value * 10 + np.int64(digit)
        address += _ONE
    return np.int64(-1) if strange else value


@kernel_function
def _name(names: Any, start: Any, end: Any, address: Any, width: Any) -> Any:
    """The index of a name, from 1; 0 if there is none."""
    code = np.int64(0)
    for _ in range(width):
        code = code << 8 | np.int64(load_byte(address) | np.uint8(0x20))
        address += _ONE
    for index in range(start, end):
        if _get(names, index) == code:
            return index - start + 1
    return 0


@kernel_function
def _offset(address: Any, width: Any) -> Any:
    """Z, +hh, +hhmm or +hh:mm, by its width → seconds east of UTC."""
    sign = load_byte(address)
    if width == 1:
        return np.int64(0) if sign | np.uint8(0x20) == np.uint8(ord("z")) else ABSENT
    hours, minutes = _number(address + _ONE, 2), np.int64(0)
    if width > 3:
        minutes = _number(address + np.uint64(width - 2), 2)
    if width == 6 and load_byte(address + np.uint64(3)) != np.uint8(ord(":")):
        return ABSENT
    if hours < 0 or hours > 18 or minutes < 0 or minutes > 59:
        return ABSENT
    seconds = hours * 3600 + minutes * 60
    if sign == np.uint8(ord("-")):
        return -seconds
    return seconds if sign == np.uint8(ord("+")) else ABSENT


@kernel_function
def _time(fields: Any, year: Any, years: Any, latest: Any) -> Any:
    """The wall-clock time in microseconds since 1970; `ABSENT` if the date or the time of day does not exist."""
    hour, minute, second = _get(fields, HOUR), _get(fields, MINUTE), _get(fields, SECOND)
    half_day_hour = _get(fields, HALF_DAY_HOUR)
    if half_day_hour != ABSENT:
        if half_day_hour < 1 or half_day_hour > 12:
            return ABSENT
        hour = half_day_hour % 12 + 12 * (_get(fields, HALF_DAY) - 1)
    if hour > 23 or minute > 59 or second > 59:
        return ABSENT
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _get(fields, MICROS)
    month, day = _get(fields, MONTH), _get(fields, DAY)
    if _get(fields, YEAR) != ABSENT:
        return _at(_get(fields, YEAR), month, day, clock)
    for past in range(years):
        time = _at(year - past, month, day, clock)
        if time != ABSENT and time <= latest:
            return time
    return ABSENT


@kernel_function
def _at(year: Any, month: Any, day: Any, clock: Any) -> Any:
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1 or day > month_length(year, month):
        return ABSENT
    return days_of(year, month, day) * 86_400_000_000 + clock
