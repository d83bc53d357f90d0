"""Aggregates of a script → those of the step `window`, and the expression that makes Flink's result of theirs.

Flink's results have the type of the argument: the sum and the average of INT are INT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.expressions.quoting import quoted
from etl.sql.columns import Scope
from etl.sql.expressions import call_name, resolved, text_of
from etl.sql.functions.script_dialect import is_rsql
from etl.sql.functions.typed_nodes import call as make_call
from etl.sql.functions.typed_nodes import sql_type
from etl.sql.statements import ScriptError, start

MAX_COLLECTED = 10_000
"""Most values of a group that COLLECT and aggregates of DISTINCT values remember."""

_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))
_NAMES = {"stddev_samp": "stddev", "var_samp": "variance", "first_value": "first", "last_value": "last"}
_TYPED = frozenset(("sum", "avg", "stddev", "variance", "stddev_pop", "var_pop"))
"""Aggregates whose result has the type of a whole number that they are of."""


@dataclass(frozen=True)
class AggregateText:
    """An aggregate of the step, further ones that the result needs by a suffix of its name, and the result as an expression.

    ``result`` has ``{0}`` for the aggregate's field and the suffixes' names for the others; None: the field itself.
    """

    text: str
    more: Mapping[str, str] = field(default_factory=dict)
    result: str | None = None

    def finish(self, name: str) -> str | None:
        """The expression over the fields, if the aggregate is of this name."""
        if self.result is None:
            return None
        return self.result.format(quoted(name), **{suffix: quoted(f"{name}_{suffix}") for suffix in self.more})


def aggregate_text(node: Any, scope: Scope) -> AggregateText:
    """The aggregate that a call, perhaps with FILTER, becomes. Raises ScriptError."""
    from sqlglot import exp

    inner = node.this if isinstance(node, exp.Filter) else node
    name = call_name(inner)
    name = _NAMES.get(name, name)
    is_distinct = bool(inner.expressions) and isinstance(inner.expressions[0], exp.Distinct)
    values = inner.expressions[0].expressions if is_distinct else inner.expressions
    arguments = [resolved(one, scope) for one in values]
    filtered = f" filter (where {text_of(resolved(node.expression.this, scope))})" if node is not inner else ""

    def of(function: str, *given: Any) -> str:
        return text_of(make_call(function, *given)) + filtered

    if is_distinct and name != "count":
        return _of_distinct(name, arguments, of, start(inner))
    if name == "collect" and len(arguments) == 1:
        return AggregateText(of("collect", arguments[0], MAX_COLLECTED), result="flink_multiset({0})")
    if name == "json_arrayagg":
        return AggregateText(of("collect", *arguments, MAX_COLLECTED), result="coalesce(flink_json_string({0}), '[]')")
    cast = _cast(name, arguments)
    if name in ("stddev_pop", "var_pop"):
        root = ("sqrt(", ")") if name == "stddev_pop" else ("", "")
        value = f"case when {{n}} = 0 then null when {{n}} = 1 then 0e0 else {root[0]}{{0}} * ({{n}} - 1) / {{n}}{root[1]} end"
        return AggregateText(of("variance", *arguments), {"n": of("count", *arguments)}, cast.format(value) if cast else value)
    if name == call_name(inner):
        return AggregateText(text_of(resolved(node, scope)), result=cast.format("{0}") if cast else None)
    return AggregateText(of(name, *arguments), result=cast.format("{0}") if cast else None)


def _of_distinct(name: str, arguments: list[Any], of: Any, at: int) -> AggregateText:
    if len(arguments) != 1:
        raise ScriptError("wrong-arguments", f"{name}(DISTINCT …) takes one value", at)
    if name in ("min", "max"):
        return AggregateText(of(name, *arguments))
    results = {"sum": "array_sum({0})", "avg": "array_average({0})", "collect": "flink_multiset({0})"}
    if name not in results:
        raise ScriptError("unsupported-sql", f"{name} of DISTINCT values is not supported", at, "select the distinct rows before")
    cast = _cast(name, arguments) or "{}"
    return AggregateText(of("collect_set", *arguments, MAX_COLLECTED), result=cast.format(results[name]))


def _cast(name: str, arguments: list[Any]) -> str | None:
    """A template that gives an aggregate of whole numbers their type, as Flink does; None where it has the type already."""
    type_ = sql_type(arguments[0]) if len(arguments) == 1 and name in _TYPED and not is_rsql() else None
    if type_ not in _WHOLE or (name == "sum" and type_ == "bigint"):
        return None
    return f"flink_cast({{}}, '{type_}')"
