"""Expressions of scripts → Spark SQL over fields of the pipeline, with the meaning that Flink gives to its functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from etl.expressions.library.catalogue import script_function
from etl.expressions.quoting import quoted, quoted_text
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.rsql.script_names import library_name
from etl.sql.columns import Scope, SqlColumn, parts_of
from etl.sql.own_functions import own_function
from etl.sql.statements import UNITS, ScriptError, start

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

__all__ = ["AGGREGATES", "quoted", "quoted_text"]
AGGREGATES = frozenset(
    {"count", "sum", "avg", "min", "max", "first", "last", "first_value", "last_value", "collect", "collect_set", "stddev"}
    | {"stddev_samp", "variance", "var_samp", "count_if", "mode", "concat_agg", "listagg", "approx_count_distinct"}
    | {"percentile", "approx_percentile", "max_by", "min_by", "corr", "correlation"}
)
"""Names of aggregates in a script."""


def spark_text(node: Node, scope: Scope) -> str:
    """Spark SQL of an expression, with the columns' fields for their names. Raises ScriptError."""
    return str(_resolved(node, scope).sql(dialect="spark"))


def plain_column(node: Any, scope: Scope) -> SqlColumn | None:
    """The column that an expression is, None for any other expression. Raises ScriptError."""
    from sqlglot import exp

    if node.sql(dialect="spark").lower() in scope.aliases:
        return None
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return scope.find([part.name for part in node.parts], start(node))
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        return scope.find([part.name for part in node.parts], start(node))
    return None


def seconds_of(node: Node) -> float:
    """The seconds of ``INTERVAL '10' SECOND``, or of a sum of intervals. Raises ScriptError."""
    from sqlglot import exp

    if isinstance(node, exp.Interval):
        unit = str(node.args.get("unit") or "").upper().rstrip("S")
        try:
            amount = float(node.this.name)
        except (ValueError, AttributeError):
            amount = -1
        if unit in UNITS and amount >= 0:
            return amount * UNITS[unit]
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this) / 1000
    raise ScriptError(
        "bad-interval", f"{node.sql(dialect='spark')} is no constant time", start(node), "write INTERVAL '10' SECOND"
    )


def duration(seconds: float) -> str:
    """Seconds as an option writes them."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{round(seconds * 1000)}ms"


def is_aggregate(node: Node) -> bool:
    """Whether a node is the call of an aggregate, without OVER."""
    from sqlglot import exp

    name = call_name(node)
    own = own_function(name)
    is_one = own.form == "aggregate" if own else name in AGGREGATES
    return is_one and not isinstance(node.parent, exp.Window)


def find_aggregates(node: Node) -> list[Node]:
    """The outermost calls of aggregates in an expression; those of OVER are none."""
    from sqlglot import exp

    if isinstance(node, (exp.Window, exp.Subquery)):
        return []
    if isinstance(node, exp.Filter) or is_aggregate(node):
        return [node]
    return [found for child in node.iter_expressions() for found in find_aggregates(child)]


def call_name(node: Any) -> str:
    """The name of the function that a node calls, in lower case; empty if it calls none."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _resolved(node: Node, scope: Scope) -> Node:
    """A copy with fields for columns, and Spark's functions for others' functions."""
    from sqlglot import exp

    computed = scope.aliases.get(node.sql(dialect="spark").lower())
    if computed is not None:
        return exp.Var(this=quoted(computed))
    if isinstance(node, (exp.Column, exp.Dot)) and (parts := _path(node)):
        column = scope.find(parts, start(node))
        if not column.field:
            return exp.Var(this="current_timestamp()")
        if column.members:
            raise ScriptError(
                "struct-column", f"{column.name!r} is a ROW, and a value is needed", start(node), "name one of its members"
            )
        return exp.Var(this=quoted(column.field))
    if isinstance(node, (exp.Subquery, exp.Exists)) or (isinstance(node, exp.In) and node.args.get("query")):
        raise ScriptError("unsupported-sql", "a query cannot stand inside an expression here", start(node), "join it instead")
    if isinstance(node, exp.Window):
        raise ScriptError("unsupported-sql", "OVER stands in the list of SELECT only", start(node))
    copy = node.copy()
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            copy.set(key, _resolved(value, scope))
        elif isinstance(value, list):
            copy.set(key, [_resolved(one, scope) if isinstance(one, exp.Expression) else one for one in value])
    if isinstance(copy, exp.DataType):
        return node.copy()
    if not isinstance(copy, exp.Anonymous) or own_function(copy.name) is not None:
        return copy
    rewrite = _FUNCTIONS.get(call_name(copy))
    if rewrite:
        return rewrite(copy)
    copy.set("this", _function_name(copy.name, len(copy.expressions)))
    return copy


