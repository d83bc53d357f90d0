"""Syntax tree → bound nodes: names resolved against the schema, types derived, Arrow forms chosen."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import Finding, Schema, format_type, nearest, parse_type, visible
from etl.expressions import arithmetic, functions, logic, texts
from etl.expressions import bound as b
from etl.expressions.bound import Bound
from etl.expressions.casts import cast
from etl.expressions.functions import FUNCTIONS, MisuseError
from etl.expressions.spark_names import AGGREGATES
from etl.expressions.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.expressions.tree import start
from etl.expressions.widening import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    common_type_of,
    is_decimal,
    is_number,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


class Binder:
    """Binds one expression; what it finds on the way is kept."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.findings: list[Finding] = []
        self.fields: set[str] = set()
        self.edits: list[tuple[int, int, str]] = []
        """Spans of the text (end included) and the names Spark reads there."""
        self._lower: dict[str, str] = {}
        for name in reversed(schema.names):
            self._lower[name.lower()] = name

    def bind(self, node: Node) -> Bound:
        """The node with everything below it."""
        build = _NODES.get(type(node).__name__)
        try:
            bound = self.foreign(node) if build is None else build(self, node)
        except MisuseError as error:
            self.report(error.code, str(error), node)
            return b.spark_only(str(error))
        return logic.negated(bound) if node.args.get("negate") else bound

    def foreign(self, node: Node) -> Bound:
        """A node that only Spark knows: its parts are looked at for the names in them."""
        for child in node.iter_expressions():
            self.bind(child)
        return b.spark_only(f"{_shown(node)} has no Arrow form")

    def report(self, code: str, message: str, node: Node, hint: str | None = None) -> None:
        self.findings.append(Finding(code, message, hint=hint, at=start(node)))

    def condition(self, node: Node, accepted: tuple[pa.DataType, ...] = (BOOLEAN, STRING, NULL)) -> Bound:
        """A node where Spark wants a boolean; ``and``, ``or`` and ``not`` take a text or null too."""
        bound = self.bind(node)
        if bound.type in accepted or (bound.type == NULL and not bound.is_literal):
            return cast(bound, BOOLEAN)
        self.report("wrong-type", f"a condition is needed, and this is {format_type(bound.type)}", node)
        return b.spark_only("not a condition", BOOLEAN)

    # ── Names ─────────────────────────────────────────────────────────────────────────────────────

    def column(self, node: Node) -> Bound:
        parts = list(_path(node))
        for count in range(len(parts), 0, -1):
            name = self.resolve(".".join(part.name for part in parts[:count]))
            if name is None or (count < len(parts) and not _has_members(self.schema.field(name).type)):
                continue
            self.fields.add(name)
            self.edits.append((parts[0].meta["start"], parts[count - 1].meta["end"], f"`{name.replace('`', '``')}`"))
            if count < len(parts):
                return b.spark_only(f"{'.'.join(part.name for part in parts)} reads inside a map or list")
            return b.column(name, self.schema.field(name).type)
        return self._unknown_field(".".join(part.name for part in parts), node)

    def resolve(self, name: str) -> str | None:
        """The field of this name: as written, else in another case."""
        return name if name in self.schema.names else self._lower.get(name.lower())

    def _unknown_field(self, name: str, node: Node) -> Bound:
        names = visible(self.schema).names
        members = [other for other in names if other.lower().startswith(f"{name.lower()}.")]
        if members:
            hint: str | None = f"its members are fields: {', '.join(members[:5])}"
        else:
            hint = nearest(name, names) or (f"fields here: {', '.join(names[:20])}" if names else None)
        self.report("unknown-field", f"there is no field {name!r} here", node, hint)
        return b.spark_only(f"there is no field {name!r}")

    # ── Calls ─────────────────────────────────────────────────────────────────────────────────────

    def call(self, node: Node) -> Bound:
        name = str(node.this).lower()
        return self.function(name, node, [self.bind(argument) for argument in node.expressions])

    def function(self, name: str, node: Node, args: list[Bound]) -> Bound:
        """A call of a function by its name."""
        if name in AGGREGATES:
            raise MisuseError(f"{name}() is about many events, and this expression sees one; use a window", "bad-expression")
        if name not in FUNCTIONS:
            if name not in SPARK_FUNCTIONS:
                hint = nearest(name, SPARK_FUNCTIONS | set(FUNCTIONS))
                self.report("unknown-function", f"there is no function {name!r}", node, hint)
            return b.spark_only(_WHY_SPARK.get(name, f"{name}() has no Arrow form"))
        function = FUNCTIONS[name]
        if len(args) < function.least:
            raise MisuseError(f"{name}() takes {function.least} arguments or more, and here are {len(args)}")
        if function.most is not None and len(args) > function.most:
            if name in (
                "trim",
                "ltrim",
                "rtrim",
                "btrim",
                "unix_timestamp",
                "to_unix_timestamp",
                "timestamp",
                "floor",
                "ceil",
                "ceiling",
            ):
                return b.spark_only(f"{name}() with {len(args)} arguments has no Arrow form")
            raise MisuseError(f"{name}() takes at most {function.most} arguments, and here are {len(args)}")
        return function.build(*args)


