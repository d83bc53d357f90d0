"""Binds calls of mathematical functions.

``sqrt``, ``radians``, ``degrees``, ``sign``, ``rint``, ``least`` and ``greatest`` give Spark's results bit by bit. Java lets the
others, such as ``sin``, ``exp`` and ``pow``, differ by one or two units in the last place between platforms, and so they do
here. ``log2``, ``log10``, ``log`` with a base and ``cbrt``, which programs round down, have no Arrow form for that reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.arithmetic import compare, remainder, type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import no_arrow_form
from etl.expressions.casts import cast
from etl.expressions.logic import case, either, is_null, negate
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import ATOMIC, DOUBLE, INTEGERS, NULL, common_type_of, is_decimal

RADIANS_PER_DEGREE, DEGREES_PER_RADIAN = 0.017453292519943295, 57.29577951308232
"""Those of Java's ``Math.toRadians`` and ``toDegrees``, which multiply."""


def of_doubles(kernel: Callable[..., Any]) -> Callable[..., BoundNode]:
    """A function of doubles; other numbers and texts are cast."""
    return lambda *values: b.apply(DOUBLE, kernel, *(cast(value, DOUBLE) for value in values))


def constant(value: float) -> Callable[[], BoundNode]:
    return lambda: b.literal(value, DOUBLE)


def scaled(factor: float) -> Callable[[BoundNode], BoundNode]:
    """A product, as of degrees with radians per degree."""
    return of_doubles(lambda x: pc.multiply(x, factor))


rint = of_doubles(lambda x: pc.round(x, 0, "half_to_even"))


def _positive_logarithm(x: Any) -> Any:
    """``ln``: null of zero and of what is less."""
    return pc.ln(pc.if_else(pc.less_equal(x, 0.0), pa.scalar(None, DOUBLE), x))


ln = of_doubles(_positive_logarithm)

atan2 = of_doubles(lambda y, x: pc.atan2(pc.add(y, 0.0), pc.add(x, 0.0)))
"""Spark adds zero, so that a negative zero counts as a positive one."""


def _power(x: Any, y: Any) -> Any:
    """As Java, where 1 to the power of NaN, and 1 or -1 to that of an infinity, are NaN."""
    undefined = pc.and_(pc.equal(pc.abs(x), 1.0), pc.invert(pc.is_finite(y)))
    return pc.if_else(undefined, math.nan, pc.power(x, y))


power = of_doubles(_power)


def mod(left: BoundNode, right: BoundNode) -> BoundNode:
    type_ = common_type_of([left.type, right.type])
    if type_ not in INTEGERS:
        return no_arrow_form("mod() of fractions", NULL if type_ is None or is_decimal(type_) else type_)
    return remainder(left, right, type_)


def least(*parts: BoundNode) -> BoundNode:
    return _extreme("<", "least", parts)


def greatest(*parts: BoundNode) -> BoundNode:
    return _extreme(">", "greatest", parts)


def _extreme(operator: str, name: str, parts: tuple[BoundNode, ...]) -> BoundNode:
    """The value that comes before all others by an operator; nulls are passed over, NaN is the largest number."""
    type_ = common_type_of([part.type for part in parts])
    if type_ is None or type_ not in ATOMIC:
        return b.or_unknown(no_arrow_form(f"{name}() of {'these' if type_ is None else type_name(type_)}", type_ or NULL), *parts)
    values = [cast(part, type_) for part in parts]
    slot = [b.column(side, type_) for side in ("best", "next")]
    better = either(is_null(slot[0]), compare(operator, slot[1], slot[0], type_))
    choice = case([either(is_null(slot[1]), negate(better))], [slot[0]], slot[1], type_)

    def run(rows: ActiveRows) -> Any:
        found = [value.run(rows) for value in values if value.run is not None]
        best = found[0]
        for one in found[1:]:
            assert choice.run is not None
            best = choice.run(ActiveRows({"best": best, "next": one}, rows.length))
        return best

    return b.or_unknown(b.lazily(type_, run, *values), *parts)
