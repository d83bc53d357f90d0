"""Queries in the list of SELECT and in HAVING, beside groups: a SELECT over the groups has them."""

from __future__ import annotations

from typing import Any

from etl.sql.expressions import call_name, find_aggregates, is_aggregate, value_queries
from etl.sql.grouping import is_grouped
from etl.sql.statements import start, text_key
from etl.sql.windows import GROUP_WINDOWS

GROUPS = "groups"
"""Name of the groups in FROM, where the query has no table."""


def over_groups(node: Any) -> Any | None:
    """For a SELECT with groups and queries as values beside them: one over these groups, whose rows have the values. None for
    others."""
    from sqlglot import exp

    having = node.args.get("having")
    parts = [*node.expressions, *([having.this] if having else [])]
    if not is_grouped(node) or not any(_has_queries(one) for one in parts):
        return None
    group = node.args.get("group")
    names: dict[str, str] = {}
    fields: list[Any] = []
    keys = {text_key(one): one for one in (group.expressions if group else ())}

    def column(one: Any) -> Any:
        if not (text_key(one) in keys or _is_of_group(one)):
            return one
        key = text_key(one)
        if key not in names:
            names[key] = one.name if isinstance(one, exp.Column) else f"of_group_{len(names)}"
            fields.append(exp.alias_(one.copy(), names[key]))
        found = exp.column(names[key])
        found.meta["start"] = start(one)
        return found

    outer = node.copy()
    items = [_replaced(one, column) for one in outer.expressions]
    condition = _replaced(outer.args["having"].this, column) if having else None
    inner = node.copy()
    for key in ("having", "order", "limit", "offset", "distinct", "with_"):
        inner.set(key, None)
    inner.set("expressions", fields or [exp.alias_(exp.Count(this=exp.Star()), "of_group_0")])
    for key in ("group", "having", "joins", "laterals", "windows"):
        outer.set(key, None)
    name = node.args["from_"].this.alias_or_name if node.args.get("from_") else ""
    alias = exp.TableAlias(this=exp.to_identifier(name or GROUPS))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    outer.set("expressions", items)
    outer.set("where", exp.Where(this=condition) if condition is not None else None)
    return outer


def _has_queries(node: Any) -> bool:
    """Whether an expression has queries outside of aggregates."""
    inside = {id(one) for call in find_aggregates(node) for one in value_queries(call)}
    return any(id(one) not in inside for one in value_queries(node))


def _is_of_group(node: Any) -> bool:
    from sqlglot import exp

    name = call_name(node)
    is_bound = any(name.startswith(f"{one}_") for one in GROUP_WINDOWS) or name in ("grouping", "grouping_id")
    return isinstance(node, exp.Filter) or is_aggregate(node) or is_bound


def _replaced(node: Any, column: Any) -> Any:
    """An expression with columns of the groups for their keys and aggregates; queries stay."""
    from sqlglot import exp

    new = column(node)
    if new is not node:
        return new
    if isinstance(node, exp.Query):
        return node
    node = node.copy()
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _replaced(value, column))
        elif isinstance(value, list):
            node.set(key, [_replaced(one, column) if isinstance(one, exp.Expression) else one for one in value])
    return node
