"""OVER over whole tables, in batch mode → the step `over_all`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.sql.columns import Scope
from etl.sql.expressions import call_name, duration, plain_column, seconds_of, spark_text, unfiltered
from etl.sql.functions.aggregates import aggregate_text, collected_texts, joined_text
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start, text_key

BATCH_HINT = "SET 'execution.runtime-mode' = 'batch' gives results when all sources have ended"
"""What makes a query over whole tables possible."""

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value")


def with_all_rows(relation: Relation, calls: Mapping[str, Any]) -> Relation:
    """The relation with the values of calls that have the same window. Raises ScriptError."""
    first = next(iter(calls.values()))
    at = start(first)
    relation, keys = _with_keys(relation, first.args.get("partition_by") or [], at)
    scope = relation.scope
    functions: dict[str, str] = {}
    results: dict[str, str] = {}
    for name, call in calls.items():
        inner = call.this
        if call_name(inner) in _RANKS:
            arguments = ", ".join(spark_text(one, scope) for one in inner.expressions)
            functions[name] = f"{call_name(inner)}({arguments})"
            continue
        if call_name(unfiltered(inner)) in ("listagg", "concat_agg"):
            functions[name], separator = collected_texts(inner, scope)
            results[name] = joined_text(name, separator)
            continue
        made = aggregate_text(inner, scope)
        functions[name] = made.text
        functions |= {f"{name}_{suffix}": text for suffix, text in made.more.items()}
        if result := made.finish(name):
            results[name] = result
    options: dict[str, Any] = {"type": "over_all"} | ({"keys": keys} if keys else {})
    order = first.args.get("order")
    options |= {"order_by": order_texts(order.expressions, scope)} if order else {}
    options |= _frame(first)
    starts: dict[tuple[str | int, ...], int] = {("aggregates", name): start(call) for name, call in calls.items()}
    aliases = {text_key(call): name for name, call in calls.items()}
    scope = replace(scope, aliases={**scope.aliases, **aliases}, results={**scope.results, **results})
    return relation.then(StepText({**options, "aggregates": functions}, at, starts), scope=scope, is_exact=False, changes_at=None)


def _with_keys(relation: Relation, nodes: Sequence[Any], at: int) -> tuple[Relation, list[str]]:
    """The relation with the values of PARTITION BY that are not columns, and the fields of all."""
    keys: list[str] = []
    computed: dict[str, str] = {}
    for node in nodes:
        column = plain_column(node, relation.scope)
        if column is None or not column.field or column.members:
            name = f"partition_{len(computed) + 1}"
            computed[name] = spark_text(node, relation.scope)
            keys.append(name)
        else:
            keys.append(column.field)
    if computed:
        relation = relation.then(StepText({"type": "set", "fields": computed}, at), is_exact=False)
    return relation, keys


def order_texts(order: Sequence[Any], scope: Scope) -> dict[str, str]:
    """ORDER BY as expressions and their directions; null is the smallest value, so another order of nulls adds an expression."""
    found: dict[str, str] = {}
    for one in order:
        text, is_descending = spark_text(one.this, scope), bool(one.args.get("desc"))
        nulls_first = one.args.get("nulls_first")
        if nulls_first is not None and bool(nulls_first) == is_descending:
            found.setdefault(f"({text}) is null", "descending" if nulls_first else "ascending")
        found.setdefault(text, "descending" if is_descending else "ascending")
    return found


def _frame(call: Any) -> dict[str, str]:
    """The option ``frame``."""
    spec = call.args.get("spec")
    if spec is None:
        return {}
    kind = str(spec.args.get("kind")).lower()
    first = _bound(spec.args.get("start"), spec.args.get("start_side"), call)
    last = _bound(spec.args.get("end"), spec.args.get("end_side"), call) if spec.args.get("end") else "current row"
    return {"frame": f"{kind} between {first} and {last}"}


def _bound(value: Any, side: Any, call: Any) -> str:
    from sqlglot import exp

    if value == "CURRENT ROW":
        return "current row"
    if value == "UNBOUNDED":
        return f"unbounded {str(side).lower()}"
    if isinstance(value, exp.Literal) and not value.is_string:
        return f"{value.name} {str(side).lower()}"
    if isinstance(value, exp.Interval):
        return f"{duration(seconds_of(value))} {str(side).lower()}"
    raise ScriptError("unsupported-sql", "a bound of a frame is a number or an interval", start(call), "ROWS 2 PRECEDING")
