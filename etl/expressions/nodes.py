"""Binds the nodes of a syntax tree: one function for each kind of node."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import format_type, parse_type
from etl.expressions import arithmetic, conditional_calls, hints, logic, regex_calls, text_calls, texts
from etl.expressions import bound_node as b
from etl.expressions.arguments import MisuseError, as_text
from etl.expressions.bound_node import BoundNode
from etl.expressions.casts import cast
from etl.expressions.like_patterns import like
from etl.expressions.signatures import castable, operator_type
from etl.expressions.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.expressions.widening import (
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    common_type_of,
    is_decimal,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from etl.expressions.binder import Binder


def _dot(binder: Binder, node: Node) -> BoundNode:
    inner = node
    while type(inner).__name__ == "Dot" and type(inner.expression).__name__ == "Identifier":
        inner = inner.this
    if type(inner).__name__ == "Column":
        return binder.column(node)
    method = hints.method_hint(node, SPARK_FUNCTIONS)
    if method:
        raise MisuseError("a function is not called behind a dot", "bad-expression", method)
    return binder.foreign(node)


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


def _check_plus(node: Node, left: BoundNode, right: BoundNode) -> None:
    """Raise MisuseError for ``'a' + n``: Spark casts the text to a number, which always fails if it is none."""
    for side, bound in ((node.this, left), (node.expression, right)):
        if bound.is_literal and bound.type == STRING and not _is_number_text(bound.value):
            hint = f"to join texts: {node.this.sql(dialect='spark')} || {node.expression.sql(dialect='spark')}"
            raise MisuseError(f"'+' adds numbers, and {side.name!r} is none", hint=hint)


def _is_number_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _negative(binder: Binder, node: Node) -> BoundNode:
    if type(node.this).__name__ == "Literal" and not node.this.args.get("is_string"):
        return _number_literal(f"-{node.this.this}")
    value = binder.bind(node.this)
    if value.type in (*INTEGERS, *FLOATS):
        return arithmetic.negate(value)
    return b.spark_only("minus of this type has no Arrow form", operator_type("operator negative", value))


def _comparison(operator: str) -> Callable[[Binder, Node], BoundNode]:
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


def _arithmetic(
    build: Callable[[str, BoundNode, BoundNode, pa.DataType], BoundNode], operator: str
) -> Callable[[Binder, Node], BoundNode]:
    def bind(binder: Binder, node: Node) -> BoundNode:
        left, right = binder.bind(node.this), binder.bind(node.expression)
        known = operator_type(f"operator {operator}", left, right)
        if operator == "+" and STRING in (left.type, right.type):
            _check_plus(node, left, right)
        type_ = common_type_of([left.type, right.type])
        if operator == "/" and type_ in INTEGERS:  # a text beside a whole number has to be one too
            left, right = (cast(side, type_) if side.type == STRING else side for side in (left, right))
            type_ = DOUBLE
        if type_ not in (*INTEGERS, *FLOATS):
            return b.spark_only(_no_arithmetic(operator, left, right), known)
        made = build(operator, left, right, type_)
        return made if operator in ("/", "div") else b.or_unknown(made, left, right)

    return bind


def _no_arithmetic(operator: str, left: BoundNode, right: BoundNode) -> str:
    if left.reason or right.reason:
        return left.reason or right.reason or ""
    if is_decimal(left.type) or is_decimal(right.type):
        return "decimals are computed by Spark (1.5 is one; 1.5D or 1.5e0 is a double)"
    return f"{format_type(left.type)} {operator} {format_type(right.type)} has no Arrow form"


def _whole_division(operator: str, left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    return (
        arithmetic.whole_divide(left, right) if type_ in INTEGERS else b.spark_only("'div' of fractions has no Arrow form", INT64)
    )


def _connective(combine: Callable[..., BoundNode]) -> Callable[[Binder, Node], BoundNode]:
    return lambda binder, node: combine(*(binder.condition(part) for part in node.flatten()))


def _is(binder: Binder, node: Node) -> BoundNode:
    value, wanted = binder.bind(node.this), type(node.expression).__name__
    if wanted == "Null":
        return logic.is_null(value)
    if wanted == "Boolean":
        return conditional_calls.compare("<=>", value, b.literal(node.expression.this, BOOLEAN))
    return binder.foreign(node)


def _in(binder: Binder, node: Node) -> BoundNode:
    if not node.expressions:
        return binder.foreign(node)
    value, items = binder.bind(node.this), [binder.bind(item) for item in node.expressions]
    several = list({(item.type, item.is_literal): item for item in items}.values())
    for item in several:
        operator_type("operator in", value, item)
        operator_type("operator in", several[0], item)
    return logic.one_of(value, items) or b.spark_only("'in' of values of these types has no Arrow form", BOOLEAN)


def _between(binder: Binder, node: Node) -> BoundNode:
    value, low, high = (binder.bind(node.args[name]) for name in ("this", "low", "high"))
    if node.args.get("symmetric"):
        return b.spark_only("between symmetric has no Arrow form", BOOLEAN)
    return logic.both(conditional_calls.compare(">=", value, low), conditional_calls.compare("<=", value, high))


def _like(binder: Binder, node: Node, escape: str = "\\") -> BoundNode:
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


def _escape(binder: Binder, node: Node) -> BoundNode:
    if type(node.this).__name__ not in ("Like", "ILike") or len(node.expression.name) != 1:
        return binder.foreign(node)
    found = _like(binder, node.this, node.expression.name)
    return logic.negated(found) if node.this.args.get("negate") else found


def _joined(binder: Binder, node: Node) -> BoundNode:
    left, right = binder.bind(node.this), binder.bind(node.expression)
    operator_type("operator ||", left, right)
    return text_calls.concat(left, right)


def _case(binder: Binder, node: Node) -> BoundNode:
    subject = binder.bind(node.this) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this) if subject else binder.condition(branch.this, accepted=(BOOLEAN,))
        conditions.append(conditional_calls.compare("=", subject, when) if subject else when)
        values.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    return conditional_calls.choose(conditions, values, binder.bind(default) if default else b.literal(None, NULL))


def _if(binder: Binder, node: Node) -> BoundNode:
    condition = binder.condition(node.this, accepted=(BOOLEAN, NULL))
    taken, other = node.args["true"], node.args.get("false")
    return conditional_calls.if_(condition, binder.bind(taken), binder.bind(other) if other else None)


def _cast(binder: Binder, node: Node) -> BoundNode:
    value = binder.bind(node.this)
    try:
        target = parse_type(node.args["to"].sql(dialect="spark").lower())
    except ValueError:
        return b.spark_only(f"cast to {node.args['to'].sql(dialect='spark').lower()} has no Arrow form")
    if not castable(value, target, safe=bool(node.args.get("safe"))):
        raise MisuseError(f"Spark does not cast {format_type(value.type)} to {format_type(target)}")
    return cast(value, target, safe=bool(node.args.get("safe")))


def _trim(binder: Binder, node: Node) -> BoundNode:
    if node.args.get("expression") or node.args.get("collation"):
        return binder.foreign(node)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return binder.function(name, node, [binder.bind(node.this)])


def _substring(binder: Binder, node: Node) -> BoundNode:
    args = [node.args.get(name) for name in ("this", "start", "length")]
    return binder.function("substring", node, [binder.bind(argument) for argument in args if argument is not None])


def _extract(binder: Binder, node: Node) -> BoundNode:
    name = node.this.name.lower()
    value = binder.bind(node.expression)
    if name not in ("year", "quarter", "month", "day", "hour", "minute"):
        return b.spark_only(f"extract({name}) has no Arrow form")
    return binder.function(name, node, [value])


def _rlike(binder: Binder, node: Node) -> BoundNode:
    value, pattern = binder.bind(node.this), binder.bind(node.expression)
    operator_type("operator rlike", value, pattern)
    return regex_calls.rlike(value, pattern)


def _element(binder: Binder, node: Node) -> BoundNode:
    """``tags[0]``, ``labels['app']``."""
    value, *index = [binder.bind(part) for part in node.iter_expressions()]
    if len(index) != 1:
        return b.spark_only("reading an element has no Arrow form")
    operator_type("operator []", value, *index)
    type_ = value.type.value_type if pa.types.is_list(value.type) else NULL
    return b.spark_only("reading an element has no Arrow form", value.type.item_type if pa.types.is_map(value.type) else type_)


def _operator(sign: str) -> Callable[[Binder, Node], BoundNode]:
    """An operator that only Spark computes."""

    def bind(binder: Binder, node: Node) -> BoundNode:
        operands = [binder.bind(part) for part in node.iter_expressions()]
        return b.spark_only(f"{sign!r} has no Arrow form", operator_type(f"operator {sign}", *operands))

    return bind


NODES: dict[str, Callable[[Binder, Node], BoundNode]] = {
    "Column": lambda binder, node: binder.column(node),
    "Dot": _dot,
    "Literal": _literal,
    "RawString": lambda binder, node: b.literal(node.this, STRING),
    "Boolean": lambda binder, node: b.literal(node.this, BOOLEAN),
    "Null": lambda binder, node: b.literal(None, NULL),
    "Paren": lambda binder, node: binder.bind(node.this),
    "And": _connective(logic.both),
    "Or": _connective(logic.either),
    "Not": lambda binder, node: logic.negated(binder.condition(node.this)),
    "EQ": _comparison("="),
    "NEQ": _comparison("<>"),
    "LT": _comparison("<"),
    "LTE": _comparison("<="),
    "GT": _comparison(">"),
    "GTE": _comparison(">="),
    "NullSafeEQ": _comparison("<=>"),
    "Is": _is,
    "In": _in,
    "Between": _between,
    "Like": _like,
    "ILike": _like,
    "Escape": _escape,
    "RegexpLike": _rlike,
    "Bracket": _element,
    "BitwiseAnd": _operator("&"),
    "BitwiseOr": _operator("|"),
    "BitwiseXor": _operator("^"),
    "BitwiseNot": _operator("~"),
    "Identifier": lambda binder, node: binder.variable(node),
    "Case": _case,
    "If": _if,
    "Add": _arithmetic(arithmetic.add_like, "+"),
    "Sub": _arithmetic(arithmetic.add_like, "-"),
    "Mul": _arithmetic(arithmetic.add_like, "*"),
    "Div": _arithmetic(lambda operator, left, right, type_: arithmetic.divide(left, right), "/"),
    "IntDiv": _arithmetic(_whole_division, "div"),
    "Mod": _arithmetic(lambda operator, left, right, type_: arithmetic.remainder(left, right, type_), "%"),
    "Neg": _negative,
    "DPipe": _joined,
    "Concat": lambda binder, node: text_calls.concat(*(binder.bind(part) for part in node.expressions)),
    "Cast": _cast,
    "TryCast": _cast,
    "Trim": _trim,
    "Substring": _substring,
    "Extract": _extract,
    "Anonymous": lambda binder, node: binder.call(node),
}
