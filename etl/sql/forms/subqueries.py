"""Queries in conditions, ``IN (SELECT …)`` and ``EXISTS (SELECT …)`` → the step `join` of the kinds semi and anti."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, leaves
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import find_aggregates, plain_column, spark_text
from etl.sql.joins import Condition, conjuncts, join_step, read_condition
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start

INNER = "subquery"
"""Qualifier of the query's columns in the condition of the join."""


@dataclass(frozen=True)
class Membership:
    """A condition that compares rows with those of a query."""

    query: Any
    value: Any
    """The expression before IN, None of EXISTS."""
    is_negated: bool
    at: int


def membership_of(node: Any) -> Membership | None:
    """``[NOT] IN (SELECT …)`` and ``[NOT] EXISTS (SELECT …)``; None for other conditions."""
    from sqlglot import exp

    is_negated = False
    while isinstance(node, (exp.Not, exp.Paren)):
        is_negated ^= isinstance(node, exp.Not)
        node = node.this
    if isinstance(node, exp.Exists):
        return Membership(node.this, None, is_negated, start(node))
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return Membership(node.args["query"], node.this, is_negated, start(node))
    return None


def member_rows(
    relation: Relation,
    member: Membership,
    compiled: CompiledScript,
    ttl: str,
    rows_of: Callable[[Any], tuple[Relation, list[Any], Any]],
) -> Relation:
    """The rows that meet the condition. ``rows_of``: the rows of a query whose conditions name no columns of the query around it,
    the other conditions, and the value of its first column. Raises ScriptError."""
    right, correlated, value = rows_of(member.query)
    if member.value is not None and value is None:
        raise ScriptError("wrong-columns", "a query after IN gives one column", member.at)
    outer = relation
    left, right, keys = _with_values(relation, right, member, value)
    correlated = [_requalified(one, right.scope) for one in correlated]
    right = replace(right, scope=Scope(right.columns).qualified(INNER))
    condition = read_condition(correlated, left.scope, right.scope)
    condition.equal += keys
    number = len(compiled.value["streams"])
    left = compiled.as_stream(left, f"left_of_join_{number}", member.at)
    right = compiled.as_stream(right, f"right_of_join_{number}", member.at)
    kind = "anti" if member.is_negated else "semi"
    changes = next((one.changes_at for one in (left, right) if one.changes_at is not None), None)
    joined = join_step(left, right, condition, kind, "right.", ttl, member.at, changes)
    return replace(joined, scope=outer.scope, window=outer.window if joined.changes_at is None else None, is_exact=False)


def compared_rows(left: Relation, right: Relation, compiled: CompiledScript, ttl: str, is_negated: bool, at: int) -> Relation:
    """The distinct left rows that the right side has, or has not; a row with a null equals none. Raises ScriptError."""
    if len(left.columns) != len(right.columns):
        counts = f"{len(left.columns)} and {len(right.columns)}"
        raise ScriptError("wrong-columns", f"both queries have equally many columns, not {counts}", at)
    fields = [leaf.field for column in left.columns for leaf in leaves(column)]
    changes = next((one.changes_at for one in (left, right) if one.changes_at is not None), None)
    rows = left.then(StepText({"type": "dedupe", "keys": fields, "within": ttl}, at)) if changes is None else left
    number = len(compiled.value["streams"])
    one = compiled.as_stream(rows, f"left_of_join_{number}", at)
    other = compiled.as_stream(right, f"right_of_join_{number}", at)
    condition = Condition(list(zip(left.columns, right.columns, strict=True)))
    joined = join_step(one, other, condition, "anti" if is_negated else "semi", "right.", ttl, at, changes)
    return replace(joined, scope=left.scope, window=None, is_exact=False)


def _with_values(
    left: Relation, right: Relation, member: Membership, value: Any
) -> tuple[Relation, Relation, list[tuple[SqlColumn, SqlColumn]]]:
    """Both sides with the values that IN compares, and the pair of columns."""
    if member.value is None:
        return left, right, []
    if member.is_negated:  # as in SQL: whether NULL is in a list is not known
        text = f"{spark_text(member.value, left.scope)} is not null"
        left = left.then(StepText({"type": "filter", "where": text}, member.at))
    left, one = _as_column(left, member.value)
    right, other = _as_column(right, value)
    return left, right, [(one, other)]


def _as_column(relation: Relation, node: Any) -> tuple[Relation, SqlColumn]:
    column = plain_column(node, relation.scope)
    if column is not None and column.field and not column.members:
        return relation, column
    taken = {one.field for one in relation.columns}
    name = next(one for number in range(1, 10_000) if (one := f"compared_{number}") not in taken)
    step = StepText({"type": "set", "fields": {name: spark_text(node, relation.scope)}}, start(node))
    added = SqlColumn(name, name)
    return relation.then(step, scope=replace(relation.scope, columns=(*relation.columns, added)), is_exact=False), added


def _requalified(node: Any, inner: Scope) -> Any:
    """A condition in which the query's own columns, which hide those around it, have the qualifier INNER."""
    from sqlglot import exp

    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        if _is_known([part.name for part in column.parts], inner):
            column.set("table", exp.to_identifier(INNER))
    return node


def split_correlated(node: Any, inner: Scope) -> tuple[list[Any], list[Any]]:
    """The parts of WHERE of a query: those over its own columns, and those that name columns around it."""
    from sqlglot import exp

    where = node.args.get("where")
    own: list[Any] = []
    others: list[Any] = []
    for part in conjuncts(where.this) if where else ():
        columns = [[one.name for one in column.parts] for column in part.find_all(exp.Column)]
        (own if all(_is_known(column, inner) for column in columns) else others).append(part)
    return own, others


def _is_known(parts: list[str], inner: Scope) -> bool:
    try:
        inner.find(parts, 0)
    except ScriptError:
        return False
    return True


def refuse_groups(node: Any) -> None:
    """Raise ScriptError for a query with groups whose WHERE names columns around it."""
    if node.args.get("group") or any(find_aggregates(item.unalias()) for item in node.expressions):
        raise ScriptError(
            "unsupported-sql",
            "a query with aggregates cannot name columns of the query around it",
            start(node),
            "group by that column, and join the results",
        )