def _function_name(name: str, count: int) -> str:
    """The function of expressions for a name in a script; RocketMQ Streams has several names for one function."""
    found = script_function(name)
    if found != name.lower() or found in SPARK_FUNCTIONS:
        return found
    return library_name(found, count) or found


def _path(node: Any) -> list[str]:
    from sqlglot import exp

    if isinstance(node, exp.Column):
        return [] if isinstance(node.this, exp.Star) else parts_of(node)
    left = _path(node.this) if isinstance(node.this, (exp.Column, exp.Dot)) else []
    return [*left, node.expression.name] if left and isinstance(node.expression, exp.Identifier) else []


# ── Functions with other names, orders or meanings than Spark's ───────────────────────────────────


def _template(pattern: str, *, minimum: int, maximum: int | None = None) -> Callable[[Any], Node]:
    """Rewrite a call by a text with {0}, {1} … for its arguments."""
    from sqlglot import exp

    def rewrite(call: Any) -> Node:
        arguments = call.expressions
        if not minimum <= len(arguments) <= (maximum or minimum):
            counts = str(minimum) if maximum is None else f"{minimum} to {maximum}"
            raise ScriptError("wrong-arguments", f"{call.name} takes {counts} arguments, not {len(arguments)}", start(call))
        text = pattern.format(
            *(one.sql(dialect="spark") for one in arguments), all=", ".join(one.sql(dialect="spark") for one in arguments)
        )
        return exp.Var(this=f"{text}")

    return rewrite


def _date_format(call: Any) -> Node:
    """rsqldb's ``DATE_FORMAT(text, pattern, pattern of the result)``; with two arguments Spark's."""
    three = _template("date_format(try_to_timestamp({0}, {1}), {2})", minimum=3)
    return three(call) if len(call.expressions) == 3 else call


_FUNCTIONS: dict[str, Callable[[Any], Node]] = {
    "date_format": _date_format,
    "split_index": _template("get(split({0}, concat('\\\\Q', {1}, '\\\\E')), {2})", minimum=3),
    "regexp_extract": _template("nullif(regexp_extract({all}), '')", minimum=2, maximum=3),
    "char_length": _template("length({0})", minimum=1),
    "character_length": _template("length({0})", minimum=1),
    "is_alpha": _template("coalesce({0} rlike '^[A-Za-z]+$', false)", minimum=1),
    "is_digit": _template("coalesce({0} rlike '^[0-9]+$', false)", minimum=1),
    "is_decimal": _template("(try_cast({0} as double) is not null)", minimum=1),
    "to_base64": _template("base64({0})", minimum=1),
    "from_base64": _template("cast(unbase64({0}) as string)", minimum=1),
    "ifnull": _template("coalesce({0}, {1})", minimum=2),
    "truncate": _template("(sign({0}) * floor(abs({0})))", minimum=1),
    "now": _template("current_timestamp()", minimum=0),
    "localtimestamp": _template("current_timestamp()", minimum=0),
    "proctime": _template("current_timestamp()", minimum=0),
    "first_value": _template("first({0})", minimum=1),
    "last_value": _template("last({0})", minimum=1),
    "json_value": _template("get_json_object({0}, {1})", minimum=2),
}
