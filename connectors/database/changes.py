"""Writes a changelog to a table: the last change of each key in a batch inserts or updates its row, or deletes it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.database.bulk_insert import InsertRows
from connectors.database.database_url import Dialect
from connectors.database.session import Session
from connectors.database.sql_values import to_python_values
from connectors.database.tables import TableMapping
from etl.api import is_changing, last_of_keys, signs

_IS_SAME: dict[Dialect, str] = {"mysql": "{} <=> %s", "postgresql": "{} IS NOT DISTINCT FROM %s", "sqlite": "{} IS ?"}
"""A comparison in which null equals null."""


def with_changes_applied(session: Session, target: TableMapping, insert_rows: InsertRows) -> InsertRows:
    """Return a function that writes events of a changelog, and other events as ``insert_rows`` does."""
    fields = [field for field, column in zip(target.fields, target.columns, strict=True) if column in target.key]
    columns = [column for column in target.columns if column in target.key]

    def write_changes(batch: pa.RecordBatch) -> None:
        if not is_changing(batch.schema):
            insert_rows(batch)
            return
        last = batch.take(pa.array(last_of_keys(batch, fields)))
        is_gone = signs(last) < 0
        if is_gone.any():
            _delete(session, target, columns, [last.filter(pa.array(is_gone)).column(name) for name in fields])
        if not is_gone.all():
            insert_rows(last.filter(pa.array(~is_gone)))

    return write_changes


def _delete(session: Session, target: TableMapping, columns: Sequence[str], keys: Sequence[pa.Array]) -> None:
    condition = " AND ".join(_IS_SAME[session.dialect].format(session.quote(column)) for column in columns)
    statement = f"DELETE FROM {session.quote_table(target.table)} WHERE {condition}"
    values = list(zip(*(to_python_values(key) for key in keys), strict=True))
    with session.translating_errors():
        cursor = session.driver.cursor()
        cursor.executemany(statement, values)
        cursor.close()
