"""Rows of a query as record batches of declared types.

PostgreSQL's COPY gives them as CSV, which Arrow reads; PyMySQL (without its conversions) and `sqlite3` give Python values,
a row at a time: there is no other way through them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.database.places import Dialect
from connectors.database.ranges import number
from connectors.database.session import Session
from etl.api import ComponentError, Schema, format_type

BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Bad:
    """Rows that are not of the declared types: their number in the batch, and why."""

    rows: list[int]
    reasons: list[str]


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
    from pymysql.cursors import SSCursor  # type: ignore[import-untyped]

    session.driver.decoders = {}  # texts as the server sends them: Arrow casts a column at once
    with session.failing(), session.driver.cursor(SSCursor) as cursor:
        cursor.execute(sql)
        while found := cursor.fetchmany(BATCH_ROWS):
            yield _typed(found, schema)


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(session: Session, sql: str, schema: Schema) -> Iterator[tuple[pa.RecordBatch, Bad | None]]:
    cursor = session.run(sql)
    while True:
        with session.failing():
            found = cursor.fetchmany(BATCH_ROWS)
        if not found:
            return
        yield _typed(found, schema)


# ── Python values ─────────────────────────────────────────────────────────────────────────────────


def _typed(found: Sequence[Sequence[Any]], schema: Schema) -> tuple[pa.RecordBatch, Bad | None]:
    """Rows of Python values as a batch."""
    arrays, faults = [], {}
    for field, values in zip(schema, zip(*found, strict=True), strict=True):
        try:
            arrays.append(_array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array, bad = _one_by_one(values, field)
            arrays.append(array)
            faults.update({row: reason for row, reason in bad.items() if row not in faults})
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch, Bad(list(faults), list(faults.values())) if faults else None


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Values of one column, texts cast by Arrow."""
    if type_ in (pa.string(), pa.binary()):
        return _texts(values, type_)
    found = next((value for value in values if value is not None), None)
    if isinstance(found, bytes):
        return pa.array(values, pa.binary()).cast(pa.string()).cast(type_)
    if not isinstance(found, str):
        return pa.array(values).cast(type_)
    texts = pa.array(values, pa.string())
    if pa.types.is_boolean(type_):
        return texts.cast(pa.int64()).cast(type_)
    if pa.types.is_timestamp(type_):  # written in UTC, whether they say so or not
        return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us")).cast(type_)
    return texts.cast(type_)


def _texts(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError):  # numbers that are declared as texts, bytes that are texts or are not
        texts = [value if value is None or isinstance(value, bytes | str) else str(value) for value in values]
        return pa.array([v.encode() if isinstance(v, str) else v for v in texts], pa.binary()).cast(type_)


def _one_by_one(values: Sequence[Any], field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    """Which values are at fault, where a column as a whole could not be read."""
    arrays, bad = [], {}
    for row, value in enumerate(values):
        try:
            arrays.append(_array([value], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays.append(pa.nulls(1, field.type))
            bad[row] = f"{field.name} is {value!r:.100}, which is no {format_type(field.type)}"
    return pa.concat_arrays(arrays), bad


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
