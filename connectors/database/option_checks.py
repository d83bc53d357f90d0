"""Checks of a `database` source's options, alone and against the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.database.row_reader import select_list
from connectors.database.session import Session
from connectors.database.tables import inspect_table, is_compatible, list_tables
from etl.api import Finding, format_type, nearest, parse_type

if TYPE_CHECKING:
    from connectors.database.source import DatabaseSource


def check_order(source: DatabaseSource) -> Iterable[Finding]:
    """Yield findings for an option ``time`` or ``id`` that is missing, unknown or of a wrong type."""
    if source.follow and source.id is None:
        hint = "add id: a unique, growing number" + (", which orders rows of the same time" if source.time else "")
        yield Finding("no-id", "follow needs an id to find the rows after the last one", ("follow",), hint)
    for option, name, accepted, fit in (
        ("id", source.id, "a whole number", pa.types.is_integer),
        ("time", source.time, "a timestamp or whole number", lambda t: pa.types.is_timestamp(t) or pa.types.is_integer(t)),
    ):
        if name is None:
            continue
        if name not in source.declared:
            hint = nearest(name, source.declared) or f"add it to fields: {name}: …"
            yield Finding("unknown-field", f"{name!r} is not declared in fields", (option,), hint)
        elif not fit(parse_type(source.declared[name])):
            yield Finding("wrong-type", f"{name!r} is {source.declared[name]}, but {option} must be {accepted}", (option,))
    for option in ("time", "lag", "begin"):
        if not source.follow and option in source.model_fields_set:
            shown = "start" if option == "begin" else option
            yield Finding("unused-option", f"{shown} is only used with follow: true", (shown,), severity="warning")


def check_table(source: DatabaseSource, session: Session) -> Iterable[Finding]:
    """Yield findings for differences between the table and the declared fields."""
    if source.table is None:
        session.run(
            f"SELECT {select_list(session, source.fields(), source.column_names)} FROM {source.from_clause(session)} WHERE 1 = 0"
        )
        return
    table = inspect_table(session, source.table)
    if table is None:
        tables = list_tables(session, source.table)
        hint = nearest(source.table, tables) or f"there are: {', '.join(tables[:20])}"
        yield Finding("unknown-table", f"there is no table {source.table!r}", ("table",), hint)
        return
    for field, column in zip(source.fields(), source.column_names, strict=True):
        if column not in table.columns:
            hint = nearest(column, table.columns) or f"columns: {', '.join(table.columns)}"
            message = f"table {source.table!r} has no column {column!r} for {field.name!r}"
            yield Finding("unknown-column", message, ("fields", field.name), hint)
        elif not is_compatible(field.type, table.columns[column]):
            message = f"column {column!r} is {table.columns[column]}, but field {field.name!r} is {format_type(field.type)}"
            yield Finding("column-type", message, ("fields", field.name), severity="warning")