_WHY_SPARK = dict.fromkeys(
    ("now", "current_timestamp", "current_date", "localtimestamp", "curdate"),
    "the current time must be the same when a micro-batch is repeated, and only Spark records it",
)


def _shown(node: Node) -> str:
    kind = type(node).__name__
    return {"Bracket": "reading an element", "Interval": "an interval", "Lambda": "a lambda"}.get(kind, kind.lower())


def _path(node: Node) -> list[Any]:
    if type(node).__name__ == "Dot":
        return [*_path(node.this), node.expression]
    return list(getattr(node, "parts", ()))


def _has_members(type_: pa.DataType) -> bool:
    return bool(pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_struct(type_) or pa.types.is_null(type_))


# ── One function a node ───────────────────────────────────────────────────────────────────────────


def _dot(binder: Binder, node: Node) -> Bound:
    inner = node
    while type(inner).__name__ == "Dot" and type(inner.expression).__name__ == "Identifier":
        inner = inner.this
    return binder.column(node) if type(inner).__name__ == "Column" else binder.foreign(node)


def _literal(binder: Binder, node: Node) -> Bound:
    return b.literal(node.this, STRING) if node.args.get("is_string") else _number_literal(node.this)


def _number_literal(text: str) -> Bound:
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


def _negative(binder: Binder, node: Node) -> Bound:
    if type(node.this).__name__ == "Literal" and not node.this.args.get("is_string"):
        return _number_literal(f"-{node.this.this}")
    value = binder.bind(node.this)
    if value.type in (*INTEGERS, *FLOATS):
        return arithmetic.negate(value)
    if value.type in (BOOLEAN, DATE):
        raise MisuseError(f"a number is needed, and this is {format_type(value.type)}")
    return b.spark_only("minus of this type has no Arrow form", value.type)


def _comparison(operator: str) -> Callable[[Binder, Node], Bound]:
    return lambda binder, node: functions.compare(operator, binder.bind(node.this), binder.bind(node.expression))


def _arithmetic(build: Callable[[str, Bound, Bound, pa.DataType], Bound], operator: str) -> Callable[[Binder, Node], Bound]:
    def bind(binder: Binder, node: Node) -> Bound:
        left, right = binder.bind(node.this), binder.bind(node.expression)
        for side, other in ((left, right), (right, left)):
            if side.type == BOOLEAN or (side.type == STRING and other.type == STRING):
                raise MisuseError(
                    f"{operator!r} needs numbers, and here are {format_type(left.type)} and {format_type(right.type)}"
                )
        type_ = common_type_of([left.type, right.type])
        if operator == "/" and type_ in INTEGERS:  # a text beside a whole number has to be one too
            left, right = (cast(side, type_) if side.type == STRING else side for side in (left, right))
            type_ = DOUBLE
        if type_ not in (*INTEGERS, *FLOATS):
            return b.spark_only(_no_arithmetic(operator, left, right))
        return build(operator, left, right, type_)

    return bind


def _no_arithmetic(operator: str, left: Bound, right: Bound) -> str:
    if left.reason or right.reason:
        return left.reason or right.reason or ""
    if is_decimal(left.type) or is_decimal(right.type):
        return "decimals are computed by Spark (1.5 is one; 1.5D or 1.5e0 is a double)"
    return f"{format_type(left.type)} {operator} {format_type(right.type)} has no Arrow form"


def _whole_division(operator: str, left: Bound, right: Bound, type_: pa.DataType) -> Bound:
    return (
        arithmetic.whole_divide(left, right) if type_ in INTEGERS else b.spark_only("'div' of fractions has no Arrow form", INT64)
    )


def _connective(combine: Callable[..., Bound]) -> Callable[[Binder, Node], Bound]:
    return lambda binder, node: combine(*(binder.condition(part) for part in node.flatten()))


def _is(binder: Binder, node: Node) -> Bound:
    value, wanted = binder.bind(node.this), type(node.expression).__name__
    if wanted == "Null":
        return logic.is_null(value)
    if wanted == "Boolean":
        return functions.compare("<=>", value, b.literal(node.expression.this, BOOLEAN))
    return binder.foreign(node)


