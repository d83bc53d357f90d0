"""Arithmetic and comparisons in Spark's ANSI mode: overflow and division by zero fail the row, NaN is the largest number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.casts import cast
from etl.expressions.rows import ActiveRows
from etl.expressions.values.number_casts import bounds
from etl.expressions.widening import BOOLEAN, DOUBLE, FLOATS, INT64, INTEGERS, MAX_DIGITS, decimal_of, is_decimal

# ── Comparisons ───────────────────────────────────────────────────────────────────────────────────

_PLAIN = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    """``left operator right``, after casting both to ``type_``."""
    if is_decimal(type_):
        return _compare_decimals(operator, left, right, type_)
    left, right = cast(left, type_), cast(right, type_)
    literals = [side.value for side in (left, right) if side.is_literal]
    with_nan = type_ in FLOATS and not (literals and all(value == value for value in literals) and operator == "=")
    return b.apply(BOOLEAN, _WITH_NAN[operator] if with_nan else _PLAIN[operator], left, right)


def _compare_decimals(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    """Compare decimals with one another or with whole numbers; Spark may round those of more than 38 digits together."""
    if max(_whole_digits(side.type) for side in (left, right)) + type_.scale > MAX_DIGITS:
        return b.spark_only("a comparison of decimals with more than 38 digits together has no Arrow form", BOOLEAN)
    wide = pa.decimal128(MAX_DIGITS, type_.scale)
    return b.apply(BOOLEAN, lambda x, y: _PLAIN[operator](pc.cast(x, wide), pc.cast(y, wide)), left, right)


def _whole_digits(type_: pa.DataType) -> int:
    """Digits before the decimal point of a decimal or a whole number; 0 for others."""
    return decimal_of(type_).precision - decimal_of(type_).scale if is_decimal(type_) or type_ in INTEGERS else 0


def _nan_equal(x: Any, y: Any) -> Any:
    return pc.or_(pc.equal(x, y), pc.and_(pc.is_nan(x), pc.is_nan(y)))


def _nan_less(x: Any, y: Any) -> Any:
    return pc.or_(pc.less(x, y), pc.and_(pc.is_nan(y), pc.invert(pc.is_nan(x))))


_WITH_NAN: dict[str, Callable[[Any, Any], Any]] = {
    "=": _nan_equal,
    "<>": lambda x, y: pc.invert(_nan_equal(x, y)),
    "<": _nan_less,
    "<=": lambda x, y: pc.invert(_nan_less(y, x)),
    ">": lambda x, y: _nan_less(y, x),
    ">=": lambda x, y: pc.invert(_nan_less(x, y)),
}

# ── Arithmetic ────────────────────────────────────────────────────────────────────────────────────

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_WRAPPING = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_EXACT_INT64 = pa.decimal256(20, 0)


def add_like(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    """``+``, ``-`` and ``*`` of two values, after casting both to ``type_``."""
    left, right = cast(left, type_), cast(right, type_)
    if type_ in FLOATS:
        return b.apply(type_, _WRAPPING[operator], left, right)
    return b.apply_failing(type_, partial(_compute_checked, operator, type_), left, right)


def _compute_checked(operator: str, type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    try:
        return _CHECKED[operator](x, y)
    except pa.ArrowInvalid:
        exact = _WRAPPING[operator](pc.cast(x, _EXACT_INT64), pc.cast(y, _EXACT_INT64))
        low, high = (pa.scalar(limit, exact.type) for limit in bounds(type_))
        rows.fail(pc.or_(pc.less(exact, low), pc.greater(exact, high)), f"{type_name(type_)} overflow in {operator!r}")
        return _WRAPPING[operator](x, y)


def type_name(type_: pa.DataType) -> str:
    from etl.api import format_type

    return format_type(type_)


def divide(left: BoundNode, right: BoundNode) -> BoundNode:
    """``/`` of doubles; a zero divisor fails."""
    return b.apply_failing(DOUBLE, _divide, cast(left, DOUBLE), cast(right, DOUBLE), backwards=True)


def _divide(rows: ActiveRows, x: Any, y: Any) -> Any:
    zero = _zero_divisor(rows, x, y, "division by zero")
    return pc.divide(x, y if zero is None else pc.if_else(zero, 1.0, y))


def whole_divide(left: BoundNode, right: BoundNode) -> BoundNode:
    """``div``: whole numbers, rounded toward zero."""
    return b.apply_failing(INT64, _divide_whole, cast(left, INT64), cast(right, INT64), backwards=True)


def _divide_whole(rows: ActiveRows, x: Any, y: Any) -> Any:
    _zero_divisor(rows, x, y, "division by zero")
    negating = pc.equal(y, -1)
    rows.fail(pc.and_(negating, pc.equal(x, bounds(INT64)[0])), "bigint overflow in 'div'")
    quotient = pc.divide(x, pc.if_else(pc.or_(negating, pc.equal(y, 0)), pa.scalar(1, INT64), y))
    return pc.if_else(negating, pc.negate(quotient), quotient)


def remainder(left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    """``%`` of whole numbers, with the sign of the left operand."""
    if type_ not in INTEGERS:
        return b.spark_only("'%' of fractions has no Arrow form", type_)
    return b.apply_failing(type_, partial(_compute_remainder, type_), cast(left, type_), cast(right, type_), backwards=True)


def _compute_remainder(type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    _zero_divisor(rows, x, y, "remainder by zero")
    one = pa.scalar(1, type_)
    divisor = pc.if_else(pc.is_in(y, value_set=pa.array([0, -1], type_)), one, y)
    divisor = pc.if_else(pc.is_valid(y), divisor, pa.scalar(None, type_))
    return pc.subtract(x, pc.multiply(pc.divide(x, divisor), divisor))


def _zero_divisor(rows: ActiveRows, x: Any, y: Any, reason: str) -> Any:
    zero = pc.equal(y, pa.scalar(0, y.type))
    if not pc.any(zero).as_py():
        return None
    rows.fail(pc.and_(zero, pc.is_valid(x)), reason)
    return zero


def negate(value: BoundNode) -> BoundNode:
    """Unary minus; fails for the least number of an integer type."""
    if value.is_literal and not isinstance(value.value, str | None):
        return b.literal(-value.value, value.type)
    if value.type in FLOATS:
        return b.apply(value.type, pc.negate, value)
    return b.apply_failing(value.type, partial(_change_sign, pc.negate, "-"), value)


def absolute(value: BoundNode) -> BoundNode:
    """``abs``."""
    if value.type in FLOATS:
        return b.apply(value.type, pc.abs, value)
    return b.apply_failing(value.type, partial(_change_sign, pc.abs, "abs"), value)


def _change_sign(kernel: Callable[[Any], Any], name: str, rows: ActiveRows, x: Any) -> Any:
    rows.fail(pc.equal(x, pa.scalar(bounds(x.type)[0], x.type)), f"{type_name(x.type)} overflow in {name!r}")
    return kernel(x)


def whole(kernel: Callable[[Any], Any], value: BoundNode) -> BoundNode:
    """``floor`` and ``ceil`` as bigint; fails for numbers beyond its range; NaN becomes 0."""
    if value.type in INTEGERS:
        return cast(value, INT64)
    return b.apply_failing(INT64, partial(_rounded_whole, kernel), value)


def _rounded_whole(kernel: Callable[[Any], Any], rows: ActiveRows, x: Any) -> Any:
    rounded = kernel(pc.if_else(pc.is_nan(x), 0.0, x))
    low, high = bounds(INT64)
    outside = pc.or_(pc.greater_equal(rounded, float(high)), pc.less(rounded, float(low)))
    rows.fail(outside, "bigint overflow in rounding")
    return pc.cast(pc.if_else(outside, 0.0, rounded), INT64)


def round_half_up(value: BoundNode) -> BoundNode:
    """``round(x)`` to whole numbers, halves away from zero."""
    if value.type in INTEGERS:
        return value
    return b.apply(value.type, lambda x: pc.add(pc.round(x, 0, "half_towards_infinity"), pa.scalar(0.0, x.type)), value)
