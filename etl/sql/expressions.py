"""Expressions of scripts → Spark SQL over fields of the pipeline, with the meaning that Flink gives to its functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import format_type, parse_type
from etl.expressions.analysis import analyse
from etl.expressions.library.function import PREFIXES
from etl.expressions.quoting import quoted, quoted_text
from etl.sql.columns import Scope, SqlColumn, parts_of
from etl.sql.functions.intervals import interval_value, is_interval
from etl.sql.functions.own_functions import own_function
from etl.sql.functions.pattern_checks import note_pattern
from etl.sql.functions.translation import translate
from etl.sql.functions.typed_nodes import typed
from etl.sql.statements import UNITS, ScriptError, start, text_key

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

__all__ = ["AGGREGATES", "quoted", "quoted_text"]
AGGREGATES = frozenset(
    {"count", "sum", "avg", "min", "max", "first", "last", "first_value", "last_value", "collect", "collect_set", "stddev"}
    | {"stddev_samp", "variance", "var_samp", "count_if", "mode", "concat_agg", "listagg", "approx_count_distinct"}
    | {"percentile", "approx_percentile", "max_by", "min_by", "corr", "correlation", "stddev_pop", "var_pop", "json_arrayagg"}
    | {"json_objectagg", "array_agg", "single_value"}
)
"""Names of aggregates in a script."""


_WORDS = {
    "unknown": ("cast(null as boolean)", "boolean"),
    "pi": ("pi()", "double"),
    "localtimestamp": ("flink_current_timestamp()", "timestamp"),
    "localtime": ("flink_current_time()", "time"),
    "current_time": ("flink_current_time()", "time"),
    "current_date": ("flink_current_date()", "date"),
    "current_timestamp": ("flink_current_timestamp()", "timestamp"),
}
"""Words that are values where no column has their name."""


def spark_text(node: Node, scope: Scope) -> str:
    """Spark SQL of an expression, with the columns' fields for their names. Raises ScriptError."""
    return text_of(interval_or_other(resolved(node, scope)))


def interval_or_other(node: Node) -> Any:
    """The node, an interval as a value."""
    return interval_value(node) if is_interval(node) else node


def full_type(type_: str | None, text: str, scope: Scope) -> str | None:
    """Spark's name of an expression's type: the one found while it was translated, or that of a number which its columns tell."""
    if type_ not in (None, "decimal") or scope.is_open:
        return type_
    fields = []
    for column in scope.columns:
        try:
            fields.append(pa.field(column.field, parse_type(column.type or "")))
        except ValueError:
            continue  # an interval, or a type that only the check of the pipeline knows
    analysis = analyse(text, pa.schema(fields))
    found = analysis.type
    is_number = pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
    return format_type(found) if is_number and not analysis.errors else None


def text_of(node: Node) -> str:
    """Spark SQL of an expression that is resolved."""
    return str(_generator().generate(node))


@lru_cache(maxsize=1)
def _generator() -> Any:
    """Writes Spark SQL; functions of the library have their names in lower case."""
    from sqlglot.dialects.spark import Spark

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        def normalize_func(self, name: str) -> str:
            return name.lower() if name.lower().startswith(tuple(PREFIXES)) else str(super().normalize_func(name))

    return Generator(dialect=Spark())


def plain_column(node: Any, scope: Scope) -> SqlColumn | None:
    """The column that an expression is, None for any other expression. Raises ScriptError."""
    from sqlglot import exp

    if text_key(node) in scope.aliases:
        return None
    parts = _path(node) if isinstance(node, (exp.Column, exp.Dot)) else []
    return scope.find(parts, start(node)) if parts else None


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
        "bad-interval", f"{node.sql(dialect='spark')} is not a constant time", start(node), "write INTERVAL '10' SECOND"
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

    if isinstance(node, (exp.Window, exp.Query)):
        return []
    if isinstance(node, exp.Filter) or is_aggregate(node):
        return [node]
    return [found for child in node.iter_expressions() for found in find_aggregates(child)]


def is_word(node: Any) -> bool:
    """Whether a column's name is that of a value, such as LOCALTIME, where no column has it."""
    return len(node.parts) == 1 and node.name.lower() in _WORDS


def value_queries(node: Any) -> Iterator[Any]:
    """The outermost queries in an expression: those as values, EXISTS, IN with a query, and comparisons with ANY and ALL."""
    from sqlglot import exp

    if isinstance(node, (exp.Subquery, exp.Exists)) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        yield node
        return
    if isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)) and isinstance(node.expression, (exp.Any, exp.All)):
        yield node
        return
    for child in node.iter_expressions():
        yield from value_queries(child)


