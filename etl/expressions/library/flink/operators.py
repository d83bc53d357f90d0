"""Flink's arithmetic: whole numbers wrap around, decimals have Flink's digits and are null where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.arithmetic import divide, type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.number_casts import fit
from etl.expressions.library.flink.types import as_decimal, result
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import DOUBLE, FLOATS, INTEGERS, NULL, is_decimal, is_number

_MAX_DIGITS = 76
"""Digits of Arrow's widest decimal."""

_MAX_DIGITS_OF_128_BITS = 38
"""Digits of a decimal of 128 bits: twice as fast as one of 256."""


def arithmetic(operator: str) -> Callable[[BoundNode, BoundNode], BoundNode]:
    """``+ - * / %`` of two numbers."""

    def build(left: BoundNode, right: BoundNode) -> BoundNode:
        if NULL in (left.type, right.type):
            known = right.type if left.type == NULL else left.type
            left, right = cast(left, known), cast(right, known)
        if not (is_number(left.type) and is_number(right.type)):
            raise MisuseError(f"{operator!r} is for numbers, and here are {type_name(left.type)} and {type_name(right.type)}")
        type_ = result(operator, left.type, right.type)
        if is_decimal(type_):
            return _of_decimals(operator, left, right, type_)
        wide = result("+", left.type, right.type)
        made = b.apply_failing(wide, partial(_OF_NUMBERS[operator], wide), cast(left, wide), cast(right, wide), backwards=True)
        return cast(made, type_)

    return build


