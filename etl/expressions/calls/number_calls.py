"""Binds calls of number functions.

Source of ``conv``: Spark SQL's documentation. It reads digits up to the first that the base lacks, as 64 bits without sign;
"0" if there are none, null for an empty text, an error beyond 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import arithmetic
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, as_text, no_arrow_form, whole_literal
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import BOOLEAN, DATE, FLOAT, FLOATS, INT64, INTEGERS, NULL, STRING, is_decimal, is_number


def number(build: Callable[[BoundNode], BoundNode]) -> Callable[[BoundNode], BoundNode]:
    """Binds a function of a whole number or a float; decimals and texts are left to Spark. Raises MisuseError for other types."""

    def bind(value: BoundNode) -> BoundNode:
        if value.type in (*INTEGERS, *FLOATS):
            return build(value)
        if value.type in (BOOLEAN, DATE, TIMESTAMP):
            raise MisuseError(f"a number is needed, and this is {arithmetic.type_name(value.type)}")
        return no_arrow_form("this number", _unchanged_type(value))

    return bind


def _unchanged_type(value: BoundNode) -> pa.DataType:
    """The type of a number; null for a decimal, whose scale and precision Spark's functions change, and for other types."""
    return value.type if is_number(value.type) and not is_decimal(value.type) else NULL


def whole(kernel: Callable[[Any], Any], value: BoundNode) -> BoundNode:
    """Binds `floor` and `ceil`, which give whole numbers."""
    if value.type == FLOAT:
        return no_arrow_form("floor() or ceil() of a float, which Spark casts first,", INT64)
    return arithmetic.whole(kernel, value)


def round_(value: BoundNode, digits: BoundNode | None = None) -> BoundNode:
    decimals = 0 if digits is None else whole_literal(digits)
    if decimals is None or decimals < 0 or (decimals > 0 and value.type not in INTEGERS):
        return no_arrow_form("round() to digits of a fraction", _unchanged_type(value))
    return number(arithmetic.round_half_up)(value)


# ── Other bases ───────────────────────────────────────────────────────────────────────────────────

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BEYOND = 1 << 64
"""The first number that 64 bits do not hold."""


def conv(text: BoundNode, from_base: BoundNode, to_base: BoundNode) -> BoundNode:
    """``conv(text, 16, 10)``. Bases must be literals; a negative one, for numbers with signs, is left to Spark."""
    old, new = whole_literal(from_base), whole_literal(to_base)
    if old is None or new is None or not (2 <= old <= len(DIGITS) and 2 <= new <= len(DIGITS)):
        return no_arrow_form("conv() with computed or negative bases", STRING)
    return b.apply_failing(STRING, partial(_convert_base, old, new), as_text(text))


def _convert_base(old: int, new: int, rows: ActiveRows, texts: Any) -> pa.Array:
    """Loops over distinct texts, because Arrow has no function for it."""
    encoded = pc.dictionary_encode(broadcast(texts, rows.length))
    numbers = [_number(text, old) for text in encoded.dictionary.to_pylist()]
    too_large = pa.array([number is not None and number >= BEYOND for number in numbers], pa.bool_())
    rows.fail(too_large.take(encoded.indices), "overflow in 'conv'")
    return pa.array([None if one is None else _format_number(one % BEYOND, new) for one in numbers], STRING).take(encoded.indices)


def _number(text: str, base: int) -> int | None:
    """The number at the beginning of a text, of any size; with a minus, its two's complement."""
    text = text.strip(" ")
    if not text:
        return None
    negative, number = text.startswith("-"), 0
    for character in text[negative:]:
        digit = DIGITS.find(character.upper()) if character.isascii() else -1
        if not 0 <= digit < base:
            break
        number = number * base + digit
    return BEYOND - number if negative and 0 < number < BEYOND else number


def _format_number(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = DIGITS[digit] + digits
    return digits or "0"
