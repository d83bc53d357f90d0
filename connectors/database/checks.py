"""What is wrong with the options of a `database` source, by themselves and beside the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.database.reading import selected
from connectors.database.session import Session
from connectors.database.tables import fits, found_table, names
from etl.api import Finding, format_type, nearest, parse_type

if TYPE_CHECKING:
    from connectors.database.source import DatabaseSource


def of_order(source: DatabaseSource) -> Iterable[Finding]:
    """A time or id that is missing, unknown or of another type."""
    if source.follow and source.id is None:
        hint = "add id: a unique, growing number" + (", which tells rows of one time apart" if source.time else "")
        yield Finding("no-id", "following needs to know which rows come behind the last one", ("follow",), hint)
    for option, name, accepted, fit in (
        ("id", source.id, "a whole number", pa.types.is_integer),
        ("time", source.time, "a timestamp or whole number", lambda t: pa.types.is_timestamp(t) or pa.types.is_integer(t)),
    ):
        if name is None:
            continue
        if name not in source.declared:
            hint = nearest(name, source.declared) or f"add it to fields: {name}: …"
            yield Finding("unknown-field", f"fields declares no {name!r}", (option,), hint)
        elif not fit(parse_type(source.declared[name])):
            yield Finding("wrong-type", f"{name!r} is {source.declared[name]}, and {option} is {accepted}", (option,))
    for option in ("time", "lag", "begin"):
        if not source.follow and option in source.model_fields_set:
            shown = "start" if option == "begin" else option
            yield Finding("unused-option", f"{shown} is for follow: true", (shown,), severity="warning")


def of_table(source: DatabaseSource, session: Session) -> Iterable[Finding]:
    """What the database has, beside what the fields say."""
    if source.table is None:
        session.run(f"SELECT {selected(session, source.fields(), source.chosen)} FROM {source.rows(session)} WHERE 1 = 0")
        return
    found = found_table(session, source.table)
    if found is None:
        there = names(session, source.table)
        hint = nearest(source.table, there) or f"there are: {', '.join(there[:20])}"
        yield Finding("unknown-table", f"there is no table {source.table!r}", ("table",), hint)
        return
    for field, column in zip(source.fields(), source.chosen, strict=True):
        if column not in found.columns:
            hint = nearest(column, found.columns) or f"columns: {', '.join(found.columns)}"
            message = f"table {source.table!r} has no column {column!r} for {field.name!r}"
            yield Finding("unknown-column", message, ("fields", field.name), hint)
        elif not fits(field.type, found.columns[column]):
            message = f"column {column!r} is {found.columns[column]}, and field {field.name!r} {format_type(field.type)}"
            yield Finding("column-type", message, ("fields", field.name), severity="warning")
