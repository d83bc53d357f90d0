"""Parses numbers at the beginning of texts, as Logstash does (``12ms`` is 12); null if there is none or it does not fit.

White space (blank, tab, line feed, form feed, carriage return) and a ``+`` may precede a number. A whole number is ``-?[0-9]+``,
a real one ``-?[0-9]*\\.?[0-9]+([eE][+-]?[0-9]+)?``; ``0x1F`` is 0 and ``nan`` is not a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function
from etl.columns.texts import Texts, materialize_array, take_rows

_REAL = r"^\s*\+?(?P<n>-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)"

_MAX_EXACT_INTEGER = np.uint64(2**53)
"""Up to this a float64 holds every whole number exactly, so that one multiplication or division rounds correctly."""

_POWERS = np.array([10.0**power for power in range(23)])
"""Powers of ten that a float64 holds exactly."""

_FULL = np.uint64((2**64 - 10) // 10)
"""Largest number that can take another digit without overflow."""

_MAX_EXPONENT = np.int64(100_000)
"""Larger exponents are clamped to this."""

NUMBER, NONE, HARD = np.uint8(1), np.uint8(0), np.uint8(2)
"""Kinds of texts: a number, no number, a number that Arrow parses because float64 arithmetic would not round it correctly."""

_ONE = np.uint64(1)
_DIGIT = np.uint8(ord("0"))


def whole_numbers(texts: pa.Array) -> pa.Int64Array:
    """Texts of any text type → int64."""
    found = Texts.of(texts)
    values, kinds = np.empty(len(texts), np.int64), np.empty(len(texts), np.uint8)
    missing = read_whole(found.address, found.length, values, kinds)
    return _array(pa.int64(), values, kinds if missing else None)


def real_numbers(texts: pa.Array) -> pa.DoubleArray:
    """Texts of any text type → float64, correctly rounded."""
    found = Texts.of(texts)
    values, kinds = np.empty(len(texts), np.float64), np.empty(len(texts), np.uint8)
    missing, hard = read_real(found.address, found.length, values, kinds)
    if hard:
        rows = np.flatnonzero(kinds == HARD)
        values[rows] = _nearest(materialize_array(take_rows(texts, rows)))
        kinds[rows] = NUMBER
    return _array(pa.float64(), values, kinds if missing else None)


def _nearest(texts: pa.StringArray) -> Any:
    """Parse numbers of many digits or with large exponents with Arrow, which rounds correctly."""
    try:
        return pc.cast(texts, pa.float64()).to_numpy()
    except pa.ArrowInvalid:  # a text has other characters around its number
        return pc.cast(pc.struct_field(pc.extract_regex(texts, _REAL), [0]), pa.float64()).to_numpy()


def _array(type_: pa.DataType, values: Any, valid: Any) -> pa.Array:
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type_, len(values), [bits, pa.py_buffer(values)])


# ── Kernels: addresses and lengths of texts (-1: null) → values and kinds ─────────────────────────


@kernel
def read_whole(address: Any, length: Any, values: Any, kinds: Any) -> Any:
    """Read whole numbers; returns how many texts have none."""
    missing = 0
    for row in range(len(address)):
        end = address[row] + np.uint64(max(length[row], 0))
        at, negative = _begin(address[row], end)
        number, digits_end, fits = _digits(at, end, np.uint64(0))
        maximum = np.uint64(2**63) if negative else np.uint64(2**63 - 1)
        good = digits_end != at and fits and number <= maximum
        values[row] = np.int64(np.uint64(0) - number if negative else number) if good else 0
        kinds[row] = good
        missing += not good
    return missing


@kernel_function
def _begin(at: Any, end: Any) -> Any:
    """Skip white space and a sign; returns the address after them, and whether the sign is a minus."""
    while at < end and _is_space(load_byte(at)):
        at += _ONE
    if at < end and load_byte(at) == np.uint8(ord("+")):
        at += _ONE
    if at < end and load_byte(at) == np.uint8(ord("-")):
        return at + _ONE, True
    return at, False


@kernel_function
def _is_space(byte: Any) -> Any:
    return byte == np.uint8(0x20) or (np.uint8(0x09) <= byte <= np.uint8(0x0D) and byte != np.uint8(0x0B))


@kernel_function
def _digits(at: Any, end: Any, number: Any) -> Any:
    """Append digits to a number; returns the number, the address after the digits, and whether it fits a uint64."""
    fits = True
    while at < end:
        digit = load_byte(at) - _DIGIT
        if digit > np.uint8(9):
            break
        fits &= number <= _FULL
        number = number * np.uint64(10) + np.uint64(digit)
        at += _ONE
    return number, at, fits


@kernel
def read_real(address: Any, length: Any, values: Any, kinds: Any) -> Any:
    """Read real numbers; returns how many texts have none and how many are `HARD`."""
    missing, hard = 0, 0
    for row in range(len(address)):
        end = address[row] + np.uint64(max(length[row], 0))
        at, negative = _begin(address[row], end)
        value, kind = _real(at, end)
        values[row] = -value if negative else value
        kinds[row] = kind
        missing += kind == NONE
        hard += kind == HARD
    return missing, hard


@kernel_function
def _real(at: Any, end: Any) -> Any:
    number, digits_end, fits = _digits(at, end, np.uint64(0))
    exponent = np.int64(0)
    if _is_digit(digits_end + _ONE, end) and load_byte(digits_end) == np.uint8(ord(".")):
        point = digits_end + _ONE
        number, digits_end, more = _digits(point, end, number)
        fits &= more
        exponent = -np.int64(digits_end - point)
    if digits_end == at:
        return 0.0, NONE
    exponent += _exponent(digits_end, end)
    if not fits or number > _MAX_EXACT_INTEGER or abs(exponent) > 22:
        return 0.0, HARD
    if exponent < 0:
        return np.float64(number) / _POWERS[-exponent], NUMBER
    return np.float64(number) * _POWERS[exponent], NUMBER


@kernel_function
def _exponent(at: Any, end: Any) -> Any:
    """The exponent after an ``e``; 0 if there is none."""
    if at >= end or load_byte(at) | np.uint8(0x20) != np.uint8(ord("e")):
        return np.int64(0)
    at += _ONE
    negative = at < end and load_byte(at) == np.uint8(ord("-"))
    if negative or (at < end and load_byte(at) == np.uint8(ord("+"))):
        at += _ONE
    value = np.int64(0)
    while _is_digit(at, end):
        value = min(value * 10 + np.int64(load_byte(at) - _DIGIT), _MAX_EXPONENT)
        at += _ONE
    return -value if negative else value


@kernel_function
def _is_digit(at: Any, end: Any) -> Any:
    return at < end and load_byte(at) - _DIGIT <= np.uint8(9)
