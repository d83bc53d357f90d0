"""``JOIN table FOR SYSTEM_TIME AS OF PROCTIME()`` over a table for look-ups → the step `lookup`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, leaves, parts_of
from etl.sql.compiled import plain_name
from etl.sql.expressions import spark_text
from etl.sql.join_conditions import JoinCondition, read_condition
from etl.sql.relation import Relation, StepText
from etl.sql.statements import CreateTable, ScriptError, start
from etl.sql.tables import declared_columns

Declare = Callable[[CreateTable, list[str], int], tuple[str, list[str]]]
"""Gives the name of the look-up table that has these columns as keys, and the keys in its order. Raises ScriptError."""


def lookup_rows(
    relation: Relation,
    select: Any,
    join: Any,
    on: list[Any],
    table: CreateTable,
    declare: Declare,
) -> Relation:
    """The rows with the columns of a table.

    Of a table without columns those are read that the query names with the table before them. Raises ScriptError.
    """
    at, is_left = start(join), str(join.args.get("side") or "").upper() == "LEFT"
    name = join.this.alias or table.name
    columns = declared_columns(table)
    is_open = not columns
    condition = read_condition(on, relation.scope, Scope(columns, is_open=is_open).qualified(name))
    if is_open:
        keys = [other.name for _, other in condition.equal]
        columns = tuple(SqlColumn(one, one) for one in _used_columns(select, name, keys))
    right = Scope(columns).qualified(name)
    extra, pairs = _key_pairs(relation.scope, right, condition, at)
    if not pairs:
        raise ScriptError("unsupported-sql", "a look-up needs ON column = key of the table", at)
    _refuse_conditions(condition, pairs, table, is_left, at)
    if "*" in (column.name for column in columns):
        hint = f"name the columns that are needed, or declare those of {table.name!r}"
        raise ScriptError("wrong-columns", f"which columns {name}.* stands for is not known here", at, hint)
    declared, keys = declare(table, [key for _, key in pairs], at)
    pairs.sort(key=lambda pair: keys.index(pair[1]))
    fields = [field for field, _ in pairs]
    taken = {*fields, *_left_fields(select, relation.scope, right)}
    with_all = relation.scope.is_open and any(item.is_star for item in select.expressions)
    aliases = _aliases(select, name) if is_open or with_all else {}
    added = _added_fields(relation.scope, right, table.name, taken, aliases, _used_columns(select, name, ()) if with_all else ())
    options: dict[str, Any] = {"type": "lookup", "table": declared}
    options["on"] = fields[0] if len(fields) == 1 else fields
    options["add"] = {added[column.name]: column.name for column in columns}
    options["several"] = "all"
    options["miss"] = "keep" if is_left else "drop"
    replaced = _replaced_fields(select, list(options["add"]), aliases if with_all else None)
    if relation.scope.is_open and len(replaced) < len(added):
        options["replaces"] = replaced
    if not options["add"]:
        hint = f"name those that are needed with {name!r} before them, or declare the columns of the table"
        raise ScriptError("wrong-columns", f"the query names no column of {table.name!r}, which declares none", at, hint)
    found = (replace(one, field=added[one.name]) for one in right.columns)
    scope = replace(relation.scope, columns=(*relation.columns, *found))
    relation = relation.then(*extra, StepText(options, at), scope=scope, is_exact=False)
    if condition.others:
        text = " and ".join(f"({spark_text(part, scope)})" for part in condition.others)
        relation = relation.then(StepText({"type": "filter", "where": text}, at))
    return relation


def _refuse_conditions(
    condition: JoinCondition, pairs: Sequence[tuple[str, str]], table: CreateTable, is_left: bool, at: int
) -> None:
    """Raise ScriptError for an ON that a look-up cannot have: a key compared twice, or more than keys where rows stay."""
    repeated = next((key for number, (_, key) in enumerate(pairs) if key in [other for _, other in pairs[:number]]), None)
    if repeated is not None:
        hint = "compare it once in ON, and the other columns in WHERE"
        raise ScriptError("wrong-columns", f"the key {repeated!r} of the table {table.name!r} is compared twice", at, hint)
    if condition.others and is_left:
        text = condition.others[0].sql(dialect="spark")
        hint = "let a CASE in the list of SELECT give null where it is not met, or use JOIN"
        raise ScriptError("unsupported-sql", f"a LEFT JOIN of a look-up cannot have the condition {text}", at, hint)


def _key_pairs(left: Scope, right: Scope, condition: JoinCondition, at: int) -> tuple[list[StepText], list[tuple[str, str]]]:
    """Steps that compute keys, and pairs of a field and the column of the table; such a pair is taken out of the condition."""
    extra: list[StepText] = []
    pairs = [(one.field, other.name) for one, other in condition.equal]
    for part in list(condition.others):
        if computed := _computed_pair(part, left, right):
            name = f"key_{len(pairs) + 1}"
            extra.append(StepText({"type": "set", "fields": {name: computed[0]}}, at))
            pairs.append((name, computed[1]))
            condition.others.remove(part)
    return extra, pairs


def _left_fields(select: Any, left: Scope, right: Scope) -> set[str]:
    """The fields that a query names of rows that have other fields than those that are known; after WHERE a name without a table
    may be one of the list of SELECT."""
    from sqlglot import exp

    if not left.is_open:
        return set()
    roots = [*select.expressions, *(select.args.get("joins") or ()), select.args.get("where")]
    plain = [parts_of(column) for root in roots if root is not None for column in root.find_all(exp.Column)]
    columns = [*plain, *(parts_of(column) for column in select.find_all(exp.Column) if column.table)]
    tables = {one.name.lower() for one in left.tables}
    others = {name.lower() for one in (*left.columns, *right.columns) for name in (one.name, one.qualifier or "")}
    found = set()
    for parts in columns:
        if len(parts) > 1 and parts[0].lower() in tables:
            found.add(".".join(parts[1:]))
        elif parts[0].lower() not in others:
            found.add(".".join(parts))
    return found


def _added_fields(
    left: Scope, right: Scope, table: str, keys: Collection[str], aliases: Mapping[str, str], named: Collection[str]
) -> dict[str, str]:
    """Column of the table → its field: with the table's name before it where the rows have such a field, or may have it: beside
    ``*``, for columns ``named`` with the table, of which only the list of SELECT says what they replace."""
    taken = {*keys, *(leaf.field for column in left.columns for leaf in leaves(column)), *(set(named) - set(aliases))}
    names = {one.name: aliases.get(one.name, one.name) for one in right.columns}
    return {name: f"{plain_name(table)}_{name}" if field in taken else field for name, field in names.items()}


def _replaced_fields(select: Any, added: Sequence[str], aliases: Mapping[str, str] | None) -> list[str]:
    """The added fields that may replace one of rows with unknown fields: beside ``*`` those that the list of SELECT names
    (``aliases``), else those that the query does not name without a table, which might mean the field of the rows."""
    from sqlglot import exp

    if aliases is not None:
        return [field for field in added if field in aliases.values()]
    named = {column.name.lower() for column in select.find_all(exp.Column) if not column.table}
    return [field for field in added if field.lower() not in named]


def _used_columns(select: Any, table: str, keys: Sequence[str]) -> list[str]:
    """The columns that a query names with the table before them, but for keys that stand in ON only."""
    from sqlglot import exp

    used: dict[str, int] = {}
    for column in select.find_all(exp.Column):
        if column.table.lower() == table.lower() and not column.args.get("db"):
            used[column.name] = used.get(column.name, 0) + 1
    return [name for name, count in used.items() if count > keys.count(name)]


def _aliases(select: Any, table: str) -> dict[str, str]:
    """Column of a table → the name that it has in the list of SELECT, if it has one only there."""
    from sqlglot import exp

    found: dict[str, set[str]] = {}
    for item in select.expressions:
        column = item.unalias()
        if isinstance(item, exp.Alias) and isinstance(column, exp.Column) and column.table.lower() == table.lower():
            found.setdefault(column.name, set()).add(item.alias)
    names = [name for aliases in found.values() for name in aliases]
    return {name: next(iter(aliases)) for name, aliases in found.items() if len(aliases) == 1 and names.count(*aliases) == 1}


def _computed_pair(node: Any, left: Scope, right: Scope) -> tuple[str, str] | None:
    """The expression over the left side and the key of the right one that a condition sets equal."""
    from sqlglot import exp

    if not isinstance(node, exp.EQ):
        return None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Column):
            try:
                key = right.find([part.name for part in other.parts], start(other))
                return spark_text(one, left), key.name
            except ScriptError:
                continue
    return None
