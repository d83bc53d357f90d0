"""Flink's functions of numbers: rounding keeps the argument's type, logarithms of 0 are infinite, of less are NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.encodings import decode_bytes
from etl.expressions import bound_node as b
from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.casts import cast
from etl.expressions.library.flink.number_casts import fit
from etl.expressions.library.flink.times.rounding import round_time
from etl.expressions.library.flink.types import common
from etl.expressions.library.function import NULL_IF_ANY, LibraryFunction
from etl.expressions.library.kernels import by_value, constant, on_arrow, usually_on_arrow
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import BOOLEAN, DOUBLE, FLOATS, INTEGERS, NULL, STRING, is_decimal

# ── Rounding ──────────────────────────────────────────────────────────────────────────────────────


def whole(name: str) -> Callable[..., BoundNode]:
    """``FLOOR`` and ``CEIL`` of a number, or of a time to a unit."""

    def build(value: BoundNode, unit: BoundNode | None = None) -> BoundNode:
        if unit is not None:
            return round_time(name, value, unit)
        if value.type in INTEGERS or value.type == NULL:
            return value
        if value.type in FLOATS:
            return b.apply(value.type, pc.floor if name == "floor" else pc.ceil, value)
        if not is_decimal(value.type):
            raise MisuseError(f"{name} is for numbers and times, and this is {type_name(value.type)}")
        mode, target = ("down" if name == "floor" else "up"), pa.decimal128(value.type.precision, 0)
        return b.apply(target, lambda x: fit(pc.round(_wide(x), 0, mode), target), value)

    return build


def _wide(values: Any) -> Any:
    return pc.cast(values, pa.decimal256(values.type.precision + 1, values.type.scale))


def rounded(cuts: bool) -> Callable[..., BoundNode]:
    """``ROUND`` (halves away from zero) or ``TRUNCATE``, to digits of the fraction; fewer than 0: before the point."""

    def build(value: BoundNode, digits: BoundNode | None = None) -> BoundNode:
        is_known, decimals = (True, 0) if digits is None else constant(digits)
        if value.type == NULL or (is_known and decimals is None):
            return b.apply(value.type, lambda x: pc.if_else(pc.is_valid(x), pa.scalar(None, x.type), x), value)
        if digits is not None and not is_known:
            function = partial(_round_double if value.type in FLOATS else _round_exact, cuts)
            return by_value(value.type, function, fails=False)(value, digits)
        if value.type in FLOATS:
            return by_value(value.type, lambda x: _round_double(cuts, x, decimals), fails=False)(value)
        if value.type in INTEGERS:
            if decimals >= 0:
                return value
            return by_value(value.type, lambda x: _round_exact(cuts, x, decimals), fails=False)(value)
        return b.apply_failing(_rounded_type(value.type, decimals), partial(_round_decimal, decimals, cuts), value)

    return build


def _rounded_type(type_: pa.DataType, decimals: int) -> pa.DataType:
    scale = max(0, min(decimals, type_.scale))
    more = 0 if decimals >= type_.scale else 1
    return pa.decimal128(min(38, type_.precision - type_.scale + scale + more), scale)


def _round_decimal(decimals: int, cuts: bool, rows: ActiveRows, values: Any) -> Any:
    mode = "towards_zero" if cuts else "half_towards_infinity"
    target = _rounded_type(values.type, decimals)
    return fit(pc.round(_wide(values), decimals, mode), target) if decimals < values.type.scale else pc.cast(values, target)


def _round_double(cuts: bool, value: float, decimals: int) -> float:
    """By way of the number's shortest decimal text, as Java's BigDecimal."""
    if not math.isfinite(value):
        return value
    decimals = max(-_MAX_DECIMALS, min(decimals, _MAX_DECIMALS))
    return float(_quantize(Decimal(repr(value)), cuts, decimals))


def _round_exact(cuts: bool, value: Any, decimals: int) -> Any:
    exact = Decimal(value)
    found = _quantize(exact, cuts, max(-_MAX_DECIMALS, min(decimals, -int(exact.as_tuple().exponent))))
    return int(found) if isinstance(value, int) else found


_MAX_DECIMALS = 400
"""Digits before or after the point that are rounded to: more than a double has on either side."""

_EXACT = Context(prec=2 * _MAX_DECIMALS)
"""Decimals of any double, and of 38 digits: Python's own context has 28."""


def _quantize(value: Decimal, cuts: bool, decimals: int) -> Decimal:
    return value.quantize(Decimal((0, (1,), -decimals)), ROUND_DOWN if cuts else ROUND_HALF_UP, _EXACT)


def sign(value: BoundNode) -> BoundNode:
    if not is_decimal(value.type):
        return b.apply(value.type, lambda x: pc.cast(pc.sign(x), x.type), value)
    return b.apply(value.type, lambda x: pc.cast(pc.cast(pc.sign(x), pa.decimal128(38, 0)), x.type), value)


# ── Doubles ───────────────────────────────────────────────────────────────────────────────────────


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


def _log_of_base(base: BoundNode, value: BoundNode) -> BoundNode:
    return b.apply(DOUBLE, lambda x, y: pc.divide(pc.ln(y), pc.ln(x)), base, value)


def _logarithm(first: BoundNode, second: BoundNode | None = None) -> BoundNode:
    return b.apply(DOUBLE, pc.ln, first) if second is None else _log_of_base(first, second)


def _hyperbolic(name: str) -> Callable[[BoundNode], BoundNode]:
    def kernel(values: Any) -> Any:
        return getattr(pc, name)(values)

    return on_arrow(DOUBLE, kernel)


def _double(
    name: str, build: Callable[..., BoundNode], about: str, example: str, gives: Any, arguments: str = "x: double", **more: Any
) -> LibraryFunction:
    return LibraryFunction(f"flink_{name}", arguments, "double", build, about, example, gives, **more)