def unfiltered(node: Any) -> Any:
    """The call of an aggregate without FILTER."""
    from sqlglot import exp

    return node.this if isinstance(node, exp.Filter) else node


def call_name(node: Any) -> str:
    """The name of the function that a node calls, in lower case; empty if it calls none."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def resolved(node: Node, scope: Scope) -> Node:
    """A copy with fields for columns, and Spark's functions for others' functions."""
    from sqlglot import exp

    computed = scope.aliases.get(text_key(node))
    if computed is not None:
        return exp.Var(this=scope.results.get(computed) or quoted(computed))
    if isinstance(node, (exp.Column, exp.Dot)) and (parts := _path(node)):
        word = _WORDS.get(parts[0].lower()) if len(parts) == 1 and not scope.has(parts[0]) else None
        if word:
            return typed(exp.Var(this=word[0]), word[1])
        column = scope.find(parts, start(node))
        if not column.field:
            return typed(exp.Var(this="flink_current_timestamp()"), "timestamp")
        if column.members:
            raise ScriptError(
                "struct-column", f"{column.name!r} is a ROW, and a value is needed", start(node), "name one of its members"
            )
        return typed(exp.Var(this=quoted(column.field)), column.type)
    if isinstance(node, (exp.Subquery, exp.SubqueryPredicate)) or (isinstance(node, exp.In) and node.args.get("query")):
        raise ScriptError("unsupported-sql", "a query cannot stand inside an expression here", start(node), "join it instead")
    _refuse_window_bound(node)
    if isinstance(node, exp.Window):
        raise ScriptError("unsupported-sql", "OVER stands in the list of SELECT only", start(node))
    copy = node.copy()
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            copy.set(key, _part(node, key, value, scope))
        elif isinstance(value, list):
            copy.set(key, [_part(node, key, one, scope) if isinstance(one, exp.Expression) else one for one in value])
    if isinstance(copy, exp.DataType):
        return node.copy()
    note_pattern(call_name(node), node)
    return translate(copy, node)


_WINDOW_BOUND = re.compile(r"(?P<window>tumble|hop|session|cumulate)_(?:start|end|rowtime|proctime)")


def _refuse_window_bound(node: Any) -> None:
    """Raises ScriptError for ``SESSION_START(t, INTERVAL '1' MINUTE)`` of a window that is not in GROUP BY."""
    name = call_name(node)
    found = _WINDOW_BOUND.fullmatch(name)
    if found is None or own_function(name):
        return
    window = found["window"].upper()
    call = f"{window}({', '.join(one.sql(dialect='spark') for one in node.expressions)})"
    message = f"{name.upper()} is of a window in GROUP BY, and there is no {window} with these arguments"
    tables = "" if window == "SESSION" else f", or read window_start and window_end of TABLE({window}(…))"
    raise ScriptError("unsupported-sql", message, start(node), f"add GROUP BY {call}{tables}")


def _part(node: Any, key: str, part: Node, scope: Scope) -> Node:
    """A part of a node; units and types are words, which name no column."""
    from sqlglot import exp

    is_word = (key in ("unit", "to") and not isinstance(part, exp.Column)) or (isinstance(node, exp.Extract) and key == "this")
    if is_word or _is_unit(node, part) or _is_map(node, key, part):
        return part.copy()
    return resolved(part, scope)


def _is_unit(node: Any, part: Any) -> bool:
    """Whether it is the unit of ``TIMESTAMPADD(DAY, …)``."""
    return call_name(node) in ("timestampadd", "timestampdiff") and bool(node.expressions) and part is node.expressions[0]


def _is_map(node: Any, key: str, part: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Bracket) and key == "this" and isinstance(part, exp.Column) and part.name.upper() == "MAP"


def _path(node: Any) -> list[str]:
    from sqlglot import exp

    if isinstance(node, exp.Column):
        return [] if isinstance(node.this, exp.Star) else parts_of(node)
    left = _path(node.this) if isinstance(node.this, (exp.Column, exp.Dot)) else []
    return [*left, node.expression.name] if left and isinstance(node.expression, exp.Identifier) else []


def key_field(node: Any, scope: Scope) -> str:
    """The field of a column in PARTITION BY. Raises ScriptError for an expression."""
    column = plain_column(node, scope)
    if column is None:
        raise ScriptError(
            "unsupported-sql", "PARTITION BY takes columns here", start(node), "compute it as a column of a sub-query"
        )
    return column.field