def _in(binder: Binder, node: Node) -> Bound:
    if not node.expressions:
        return binder.foreign(node)
    value, items = binder.bind(node.this), [binder.bind(item) for item in node.expressions]
    found = logic.one_of(value, items)
    if found is None:
        raise MisuseError(f"{format_type(value.type)} is compared with {', '.join(format_type(item.type) for item in items)}")
    return found


def _between(binder: Binder, node: Node) -> Bound:
    value, low, high = (binder.bind(node.args[name]) for name in ("this", "low", "high"))
    if node.args.get("symmetric"):
        return b.spark_only("between symmetric has no Arrow form", BOOLEAN)
    return logic.both(functions.compare(">=", value, low), functions.compare("<=", value, high))


def _like(binder: Binder, node: Node, escape: str = "\\") -> Bound:
    value = binder.bind(node.this)
    if type(node.expression).__name__ not in ("Literal", "RawString"):
        binder.bind(node.expression)
        return b.spark_only("LIKE with a computed pattern or a list has no Arrow form", BOOLEAN)
    try:
        kernel = texts.like(node.expression.this, escape)
    except ValueError as error:
        raise MisuseError(f"LIKE {node.expression.this!r}: {error}", "bad-pattern") from error
    return b.apply(BOOLEAN, kernel, functions.as_text(value))


def _escape(binder: Binder, node: Node) -> Bound:
    if type(node.this).__name__ != "Like" or len(node.expression.name) != 1:
        return binder.foreign(node)
    found = _like(binder, node.this, node.expression.name)
    return logic.negated(found) if node.this.args.get("negate") else found


def _case(binder: Binder, node: Node) -> Bound:
    subject = binder.bind(node.this) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        when = binder.bind(branch.this) if subject else binder.condition(branch.this, accepted=(BOOLEAN,))
        conditions.append(functions.compare("=", subject, when) if subject else when)
        values.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    return functions.choose(conditions, values, binder.bind(default) if default else b.literal(None, NULL))


def _if(binder: Binder, node: Node) -> Bound:
    condition = binder.condition(node.this, accepted=(BOOLEAN, NULL))
    taken, other = node.args["true"], node.args.get("false")
    return functions.if_(condition, binder.bind(taken), binder.bind(other) if other else None)


def _cast(binder: Binder, node: Node) -> Bound:
    value = binder.bind(node.this)
    try:
        target = parse_type(node.args["to"].sql(dialect="spark").lower())
    except ValueError:
        return b.spark_only(f"cast to {node.args['to'].sql(dialect='spark').lower()} has no Arrow form")
    if (value.type == DATE and is_number(target)) or (is_number(value.type) and target == DATE):
        raise MisuseError(f"Spark does not cast {format_type(value.type)} to {format_type(target)}")
    return cast(value, target, safe=bool(node.args.get("safe")))


def _trim(binder: Binder, node: Node) -> Bound:
    if node.args.get("expression") or node.args.get("collation"):
        return binder.foreign(node)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return binder.function(name, node, [binder.bind(node.this)])


def _substring(binder: Binder, node: Node) -> Bound:
    args = [node.args.get(name) for name in ("this", "start", "length")]
    return binder.function("substring", node, [binder.bind(argument) for argument in args if argument is not None])


def _extract(binder: Binder, node: Node) -> Bound:
    name = node.this.name.lower()
    value = binder.bind(node.expression)
    if name not in ("year", "quarter", "month", "day", "hour", "minute"):
        return b.spark_only(f"extract({name}) has no Arrow form")
    return binder.function(name, node, [value])


_NODES: dict[str, Callable[[Binder, Node], Bound]] = {
    "Column": Binder.column,
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
    "Escape": _escape,
    "RegexpLike": lambda binder, node: functions.rlike(binder.bind(node.this), binder.bind(node.expression)),
    "Case": _case,
    "If": _if,
    "Add": _arithmetic(arithmetic.add_like, "+"),
    "Sub": _arithmetic(arithmetic.add_like, "-"),
    "Mul": _arithmetic(arithmetic.add_like, "*"),
    "Div": _arithmetic(lambda operator, left, right, type_: arithmetic.divide(left, right), "/"),
    "IntDiv": _arithmetic(_whole_division, "div"),
    "Mod": _arithmetic(lambda operator, left, right, type_: arithmetic.remainder(left, right, type_), "%"),
    "Neg": _negative,
    "DPipe": lambda binder, node: functions.concat(binder.bind(node.this), binder.bind(node.expression)),
    "Concat": lambda binder, node: functions.concat(*(binder.bind(part) for part in node.expressions)),
    "Cast": _cast,
    "TryCast": _cast,
    "Trim": _trim,
    "Substring": _substring,
    "Extract": _extract,
    "Anonymous": Binder.call,
}