# ── Digits and choices ────────────────────────────────────────────────────────────────────────────


def _binary(value: int) -> str:
    return format(value & (2**64 - 1), "b")


def _unhex(text: str) -> bytes | None:
    """Two digits are a byte; an odd first digit counts as none, and gives the byte 0."""
    try:
        return (b"\0" if len(text) % 2 else b"") + bytes.fromhex(text[len(text) % 2 :]) if " " not in text else None
    except ValueError:
        return None


def _pairs_of_digits(texts: pa.Array) -> tuple[pa.Array, Any]:
    found = decode_bytes(texts, "hex")
    return found, found.is_valid().to_numpy(zero_copy_only=False)


def choice(largest: bool) -> Callable[..., BoundNode]:
    """``GREATEST`` and ``LEAST``: null if a value is null."""

    def build(*values: BoundNode) -> BoundNode:
        type_ = common([value.type for value in values])
        if type_ is None:
            raise MisuseError("the values have no type in common")
        given = [cast(value, type_) for value in values]
        if type_ in (STRING, BOOLEAN) or is_decimal(type_):
            function = max if largest else min
            return by_value(type_, lambda *found: function(found), fails=False)(*given)
        return b.apply(type_, partial(_choose, pc.max_element_wise if largest else pc.min_element_wise, type_), *given)

    return build


def _choose(kernel: Callable[..., Any], type_: pa.DataType, *values: Any) -> Any:
    """Arrow compares no times of a time zone: their numbers are compared."""
    if pa.types.is_timestamp(type_):
        return pc.cast(kernel(*(pc.cast(value, pa.int64()) for value in values), skip_nulls=False), type_)
    return kernel(*values, skip_nulls=False)


_DIGITS = "x: number, digits: integer?"
_SAME = "the argument's type"

FUNCTIONS = (
    LibraryFunction(
        "flink_floor",
        "x: number|timestamp|date|time, unit: string?",
        _SAME,
        whole("floor"),
        "The largest whole number that is not greater; of a time the start of a unit, such as year, week (from Sunday), day.",
        "flink_floor(-1.2)",
        "-2",
    ),
    LibraryFunction(
        "flink_ceil",
        "x: number|timestamp|date|time, unit: string?",
        _SAME,
        whole("ceil"),
        "The smallest whole number that is not less; of a time the next start of a unit, or the time itself if it is one.",
        "flink_ceil(1.2)",
        "2",
    ),
    LibraryFunction(
        "flink_ceiling",
        "x: number",
        _SAME,
        whole("ceil"),
        "The smallest whole number that is not less.",
        "flink_ceiling(1.2)",
        "2",
    ),
    LibraryFunction(
        "flink_round",
        _DIGITS,
        "the argument's type, a decimal with fewer digits",
        rounded(False),
        "The number rounded to digits of the fraction, halves away from zero; negative digits are before the point.",
        "flink_round(2.345, 2)",
        "2.35",
    ),
    LibraryFunction(
        "flink_truncate",
        _DIGITS,
        "the argument's type, a decimal with fewer digits",
        rounded(True),
        "The number cut after digits of the fraction.",
        "flink_truncate(42.345, 2)",
        "42.34",
    ),
    LibraryFunction("flink_sign", "x: number", _SAME, sign, "-1, 0 or 1.", "flink_sign(-3)", -1),
    _double("ln", on_arrow(DOUBLE, lambda x: pc.ln(x)), "The natural logarithm.", "flink_ln(1)", 0.0),
    _double("log10", on_arrow(DOUBLE, lambda x: pc.log10(x)), "The logarithm to base 10.", "flink_log10(1000)", 3.0),
    _double(
        "log2",
        by_value(DOUBLE, lambda x: math.log2(x) if x > 0 else _log(x), fails=False),
        "The logarithm to base 2.",
        "flink_log2(8)",
        3.0,
    ),
    _double(
        "log",
        _logarithm,
        "The natural logarithm, or of the second argument to the base of the first.",
        "flink_log(2, 8)",
        3.0,
        "x: double, y: double?",
    ),
    _double("sinh", _hyperbolic("sinh"), "The hyperbolic sine.", "flink_sinh(0)", 0.0),
    _double("cosh", _hyperbolic("cosh"), "The hyperbolic cosine.", "flink_cosh(0)", 1.0),
    _double("tanh", _hyperbolic("tanh"), "The hyperbolic tangent.", "flink_tanh(0)", 0.0),
    _double("cot", on_arrow(DOUBLE, lambda x: pc.divide(1.0, pc.tan(x))), "The cotangent.", "flink_cot(1)", 0.6420926159343306),
    LibraryFunction(
        "flink_bin",
        "x: bigint",
        "string",
        by_value(STRING, _binary, fails=False),
        "The digits of a whole number to base 2, of a negative one those of its 64 bits.",
        "flink_bin(12)",
        "1100",
        loops=True,
    ),
    LibraryFunction(
        "flink_unhex",
        "digits: string",
        "binary",
        usually_on_arrow(pa.binary(), _pairs_of_digits, _unhex),
        "The bytes of hexadecimal digits.",
        "flink_unhex('68656C6C6F')",
        b"hello",
        null="null for null and for a text with other characters",
    ),
    LibraryFunction(
        "flink_greatest",
        "value: any, more: any...",
        "the common type",
        choice(True),
        "The greatest value.",
        "flink_greatest(1, 2.5)",
        "2.5",
        null=NULL_IF_ANY,
    ),
    LibraryFunction(
        "flink_least", "value: any, more: any...", "the common type", choice(False), "The least value.", "flink_least(3, 1, 2)", 1
    ),
)