def _plain(kernel: Callable[[Any, Any], Any], type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    return kernel(x, y)


def _refuse_zero(rows: ActiveRows, x: Any, y: Any) -> Any:
    """The divisor with 1 for 0, whose rows fail."""
    zero = pc.equal(y, pa.scalar(0, y.type))
    rows.fail(pc.and_(zero, pc.is_valid(x)), "division by zero")
    return pc.if_else(zero, pa.scalar(1, y.type), y)


def _divide(type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    divisor = _refuse_zero(rows, x, y)
    if type_ in FLOATS:
        return pc.divide(x, divisor)
    negating = pc.equal(divisor, pa.scalar(-1, type_))  # the least number divided by -1 wraps around
    quotient = pc.divide(x, pc.if_else(negating, pa.scalar(1, type_), divisor))
    return pc.if_else(negating, pc.subtract(pa.scalar(0, type_), quotient), quotient)


def _remainder(type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    divisor = _refuse_zero(rows, x, y)
    if type_ in FLOATS:
        return pc.subtract(x, pc.multiply(pc.trunc(pc.divide(x, divisor)), divisor))
    return pc.subtract(x, pc.multiply(_divide(type_, rows, x, divisor), divisor))


_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "+": partial(_plain, pc.add),
    "-": partial(_plain, pc.subtract),
    "*": partial(_plain, pc.multiply),
    "/": _divide,
    "%": _remainder,
}


def _of_decimals(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    one, other = as_decimal(left.type), as_decimal(right.type)
    given = cast(left, one), cast(right, other)
    if one.precision + other.precision + 2 > _MAX_DIGITS or (
        operator in "/%" and _digits_of_quotient(one, other, type_) > _MAX_DIGITS
    ):
        return by_value(type_, partial(_exact, operator, type_))(*given)
    return b.apply_failing(type_, partial(_compute_decimals, operator, type_), *given, backwards=True)


def _digits_of_quotient(one: pa.DataType, other: pa.DataType, type_: pa.DataType) -> int:
    return int(one.precision - one.scale + type_.scale + 1 + other.scale + other.precision)


def _compute_decimals(operator: str, type_: pa.DataType, rows: ActiveRows, x: Any, y: Any) -> Any:
    one, other = x.type, y.type
    if operator in "+-*":
        kernel = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[operator]
        if one.precision + other.precision >= _MAX_DIGITS_OF_128_BITS:
            x, y = (pc.cast(value, pa.decimal256(value.type.precision, value.type.scale)) for value in (x, y))
        return fit(kernel(x, y), type_)
    divisor = _refuse_zero(rows, x, y)
    scale = type_.scale + 1 + other.scale if operator == "/" else max(one.scale, other.scale) + other.scale
    numerator = pc.cast(x, pa.decimal256(one.precision - one.scale + scale, scale))
    quotient = pc.divide(numerator, pc.cast(divisor, pa.decimal256(other.precision, other.scale)))
    if operator == "/":
        return fit(_cut(quotient, type_.scale + 1), type_)
    whole = _cut(quotient, 0)
    product = pc.multiply(
        pc.cast(whole, pa.decimal256(38, 0)), pc.cast(divisor, pa.decimal256(min(37, other.precision), other.scale))
    )
    return fit(pc.subtract(pc.cast(x, pa.decimal256(one.precision, one.scale)), product), type_)


def _cut(values: Any, scale: int) -> Any:
    return pc.round(values, scale, "towards_zero")


def _exact(operator: str, type_: pa.DataType, x: Decimal, y: Decimal) -> Decimal | None:
    """Compute one result of decimals whose intermediate values have more digits than Arrow can hold."""
    from etl.expressions.library.kernels import RowError

    context = Context(prec=160)
    if operator in "/%" and not y:
        raise RowError("division by zero")
    apply = {"+": context.add, "-": context.subtract, "*": context.multiply, "/": context.divide, "%": context.remainder}
    try:
        found = apply[operator](x, y).quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP, context=context)
    except InvalidOperation:
        return None
    return found if abs(found) < Decimal(10) ** (type_.precision - type_.scale) else None


def quotient(left: BoundNode, right: BoundNode) -> BoundNode:
    """``/`` as RocketMQ Streams has it: of whole numbers a fraction."""
    if is_decimal(left.type) or is_decimal(right.type):
        return arithmetic("/")(left, right)
    return divide(cast(left, DOUBLE), cast(right, DOUBLE))


def negate(value: BoundNode) -> BoundNode:
    """Unary minus."""
    return b.apply(value.type, pc.negate if value.type in (*INTEGERS, *FLOATS) else _negate_decimal, value)


def _negate_decimal(values: Any) -> Any:
    return pc.cast(pc.negate(values), values.type)


def absolute(value: BoundNode) -> BoundNode:
    """``ABS``; the least whole number stays negative."""
    return b.apply(value.type, lambda x: pc.if_else(pc.less(x, pa.scalar(0, x.type)), pc.negate(x), x), value)


def _function(name: str, operator: str, about: str, example: str, gives: Any, errors: str = "none") -> LibraryFunction:
    return LibraryFunction(
        f"flink_{name}", "x: number, y: number", _RESULT, arithmetic(operator), about, example, gives, errors=errors
    )


_RESULT = "by the arguments: their wider type, or a decimal"
_WRAPS = "Whole numbers wrap around, a decimal that does not fit is null."

FUNCTIONS = (
    _function("add", "+", f"The sum. {_WRAPS}", "flink_add(2147483647, 1)", -2147483648),
    _function("subtract", "-", f"The difference. {_WRAPS}", "flink_subtract(1, 2.5)", "-1.5"),
    _function("multiply", "*", f"The product. {_WRAPS}", "flink_multiply(1.23, 4.567)", "5.61741"),
    _function("divide", "/", "The quotient; of whole numbers a whole number.", "flink_divide(-7, 2)", -3, "a divisor 0"),
    _function("mod", "%", "The remainder, with the sign of the first number.", "flink_mod(-7, 3)", -1, "a divisor 0"),
    LibraryFunction(
        "flink_quotient",
        "x: any, y: any",
        "a double, of a decimal a decimal",
        quotient,
        "The quotient; of whole numbers a fraction.",
        "flink_quotient(7, 2)",
        3.5,
        errors="a divisor 0",
    ),
    LibraryFunction(
        "flink_negate",
        "x: number",
        "the argument's type",
        negate,
        "The number with the other sign; the least whole number stays what it is.",
        "flink_negate(5)",
        -5,
    ),
    LibraryFunction(
        "flink_abs",
        "x: number",
        "the argument's type",
        absolute,
        "The number without sign; the least whole number stays what it is.",
        "flink_abs(-5.5)",
        "5.5",
    ),
)
