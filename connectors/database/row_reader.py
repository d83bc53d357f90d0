"""Reads the rows of a query as record batches of declared types.

MySQL's packets are cut by a kernel (`mysql_packets`), PostgreSQL's COPY gives CSV that Arrow reads; `sqlite3` only offers
Python values, one row at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from connectors.database import mysql_packets
from connectors.database.database_url import Dialect
from connectors.database.row_ranges import time_as_number
from connectors.database.session import Session
from connectors.shared.typed_batch import UnreadableRows, to_typed_batch
from etl.api import ComponentError, Schema

BATCH_ROWS = 16_384
"""Rows of a batch, except for MySQL."""


def select_list(session: Session, schema: Schema, columns: Sequence[str]) -> str:
    """Return the text after SELECT: quoted columns, times as microseconds, and bytes as hex if a database's text form varies."""
    return ", ".join(
        _SELECTED_COLUMNS[session.dialect](field.type, session.quote(name)) for field, name in zip(schema, columns, strict=True)
    )


def read_rows(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, UnreadableRows | None]]:
    """Run a query with the columns of `select_list`. Unreadable values are null."""
    return _READERS[session.dialect](session, sql, schema)


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────


def _postgresql_column(type_: pa.DataType, column: str) -> str:
    if pa.types.is_timestamp(type_):
        return time_as_number("postgresql", type_, column)
    return f"encode({column}, 'hex')" if pa.types.is_binary(type_) else column


def _postgresql(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, UnreadableRows | None]]:
    """Read in a loop over rows, because psycopg returns one at a time. The statement may run as long as its rows are read."""
    session.run("SET statement_timeout = 0")
    session.driver.answer_seconds = None
    with (
        session.translating_errors(),
        session.driver.cursor() as cursor,
        cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)") as copy,
    ):
        lines: list[bytes] = []
        for line in copy:
            lines.append(bytes(line))
            if len(lines) == BATCH_ROWS:
                yield _parse_csv(lines, schema, session), None
                lines = []
        if lines:
            yield _parse_csv(lines, schema, session), None


def _parse_csv(lines: list[bytes], schema: Schema, session: Session) -> pa.RecordBatch:
    import pyarrow.csv as csv

    types = [_CSV_TYPES.get(field.type, field.type) for field in schema]
    names = [str(number) for number in range(len(types))]
    data = b"".join(lines)
    try:
        table = csv.read_csv(
            io.BytesIO(data),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict(zip(names, types, strict=True)),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowInvalid as error:
        raise ComponentError(f"{session.settings.url}: a value is not of the type declared in fields: {error}") from error
    arrays = [_from_csv_type(column.combine_chunks(), field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _from_csv_type(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return _unhex(values) if pa.types.is_binary(type_) else values.cast(type_)


def _unhex(texts: pa.Array) -> pa.Array:
    import polars as pl

    return pl.Series(texts).str.decode("hex").to_arrow().cast(pa.binary())


_CSV_TYPES = {
    pa.timestamp("us", tz="UTC"): pa.int64(),
    pa.timestamp("us"): pa.int64(),
    pa.binary(): pa.string(),
}


# ── MySQL, MariaDB ────────────────────────────────────────────────────────────────────────────────


def _mysql(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, UnreadableRows | None]]:
    with session.translating_errors():
        for found in mysql_packets.read_columns(session.driver, sql):
            yield to_typed_batch(found, schema)


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, UnreadableRows | None]]:
    cursor = session.run(sql)
    while True:
        with session.translating_errors():
            found = cursor.fetchmany(BATCH_ROWS)
        if not found:
            return
        yield to_typed_batch(list(zip(*found, strict=True)), schema)


def _plain_column(type_: pa.DataType, column: str) -> str:
    return column


_SELECTED_COLUMNS: dict[Dialect, Callable[[pa.DataType, str], str]] = {
    "mysql": _plain_column,
    "postgresql": _postgresql_column,
    "sqlite": _plain_column,
}
_READERS: dict[Dialect, Callable[[Session, str, Schema], Iterator[tuple[pa.RecordBatch, UnreadableRows | None]]]] = {
    "mysql": _mysql,
    "postgresql": _postgresql,
    "sqlite": _sqlite,
}
