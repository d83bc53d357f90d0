"""Aggregates of a script → those of the step `window`, and the expression that makes Flink's result of theirs.

Flink's results have the type of the argument: the sum and the average of INT are INT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.expressions.quoting import quoted, quoted_text
from etl.sql.columns import Scope
from etl.sql.expressions import call_name, full_type, resolved, text_of, unfiltered
from etl.sql.functions.script_dialect import is_rsql
from etl.sql.functions.typed_nodes import call as make_call
from etl.sql.functions.typed_nodes import sql_type, typed
from etl.sql.statements import ScriptError, start

MAX_COLLECTED = 10_000
"""Maximum number of values of a group that COLLECT, LISTAGG, ARRAY_AGG and aggregates of DISTINCT values remember."""

_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))
_NAMES = {"stddev_samp": "stddev", "var_samp": "variance", "first_value": "first", "last_value": "last"}
_DEVIATIONS = ("stddev", "variance", "stddev_pop", "var_pop")
_TYPED = frozenset(("sum", "avg", *_DEVIATIONS))
"""Aggregates whose result has the type of the numbers that they are of."""


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

    inner = unfiltered(node)
    name = call_name(inner)
    name = _NAMES.get(name, name)
    if name == "json_objectagg":
        return _json_objectagg(inner, scope, node)
    is_distinct = bool(inner.expressions) and isinstance(inner.expressions[0], exp.Distinct)
    values = inner.expressions[0].expressions if is_distinct else inner.expressions
    arguments = [resolved(one, scope) for one in values]
    if name in _TYPED and len(arguments) == 1:
        typed(arguments[0], full_type(sql_type(arguments[0]), text_of(arguments[0]), scope))
    filtered = _filter(node, scope)

    def of(function: str, *given: Any) -> str:
        return text_of(make_call(function, *given)) + filtered

    if name == "array_agg" and len(arguments) == 1:
        elements = "flink_array_distinct({0})" if is_distinct else "{0}"
        collected = of("collect_all", arguments[0], MAX_COLLECTED)
        return AggregateText(collected, result=f"case when flink_cardinality({{0}}) > 0 then {elements} end")
    if name == "single_value" and len(arguments) == 1:
        return AggregateText(of("collect_all", arguments[0], 2), result="flink_element({0})")
    if is_distinct and name != "count":
        return _of_distinct(name, arguments, of, start(inner))
    if name == "collect" and len(arguments) == 1:
        return AggregateText(of("collect", arguments[0], MAX_COLLECTED), result="flink_multiset({0})")
    if name == "json_arrayagg":
        collect = "collect_all" if inner.expressions[-1].name == "null" else "collect"
        return AggregateText(of(collect, arguments[0], MAX_COLLECTED), result="coalesce(flink_json_string({0}), '[]')")
    if name == "percentile":
        return _percentile(arguments, of, start(inner))
    if (digits := _decimal(arguments)) and name in ("sum", "avg", *_DEVIATIONS):
        return _of_decimals(name, arguments, digits, of)
    cast = _cast(name, arguments)
    if name in ("stddev_pop", "var_pop"):
        value = _of_all(name)
        return AggregateText(of("variance", *arguments), {"n": of("count", *arguments)}, cast.format(value) if cast else value)
    if name == call_name(inner):
        return AggregateText(text_of(resolved(node, scope)), result=cast.format("{0}") if cast else None)
    return AggregateText(of(name, *arguments), result=cast.format("{0}") if cast else None)


def collected_texts(call: Any, scope: Scope) -> tuple[str, str]:
    """``concat_agg([separator,] x)`` or ``listagg(x[, separator])`` as an aggregate, and the separator. Raises ScriptError."""
    from sqlglot import exp

    filtered, call = _filter(call, scope), unfiltered(call)
    if not call.expressions:
        raise ScriptError("wrong-arguments", f"{call.name} takes an expression", start(call))
    is_distinct = isinstance(call.expressions[0], exp.Distinct)
    arguments = call.expressions[0].expressions if is_distinct else call.expressions
    *others, value = arguments if call_name(call) == "concat_agg" else reversed(arguments)
    if len(others) > 1 or (others and not isinstance(others[0], exp.Literal)):
        raise ScriptError("wrong-arguments", f"{call.name} takes a constant separator and an expression", start(call))
    text = text_of(resolved(value, scope))
    separator = others[0].name if others else "\n" if call_name(call) == "concat_agg" else ","
    return f"{'collect_set' if is_distinct else 'collect'}({text}, {MAX_COLLECTED}){filtered}", separator


def joined_text(name: str, separator: str) -> str:
    """The collected texts of a field as one text; null if there is none."""
    return f"case when flink_cardinality({name}) > 0 then array_join({name}, {quoted_text(separator)}) end"


def _filter(node: Any, scope: Scope) -> str:
    from sqlglot import exp

    return f" filter (where {text_of(resolved(node.expression.this, scope))})" if isinstance(node, exp.Filter) else ""


def _json_objectagg(inner: Any, scope: Scope, node: Any) -> AggregateText:
    """``JSON_OBJECTAGG(KEY k VALUE v)``: the pairs are collected, and become JSON after all."""
    key, value, mode = inner.expressions
    pair = make_call("flink_row", resolved(key, scope), resolved(value, scope))
    text = text_of(make_call("collect_all", pair, MAX_COLLECTED)) + _filter(node, scope)
    return AggregateText(text, result=f"flink_json_objectagg({{0}}, '{mode.name}')")


def _percentile(arguments: list[Any], of: Any, at: int) -> AggregateText:
    """``PERCENTILE(x, share)``, or an array of shares."""
    if len(arguments) != 2:
        raise ScriptError("wrong-arguments", "PERCENTILE takes a value and a share", at, "PERCENTILE(x, 0.95)")
    value, shares = arguments
    if call_name(shares) != "flink_array" or not shares.expressions:
        return AggregateText(of("percentile", value, shares))
    first, *others = shares.expressions
    more = {f"p{number}": of("percentile", value.copy(), one) for number, one in enumerate(others, 2)}
    names = ", ".join(["{0}", *(f"{{{suffix}}}" for suffix in more)])
    return AggregateText(of("percentile", value, first), more, f"case when {{0}} is not null then flink_array({names}) end")


def _decimal(arguments: list[Any]) -> int | None:
    """The digits after the point of the decimals that an aggregate is of; None for other values, and where they are not known."""
    found = re.fullmatch(r"decimal\(\d+,\s*(\d+)\)", sql_type(arguments[0]) or "") if len(arguments) == 1 else None
    return int(found[1]) if found and not is_rsql() else None


def _of_decimals(name: str, arguments: list[Any], digits: int, of: Any) -> AggregateText:
    """Sums have the digits of the values, averages and deviations six at least."""
    if name == "sum":
        return AggregateText(of(name, *arguments), result=f"flink_cast({{0}}, 'decimal(38,{digits})')")
    type_ = f"decimal(38,{max(6, digits)})"
    if name == "avg":
        average = f"case when {{n}} > 0 then flink_cast(flink_divide({{0}}, {{n}}), '{type_}') end"
        return AggregateText(of("sum", *arguments), {"n": of("count", *arguments)}, average)
    if name in ("stddev_pop", "var_pop"):
        return AggregateText(
            of("variance", *arguments), {"n": of("count", *arguments)}, f"flink_cast({_of_all(name)}, '{type_}')"
        )
    return AggregateText(of(name, *arguments), result=f"flink_cast({{0}}, '{type_}')")


def _of_all(name: str) -> str:
    """The deviation or variance of all values, computed from the variance of a sample."""
    root = ("sqrt(", ")") if name == "stddev_pop" else ("", "")
    value = f"{root[0]}{{0}} * ({{n}} - 1) / {{n}}{root[1]}"
    return f"case when {{n}} = 0 then null when {{n}} = 1 then 0e0 else {value} end"


def _of_distinct(name: str, arguments: list[Any], of: Any, at: int) -> AggregateText:
    if len(arguments) != 1:
        raise ScriptError("wrong-arguments", f"{name}(DISTINCT …) takes one value", at)
    if name in ("min", "max"):
        return AggregateText(of(name, *arguments))
    if name == "json_arrayagg":
        return AggregateText(of("collect_set", *arguments, MAX_COLLECTED), result="coalesce(flink_json_string({0}), '[]')")
    results = {"sum": "array_sum({0})", "avg": "array_average({0})", "collect": "flink_multiset({0})"}
    if name not in results:
        raise ScriptError("unsupported-sql", f"{name} of DISTINCT values is not supported", at, "select the distinct rows before")
    cast = _cast(name, arguments) or "{}"
    return AggregateText(of("collect_set", *arguments, MAX_COLLECTED), result=cast.format(results[name]))


def _cast(name: str, arguments: list[Any]) -> str | None:
    """A template that gives an aggregate of whole numbers or FLOAT their type, as Flink does; None where it has it already."""
    type_ = sql_type(arguments[0]) if len(arguments) == 1 and name in _TYPED and not is_rsql() else None
    if type_ not in (*_WHOLE, "float") or (name == "sum" and type_ == "bigint"):
        return None
    return f"flink_cast({{}}, '{type_}')"
