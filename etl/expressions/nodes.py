"""Binds the nodes of a syntax tree: a function for each kind of node; those of operators are in `operator_nodes`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import format_type, parse_type
from etl.expressions import arithmetic, hints, logic
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import conditional_calls, text_calls
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.casts import cast
from etl.expressions.operator_nodes import (
    bind_arithmetic,
    bind_between,
    bind_bits,
    bind_comparison,
    bind_concatenation,
    bind_connective,
    bind_element,
    bind_escape,
    bind_in,
    bind_is,
    bind_like,
    bind_position,
    bind_rlike,
    bind_shift,
    whole_division,
)
from etl.expressions.signatures.lookup import castable, operator_type
from etl.expressions.signatures.refused_functions import refuse
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.expressions.widening import (
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NULL,
    STRING,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from etl.expressions.binder import Binder


def _dot(binder: Binder, node: Node) -> BoundNode:
    inner, parts = node, list[Any]()
    while type(inner).__name__ == "Dot" and type(inner.expression).__name__ == "Identifier":
        inner, parts = inner.this, [inner.expression, *parts]
    if type(inner).__name__ == "Column":
        return binder.bind_column(node)
    method = hints.method_hint(node, SPARK_FUNCTIONS)
    if method:
        raise MisuseError("a function is not called after a dot", "bad-expression", method)
    return binder.bind_member(inner, parts) if parts else binder.bind_spark_only(node)


def _type_as_value(binder: Binder, node: Node) -> BoundNode:
    shown = node.sql(dialect="spark").lower()
    raise MisuseError(
        f"{shown} is a type, and a value is needed", "bad-expression", f"to give a value this type: cast(value as {shown})"
    )


def _literal(binder: Binder, node: Node) -> BoundNode:
    return b.literal(node.this, STRING) if node.args.get("is_string") else _number_literal(node.this)


def _number_literal(text: str) -> BoundNode:
    if "e" in text.lower():
        return b.literal(float(text), DOUBLE)
    if "." not in text:
        number = int(text)
        for type_ in (INT32, INT64):
            low, high = -(1 << (type_.bit_width - 1)), (1 << (type_.bit_width - 1)) - 1
            if low <= number <= high:
                return b.literal(number, type_)
    value = Decimal(text)
    digits = len(value.as_tuple().digits)
    scale = -int(value.as_tuple().exponent)
    if max(digits, scale) > 38:
        raise MisuseError(f"{text} has more than 38 digits")
    return b.literal(value, pa.decimal128(max(digits, scale), scale))


def _negative(binder: Binder, node: Node) -> BoundNode:
    if type(node.this).__name__ == "Literal" and not node.this.args.get("is_string"):
        return _number_literal(f"-{node.this.this}")
    value = binder.bind(node.this)
    if value.type in (*INTEGERS, *FLOATS):
        return arithmetic.negate(value)
    type_ = DOUBLE if value.is_literal and value.value is None else operator_type("operator negative", value)
    return b.spark_only("minus of this type has no Arrow form", type_)


def _case(binder: Binder, node: Node) -> BoundNode:
    subject = binder.bind(node.this) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this) if subject else binder.bind_condition(branch.this, accepted=(BOOLEAN,))
        conditions.append(conditional_calls.compare("=", subject, when) if subject else when)
        values.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    return conditional_calls.choose(conditions, values, binder.bind(default) if default else b.literal(None, NULL))


def _if(binder: Binder, node: Node) -> BoundNode:
    condition = binder.bind_condition(node.this, accepted=(BOOLEAN, NULL))
    taken, other = node.args["true"], node.args.get("false")
    if other is None:
        raise MisuseError("if() takes 3 arguments, and here are 2", hint="the third is the value where the condition is false")
    return conditional_calls.if_(condition, binder.bind(taken), binder.bind(other))


def _cast(binder: Binder, node: Node) -> BoundNode:
    value = binder.bind(node.this)
    if getattr(node.args["to"].this, "name", "") == "TIME":  # which is written as TIMESTAMP
        refuse("time")
    try:
        target = parse_type(node.args["to"].sql(dialect="spark").lower())
    except ValueError:
        return b.spark_only(f"cast to {node.args['to'].sql(dialect='spark').lower()} has no Arrow form")
    if not castable(value, target, safe=bool(node.args.get("safe"))):
        raise MisuseError(f"Spark does not cast {format_type(value.type)} to {format_type(target)}")
    return cast(value, target, safe=bool(node.args.get("safe")))


def _trim(binder: Binder, node: Node) -> BoundNode:
    if node.args.get("expression") or node.args.get("collation"):
        return binder.bind_spark_only(node)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return binder.bind_function(name, node, [binder.bind(node.this)])


def _substring(binder: Binder, node: Node) -> BoundNode:
    args = [node.args.get(name) for name in ("this", "start", "length")]
    return binder.bind_function("substring", node, [binder.bind(argument) for argument in args if argument is not None])


def _extract(binder: Binder, node: Node) -> BoundNode:
    name = node.this.name.lower()
    value = binder.bind(node.expression)
    if name not in ("year", "quarter", "month", "day", "hour", "minute"):
        return b.spark_only(f"extract({name}) has no Arrow form")
    return binder.bind_function(name, node, [value])


NODES: dict[str, Callable[[Binder, Node], BoundNode]] = {
    "Column": lambda binder, node: binder.bind_column(node),
    "Dot": _dot,
    "Literal": _literal,
    "RawString": lambda binder, node: b.literal(node.this, STRING),
    "Boolean": lambda binder, node: b.literal(node.this, BOOLEAN),
    "Null": lambda binder, node: b.literal(None, NULL),
    "Paren": lambda binder, node: binder.bind(node.this),
    "And": bind_connective(logic.both),
    "Or": bind_connective(logic.either),
    "Not": lambda binder, node: logic.negate(binder.bind_condition(node.this)),
    "EQ": bind_comparison("="),
    "NEQ": bind_comparison("<>"),
    "LT": bind_comparison("<"),
    "LTE": bind_comparison("<="),
    "GT": bind_comparison(">"),
    "GTE": bind_comparison(">="),
    "NullSafeEQ": bind_comparison("<=>"),
    "Is": bind_is,
    "In": bind_in,
    "Between": bind_between,
    "Like": bind_like,
    "ILike": bind_like,
    "Escape": bind_escape,
    "RegexpLike": bind_rlike,
    "Bracket": bind_element,
    "BitwiseAnd": bind_bits("&"),
    "BitwiseOr": bind_bits("|"),
    "BitwiseXor": bind_bits("^"),
    "BitwiseNot": bind_bits("~"),
    "BitwiseLeftShift": bind_shift("shiftleft"),
    "BitwiseRightShift": bind_shift("shiftright"),
    "StrPosition": bind_position,
    "Identifier": lambda binder, node: binder.bind_variable(node),
    "Case": _case,
    "If": _if,
    "Add": bind_arithmetic(arithmetic.add_like, "+"),
    "Sub": bind_arithmetic(arithmetic.add_like, "-"),
    "Mul": bind_arithmetic(arithmetic.add_like, "*"),
    "Div": bind_arithmetic(lambda operator, left, right, type_: arithmetic.divide(left, right), "/"),
    "IntDiv": bind_arithmetic(whole_division, "div"),
    "Mod": bind_arithmetic(lambda operator, left, right, type_: arithmetic.remainder(left, right, type_), "%"),
    "Neg": _negative,
    "DPipe": bind_concatenation,
    "Concat": lambda binder, node: text_calls.concat(*(binder.bind(part) for part in node.expressions)),
    "Cast": _cast,
    "TryCast": _cast,
    "Trim": _trim,
    "Substring": _substring,
    "Extract": _extract,
    "Anonymous": lambda binder, node: binder.bind_call(node),
    "DataType": _type_as_value,
}
