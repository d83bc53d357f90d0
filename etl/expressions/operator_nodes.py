"""Binds the operators of a syntax tree: comparisons, arithmetic, logic, ``in``, ``between``, ``like``, ``rlike``, ``||``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import TIMESTAMP, format_type
from etl.expressions import arithmetic, hints, logic
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import bit_calls, conditional_calls, regex_calls, text_calls, time_calls
from etl.expressions.calls.arguments import MisuseError, as_text
from etl.expressions.casts import cast
from etl.expressions.intervals import micros_of
from etl.expressions.patterns.like import like
from etl.expressions.signatures.derived_types import derive_type
from etl.expressions.signatures.lookup import operator_type
from etl.expressions.values import texts
from etl.expressions.widening import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATS,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    common_type_of,
    decimal_of,
    decimal_result,
    is_decimal,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from etl.expressions.binder import Binder


def bind_comparison(operator: str) -> Callable[[Binder, Node], BoundNode]:
    def bind(binder: Binder, node: Node) -> BoundNode:
        joined = hints.joined_conditions(node)
        if joined is not None:
            binder.report("bad-expression", "'||' joins texts in Spark SQL", joined, "between conditions write or")
            return b.spark_only("a comparison with a condition", BOOLEAN)
        left, right = binder.bind(node.this), binder.bind(node.expression)
        if operator != "<=>":
            _warn_of_constants(binder, node, left, right)
        return conditional_calls.compare(operator, left, right)

    return bind


def _warn_of_constants(binder: Binder, node: Node, left: BoundNode, right: BoundNode) -> None:
    """Warn of a comparison with null, which is never true, and of one of two constants, which reads no field."""
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        if type(other).__name__ == "Null":
            shown = side.sql(dialect="spark")
            binder.warn("null-comparison", "a comparison with null is never true", node, f"write {shown} is null, or is not null")
            return
        if left.is_literal and right.is_literal and side.args.get("is_string") and side.name in binder.schema.names:
            binder.warn("text-not-field", f"{side.name!r} in quotes is a text, and not the field", side, "leave out the quotes")
            return


def bind_arithmetic(
    build: Callable[[str, BoundNode, BoundNode, pa.DataType], BoundNode], operator: str
) -> Callable[[Binder, Node], BoundNode]:
    def bind(binder: Binder, node: Node) -> BoundNode:
        left, right = binder.bind(node.this), binder.bind(node.expression)
        shifted = _shifted_time(operator, node, left, right)
        if shifted is not None:
            return shifted
        if operator in "+-" and left.type == STRING and micros_of(node.expression) is not None:
            return b.spark_only("a text and an interval have no Arrow form", STRING)
        known = _type_beside_null(operator, left, right) or _decimal_type(operator, left, right)
        known = known or operator_type(f"operator {operator}", left, right)
        if operator == "+" and STRING in (left.type, right.type):
            _check_plus(node, left, right)
        type_ = common_type_of([left.type, right.type])
        if operator == "/" and type_ in INTEGERS:  # a text beside a whole number has to be one too
            left, right = (cast(side, type_) if side.type == STRING else side for side in (left, right))
            type_ = DOUBLE
        if type_ not in (*INTEGERS, *FLOATS):
            return b.spark_only(_no_arithmetic(operator, left, right), known)
        made = build(operator, left, right, type_)
        return made if operator == "div" else b.or_unknown(made, left, right)

    return bind


def _shifted_time(operator: str, node: Node, left: BoundNode, right: BoundNode) -> BoundNode | None:
    """A time and an interval of a fixed length; None for other operands."""
    sides = [(left, node.expression)] if operator == "-" else [(left, node.expression), (right, node.this)]
    for time, other in sides if operator in "+-" else ():
        micros = micros_of(other)
        if micros is not None and (time.type == TIMESTAMP or (time.type == DATE and micros[1])):
            return time_calls.add_micros(time, -micros[0] if operator == "-" else micros[0])
    return None


def _decimal_type(operator: str, left: BoundNode, right: BoundNode) -> pa.DataType | None:
    """The type of a result of decimals; None for other operands, and for ``div``."""
    sides = [_decimal_of(side) for side in (left, right)]
    is_known = None not in sides and any(is_decimal(side.type) for side in (left, right))
    return decimal_result(operator, *sides) if is_known and operator != "div" else None


def _type_beside_null(operator: str, left: BoundNode, right: BoundNode) -> pa.DataType | None:
    """The type of an operation with null, which is taken for a value of the other operand's type; None for other operands, and
    for whole numbers and floats."""
    nulls = [side.is_literal and side.value is None for side in (left, right)]
    other = right.type if nulls[0] else left.type
    if not any(nulls) or operator == "div":
        return None
    if is_decimal(other):
        return DOUBLE if operator == "/" and nulls[0] else decimal_result(operator, other, other)
    if operator == "+" and other in (DATE, TIMESTAMP):
        return TIMESTAMP
    return DOUBLE if all(nulls) else None


def _decimal_of(side: BoundNode) -> pa.DataType | None:
    """The decimal type of an operand; that of a literal has only the digits that it needs."""
    if side.is_literal and side.type in INTEGERS:
        return pa.decimal128(len(str(abs(side.value))), 0)
    return decimal_of(side.type) if is_decimal(side.type) or side.type in INTEGERS else None


def _check_plus(node: Node, left: BoundNode, right: BoundNode) -> None:
    """Raise MisuseError for ``'a' + n``: Spark casts the text to a number, which always fails if the text is not one."""
    for side, bound in ((node.this, left), (node.expression, right)):
        if bound.is_literal and bound.type == STRING and not _is_number_text(bound.value):
            hint = f"to join texts: {node.this.sql(dialect='spark')} || {node.expression.sql(dialect='spark')}"
            raise MisuseError(f"'+' adds numbers, and {side.name!r} is not a number", hint=hint)


def _is_number_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _no_arithmetic(operator: str, left: BoundNode, right: BoundNode) -> str:
    if left.reason or right.reason:
        return left.reason or right.reason or ""
    if is_decimal(left.type) or is_decimal(right.type):
        return "decimals are computed by Spark (1.5 is one; 1.5D or 1.5e0 is a double)"
    return f"{format_type(left.type)} {operator} {format_type(right.type)} has no Arrow form"


def whole_division(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    return (
        arithmetic.whole_divide(left, right) if type_ in INTEGERS else b.spark_only("'div' of fractions has no Arrow form", INT64)
    )


def bind_connective(combine: Callable[..., BoundNode]) -> Callable[[Binder, Node], BoundNode]:
    return lambda binder, node: combine(*(binder.bind_condition(part) for part in node.flatten()))


def bind_is(binder: Binder, node: Node) -> BoundNode:
    value, kind = binder.bind(node.this), type(node.expression).__name__
    if kind == "Null":
        return logic.is_null(value)
    if kind == "Boolean":
        return conditional_calls.compare("<=>", value, b.literal(node.expression.this, BOOLEAN))
    return binder.bind_spark_only(node)


def bind_in(binder: Binder, node: Node) -> BoundNode:
    if not node.expressions:
        return binder.bind_spark_only(node)
    value, items = binder.bind(node.this), [binder.bind(item) for item in node.expressions]
    several = list({(item.type, item.is_literal): item for item in items}.values())
    for item in several:
        operator_type("operator in", value, item)
        operator_type("operator in", several[0], item)
    return logic.one_of(value, items) or b.spark_only("'in' of values of these types has no Arrow form", BOOLEAN)


def bind_between(binder: Binder, node: Node) -> BoundNode:
    value, low, high = (binder.bind(node.args[name]) for name in ("this", "low", "high"))
    if node.args.get("symmetric"):
        return b.spark_only("between symmetric has no Arrow form", BOOLEAN)
    return logic.both(conditional_calls.compare(">=", value, low), conditional_calls.compare("<=", value, high))


def bind_like(binder: Binder, node: Node, escape: str = "\\") -> BoundNode:
    value = binder.bind(node.this)
    operator_type("operator like", value, b.literal("", STRING))
    if type(node.expression).__name__ not in ("Literal", "RawString"):
        binder.bind(node.expression)
        return b.spark_only("LIKE with a computed pattern or a list has no Arrow form", BOOLEAN)
    pattern = node.expression.this
    if "*" in pattern and not re.search("[%_]", pattern):
        binder.warn(
            "glob-in-like", f"in {pattern!r} the '*' is a letter like others", node, f"write {pattern.replace('*', '%')!r}"
        )
    if type(node).__name__ == "ILike":  # in Spark too, both sides in lower case
        value, pattern = text_calls.text_function(texts.lower)(value), pattern.lower()
    try:
        kernel = like(pattern, escape)
    except ValueError as error:
        raise MisuseError(f"LIKE {node.expression.this!r}: {error}", "bad-pattern") from error
    return b.apply_failing(BOOLEAN, kernel, as_text(value))


def bind_escape(binder: Binder, node: Node) -> BoundNode:
    if type(node.this).__name__ not in ("Like", "ILike") or len(node.expression.name) != 1:
        return binder.bind_spark_only(node)
    found = bind_like(binder, node.this, node.expression.name)
    return logic.negate(found) if node.this.args.get("negate") else found


def bind_concatenation(binder: Binder, node: Node) -> BoundNode:
    left, right = binder.bind(node.this), binder.bind(node.expression)
    operator_type("operator ||", left, right)
    joined = text_calls.concat(left, right)
    return replace(joined, type=derive_type("concat", (left, right)) or joined.type) if joined.unknown else joined


def bind_rlike(binder: Binder, node: Node) -> BoundNode:
    value, pattern = binder.bind(node.this), binder.bind(node.expression)
    operator_type("operator rlike", value, pattern)
    return regex_calls.rlike(value, pattern)


def bind_element(binder: Binder, node: Node) -> BoundNode:
    """``tags[0]``, ``labels['app']``."""
    value, *index = [binder.bind(part) for part in node.iter_expressions()]
    if len(index) != 1:
        return b.spark_only("reading an element has no Arrow form")
    operator_type("operator []", value, *index)
    type_ = value.type.value_type if pa.types.is_list(value.type) else NULL
    return b.spark_only("reading an element has no Arrow form", value.type.item_type if pa.types.is_map(value.type) else type_)


def bind_bits(operator: str) -> Callable[[Binder, Node], BoundNode]:
    """An operator of bits."""

    def bind(binder: Binder, node: Node) -> BoundNode:
        operands = [binder.bind(part) for part in node.iter_expressions()]
        known = operator_type(f"operator {operator}", *operands)
        made = bit_calls.invert(*operands) if operator == "~" else bit_calls.combine(operator, *operands)
        return made or b.spark_only(f"{operator!r} of these has no Arrow form", known)

    return bind


def bind_shift(name: str) -> Callable[[Binder, Node], BoundNode]:
    """``<<`` and ``>>``, which are functions, too."""
    return lambda binder, node: binder.bind_function(name, node, [binder.bind(part) for part in (node.this, node.expression)])


def bind_position(binder: Binder, node: Node) -> BoundNode:
    """``position('a' in s)``."""
    parts = [node.args.get(name) for name in ("substr", "this", "position")]
    return binder.bind_function("locate", node, [binder.bind(part) for part in parts if part is not None])
