"""Queries in conditions, ``IN (SELECT …)`` and ``EXISTS (SELECT …)`` → the step `join` of the kinds semi and anti."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, leaves
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import find_aggregates, plain_column, quoted, spark_text
from etl.sql.joins import Condition, conjuncts, join_step, read_condition
from etl.sql.relation import FOR_EVER, Relation, StepText
from etl.sql.statements import ScriptError, start

SIDE, LEFT, RIGHT, COPY = "side_of_row", "rows_left", "rows_right", "copy_of_row"
"""Fields by which INTERSECT and EXCEPT count rows."""

ANY = "any_row"
"""Key that all rows have in common."""

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
    correlated = [_requalify(one, right.scope) for one in correlated]
    right = replace(right, scope=Scope(right.columns).qualified(INNER))
    condition = read_condition(correlated, left.scope, right.scope)
    condition.equal += keys
    number = len(compiled.value["streams"])
    left = compiled.as_stream(left, f"left_of_join_{number}", member.at)
    right = compiled.as_stream(right, f"right_of_join_{number}", member.at)
    kind = "anti" if member.is_negated else "semi"
    changes = next((one.changes_at for one in (left, right) if one.changes_at is not None), None)
    joined = join_step(left, right, condition, kind, "right.", ttl, member.at, changes)
    joined = replace(joined, scope=outer.scope, window=outer.window if joined.changes_at is None else None, is_exact=False)
    may_be_null = (
        joined.changes_at is not None and member.value is not None and member.is_negated and not _is_tested(member.query, value)
    )
    return _without_null(joined, right, keys[0][1], compiled, ttl, member.at) if may_be_null else joined


def _is_tested(query: Any, value: Any) -> bool:
    """Whether a query leaves out rows whose value is null."""
    from sqlglot import exp

    select = query.this if isinstance(query, exp.Subquery) else query
    where = select.args.get("where")
    wanted = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    return where is not None and any(part == wanted for part in conjuncts(where.this))


def _without_null(rows: Relation, right: Relation, value: SqlColumn, compiled: CompiledScript, ttl: str, at: int) -> Relation:
    """The rows if no value of the right side is null: else whether a value is NOT IN them is not known."""
    left = rows.then(StepText({"type": "set", "fields": {ANY: "1"}}, at))
    nulls = right.then(
        StepText({"type": "filter", "where": f"{quoted(value.field)} is null"}, at),
        StepText({"type": "set", "fields": {ANY: "1"}}, at),
    )
    number = len(compiled.value["streams"])
    left = compiled.as_stream(left, f"left_of_join_{number}", at)
    nulls = compiled.as_stream(nulls, f"nulls_of_join_{number}", at)
    key = SqlColumn(ANY, ANY, "int")
    changes = next((one.changes_at for one in (left, nulls) if one.changes_at is not None), None)
    joined = join_step(left, nulls, Condition([(key, key)]), "anti", "right.", ttl, at, changes)
    return replace(joined, scope=rows.scope, window=rows.window if joined.changes_at is None else None, is_exact=False)


def compared_rows(
    left: Relation, right: Relation, compiled: CompiledScript, ttl: str, is_except: bool, is_all: bool, at: int
) -> Relation:
    """The rows of INTERSECT and EXCEPT: both sides are counted by row, in which null equals null. Raises ScriptError."""
    if len(left.columns) != len(right.columns):
        counts = f"{len(left.columns)} and {len(right.columns)}"
        raise ScriptError("wrong-columns", f"both queries have equally many columns, not {counts}", at)
    if not (is_except or is_all) and _are_comparable(left, right):
        return _rows_of_both(left, right, compiled, ttl, at)
    fields = [leaf.field for column in left.columns for leaf in leaves(column)]
    number = len(compiled.value["streams"])
    inputs: list[str] = []
    for side, one in ((1, left), (0, right)):
        marked = one.then(StepText({"type": "set", "fields": {SIDE: str(side)}}, at))
        inputs += compiled.as_stream(marked, f"side_of_comparison_{number + 1 - side}", at).inputs
    aggregates = {name: f"count_if({SIDE} = {side})" for name, side in ((LEFT, 1), (RIGHT, 0))}
    options: dict[str, Any] = {"type": "window", "emit": "on_change", "group_by": fields, "aggregates": aggregates}
    options |= {} if ttl == FOR_EVER else {"ttl": ttl}
    steps = [StepText(options, at)]
    if is_all:
        copies = f"{LEFT} - {RIGHT}" if is_except else f"least({LEFT}, {RIGHT})"
        steps.append(StepText({"type": "set", "fields": {COPY: f"whole_numbers({copies})"}}, at))
        steps.append(StepText({"type": "unnest", "field": COPY}, at))
    else:
        steps.append(StepText({"type": "filter", "where": f"{LEFT} > 0 and {RIGHT} {'=' if is_except else '>'} 0"}, at))
    steps.append(StepText({"type": "select", "fields": {name: quoted(name) for name in fields}}, at))
    scope = Scope(tuple(replace(one, time=None) for one in left.columns))
    return Relation(tuple(inputs), tuple(steps), scope, None, at)


_TEXT_TYPES = frozenset(("string", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp"))
"""Types whose values are equal exactly if their texts are."""


def _are_comparable(left: Relation, right: Relation) -> bool:
    """Whether rows are only added on both sides, and have equal types whose texts can be compared."""
    types = [(one.type, other.type) for one, other in zip(left.columns, right.columns, strict=True)]
    return left.changes_at is None and right.changes_at is None and all(a == b and a in _TEXT_TYPES for a, b in types)


def _rows_of_both(left: Relation, right: Relation, compiled: CompiledScript, ttl: str, at: int) -> Relation:
    """INTERSECT of rows that are only added: its rows are only added, too. Texts are compared, so that null equals null."""
    number = len(compiled.value["streams"])
    sides: list[Relation] = []
    keys = [SqlColumn(f"key_{at}_of_row", f"key_{at}_of_row", "string") for at in range(len(left.columns))]
    for name, one in (("left", left), ("right", right)):
        fields = [column.field for column in one.columns]
        steps = [StepText({"type": "dedupe", "keys": fields, "within": ttl}, at)] if name == "left" else []
        texts = {key.field: _key_text(field) for key, field in zip(keys, fields, strict=True)}
        marked = one.then(*steps, StepText({"type": "set", "fields": texts}, at))
        sides.append(compiled.as_stream(marked, f"{name}_of_join_{number}", at))
    joined = join_step(sides[0], sides[1], Condition([(key, key) for key in keys]), "semi", "right.", ttl, at, None)
    columns = {column.field: quoted(column.field) for column in left.columns}
    joined = joined.then(StepText({"type": "select", "fields": columns}, at))
    return replace(joined, scope=left.scope, window=None, is_exact=True)


def _key_text(field: str) -> str:
    name = quoted(field)
    return f"case when {name} is null then 'null' else concat('=', cast({name} as string)) end"


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


def _requalify(node: Any, inner: Scope) -> Any:
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
