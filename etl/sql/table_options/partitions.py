"""Columns that have one value in all rows of an INSERT, and columns by which the rows of a table are in folders."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from etl.sql.columns import Scope
from etl.sql.expressions import interval_or_other, resolved, text_of
from etl.sql.functions.casts import implicit_cast
from etl.sql.functions.typed_nodes import sql_type
from etl.sql.relation import StepText
from etl.sql.statements import CreateTable, Insert, PartitionValue, ScriptError, start
from etl.sql.tables import declared_columns


def partition_steps(table: CreateTable, insert: Insert) -> list[StepText]:
    """The step that gives the columns of ``PARTITION (…)`` their values; none without the clause. Raises ScriptError."""
    if not insert.partition:
        return []
    types = {column.name.lower(): (column.name, column.type) for column in declared_columns(table)}
    _check_names(table, insert, list(types))
    fields, starts = {}, dict[tuple[str | int, ...], int]()
    for one in insert.partition:
        name, type_ = types[one.name.lower()]
        fields[name] = _value(one, type_)
        starts["fields", name] = start(one.value) or one.at
    return [StepText({"type": "set", "fields": fields}, insert.partition[0].at, starts)]


def _check_names(table: CreateTable, insert: Insert, declared: Sequence[str]) -> None:
    """Each name is that of a column of PARTITIONED BY, once, and the query does not write it. Raises ScriptError."""
    divided, named = {name.lower() for name in table.partitioned_by}, {name.lower() for name in insert.columns}
    known_names: set[str] = set()
    for one in insert.partition:
        name = one.name.lower()
        if name not in declared:
            near = get_close_matches(name, sorted(divided & {*declared}) or declared, 1)
            hint = f"is {near[0]!r} meant?" if near else f"the columns are {', '.join(declared)}"
            raise ScriptError("unknown-field", f"PARTITION: {table.name!r} has no column {one.name!r}", one.at, hint)
        if name not in divided:
            hint = f"declare the table with PARTITIONED BY ({one.name}), or write the value as a column of the query"
            raise ScriptError("wrong-columns", f"{table.name!r} is not partitioned by {one.name!r}", one.at, hint)
        if name in known_names or name in named:
            where = "the columns that the query writes" if name in named else "PARTITION"
            raise ScriptError("duplicate-column", f"{one.name!r} is in {where} as well", one.at, "name it once")
        known_names.add(name)


def _value(one: PartitionValue, type_: str | None) -> str:
    """The text of a constant with the type of its column. Raises ScriptError."""
    from sqlglot import exp

    if one.value.find(exp.Column, exp.Query):
        hint = "leave PARTITION out, and give the column as one of the query"
        raise ScriptError("wrong-columns", f"the value of {one.name!r} is not a constant", one.at, hint)
    node: Any = interval_or_other(resolved(one.value, Scope(())))
    text, own = text_of(node), sql_type(node)
    return text if type_ is None or own == type_ else implicit_cast(text, own, type_)


def partition_warning(table: CreateTable) -> ScriptError | None:
    """PARTITIONED BY has no effect unless the path of the table, which says where rows go, names the same columns."""
    texts = [option.value for option in table.options]
    if all(any(f"{{{name}}}" in text for text in texts) for name in table.partitioned_by):
        return None
    folders = "/".join(f"{name}={{{name}}}" for name in table.partitioned_by)
    message = f"PARTITIONED BY of {table.name!r} has no effect: the path of the table says into which folders rows go"
    return ScriptError("no-effect", message, table.at, f"for folders write 'path' = 'out/{folders}/'")
