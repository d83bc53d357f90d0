"""Rows of a query as record batches of declared types.

MySQL's packets are cut by a kernel (`packets`), PostgreSQL's COPY gives CSV, which Arrow reads; `sqlite3` gives Python values,
a row at a time: there is no other way through it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from connectors.database import packets
from connectors.database.arrays import Bad, typed
from connectors.database.places import Dialect
from connectors.database.ranges import number
from connectors.database.session import Session
from etl.api import ComponentError, Schema

BATCH_ROWS = 16_384


def selected(session: Session, schema: Schema, columns: Sequence[str]) -> str:
    """What stands behind SELECT: quoted columns, times as microseconds and bytes as hex where the texts of a database vary."""
    return ", ".join(
        _CHOSEN[session.dialect](field.type, session.quoted(name)) for field, name in zip(schema, columns, strict=True)
    )


def rows(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, Bad | None]]:
    """Run a query whose columns are those of `selected`. Rows at fault have nulls in their place."""
    return _READ[session.dialect](session, sql, schema)


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────


def _postgresql_column(type_: pa.DataType, column: str) -> str:
    if pa.types.is_timestamp(type_):
        return number("postgresql", type_, column)
    return f"encode({column}, 'hex')" if pa.types.is_binary(type_) else column


def _postgresql(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, Bad | None]]:
    """Loops over rows: psycopg hands over one at a time. A statement may take as long as its rows do."""
    session.run("SET statement_timeout = 0")
    with session.failing(), session.driver.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)") as copy:
        lines: list[bytes] = []
        for line in copy:
            lines.append(bytes(line))
            if len(lines) == BATCH_ROWS:
                yield _parsed(lines, schema, session), None
                lines = []
        if lines:
            yield _parsed(lines, schema, session), None


def _parsed(lines: list[bytes], schema: Schema, session: Session) -> pa.RecordBatch:
    import pyarrow.csv as csv

    types = [_CSV_TYPES.get(field.type, field.type) for field in schema]
    names = [str(place) for place in range(len(types))]
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
        raise ComponentError(f"{session.access.place}: a value is not of the type that fields says: {error}") from error
    arrays = [_final(column.combine_chunks(), field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _final(values: pa.Array, type_: pa.DataType) -> pa.Array:
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


def _mysql(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, Bad | None]]:
    with session.failing():
        for found in packets.columns(session.driver, sql):
            yield typed(found, schema)


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, Bad | None]]:
    cursor = session.run(sql)
    while True:
        with session.failing():
            found = cursor.fetchmany(BATCH_ROWS)
        if not found:
            return
        yield typed(list(zip(*found, strict=True)), schema)


def _plain_column(type_: pa.DataType, column: str) -> str:
    return column


_CHOSEN: dict[Dialect, Callable[[pa.DataType, str], str]] = {
    "mysql": _plain_column,
    "postgresql": _postgresql_column,
    "sqlite": _plain_column,
}
_READ: dict[Dialect, Callable[[Session, str, Schema], Iterator[tuple[pa.RecordBatch, Bad | None]]]] = {
    "mysql": _mysql,
    "postgresql": _postgresql,
    "sqlite": _sqlite,
}
