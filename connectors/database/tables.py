"""Tables that a sink writes to: inspect, create, and compare with the incoming fields."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import pyarrow as pa

from connectors.database.database_url import Dialect
from connectors.database.errors import RowsError
from connectors.database.session import Session, sqlalchemy_engine
from etl.api import ComponentError, Finding, format_type, nearest

Mode = Literal["insert", "upsert", "ignore", "replace"]


@dataclass(frozen=True)
class TableMapping:
    """Which field is written to which column: the n-th field to the n-th column."""

    table: str
    mode: Mode
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Columns of the key."""
    types: tuple[tuple[str, str], ...] = ()
    """Column → SQL type set by the user, for a created table."""


@dataclass(frozen=True)
class ExistingTable:
    """A table in the database. Types are SQLAlchemy's."""

    columns: Mapping[str, Any]
    unique: tuple[frozenset[str], ...]
    engine: str | None = None

    @property
    def has_transactions(self) -> bool:
        """False for storage engines of MySQL without transactions."""
        return self.engine is None or self.engine.lower() in ("innodb", "rocksdb", "tokudb", "spider", "ndbcluster")


def inspect_table(session: Session, table: str) -> ExistingTable | None:
    """Return the table, or None if it does not exist or the user may not see it."""
    sqlalchemy = import_module("sqlalchemy")
    schema, _, name = table.rpartition(".")
    table_ref = {"table_name": name, "schema": schema or None}
    with session.translating_sqlalchemy_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore", sqlalchemy.exc.SAWarning)  # types and indexes unknown to SQLAlchemy
        inspector = sqlalchemy.inspect(sqlalchemy_engine(session))
        try:
            columns = {column["name"]: column["type"] for column in inspector.get_columns(**table_ref)}
            keys = [inspector.get_pk_constraint(**table_ref)["constrained_columns"]]
            keys += [index["column_names"] for index in inspector.get_indexes(**table_ref) if index["unique"]]
            keys += [constraint["column_names"] for constraint in inspector.get_unique_constraints(**table_ref)]
            options = inspector.get_table_options(**table_ref) if session.dialect == "mysql" else {}
        except sqlalchemy.exc.NoSuchTableError:
            return None
    return ExistingTable(columns, tuple(frozenset(names) for names in keys if names), options.get("mysql_engine"))


def prepare_table(session: Session, target: TableMapping, schema: pa.Schema, create: bool) -> ExistingTable:
    """Return the table to write to, after creating it if needed. Raises ComponentError if the columns do not fit."""
    found = inspect_table(session, target.table)
    if found is None and create:
        with suppress(RowsError):  # PostgreSQL: another task created it at the same moment
            session.run(create_table_sql(session, target, schema))
        found = inspect_table(session, target.table)
    problems = [f for f in compare_table(session, target, schema, found) if f.severity == "error"]
    if found is None or problems:
        url = session.settings.url
        raise ComponentError("; ".join(f"{url}: {f.message}" + (f" ({f.hint})" if f.hint else "") for f in problems))
    return found


def compare_table(session: Session, target: TableMapping, schema: pa.Schema, found: ExistingTable | None) -> Iterable[Finding]:
    """Yield findings: a missing table or column, a column of another type, a key without a unique index."""
    if found is None:
        tables = list_tables(session, target.table)
        hint = nearest(target.table, tables) or f"create it, or set create: true{_tables_hint(tables)}"
        yield Finding("unknown-table", f"there is no table {target.table!r}", ("table",), hint)
        return
    for field, column in zip(target.fields, target.columns, strict=True):
        if column not in found.columns:
            hint = nearest(column, found.columns) or f"columns: {', '.join(found.columns)}"
            yield Finding("unknown-column", f"table {target.table!r} has no column {column!r} for {field!r}", ("columns",), hint)
        elif not is_compatible(schema.field(field).type, found.columns[column]):
            declared, there = format_type(schema.field(field).type), str(found.columns[column])
            message = f"column {column!r} of table {target.table!r} is {there}, but field {field!r} is {declared}"
            yield Finding("column-type", message, ("columns",), "values that do not fit become dead letters", "warning")
    if target.mode != "insert" and target.key and frozenset(target.key) not in found.unique:
        message = f"table {target.table!r} has no unique index on {', '.join(target.key)}, which mode {target.mode} needs"
        yield Finding("no-unique-index", message, ("key",), f"CREATE UNIQUE INDEX … ({', '.join(target.key)})")


def list_tables(session: Session, table: str) -> list[str]:
    """List the tables of the same schema."""
    sqlalchemy = import_module("sqlalchemy")
    schema = table.rpartition(".")[0]
    with session.translating_sqlalchemy_errors():
        found = sqlalchemy.inspect(sqlalchemy_engine(session)).get_table_names(schema=schema or None)
    return [f"{schema}.{name}" if schema else name for name in found]


def is_compatible(type_: pa.DataType, column: Any) -> bool:
    """Return whether values of this type can usually be stored in such a column."""
    types = import_module("sqlalchemy.types")
    kind = next((kinds for applies, kinds in _KINDS if applies(type_)), None)
    if kind is None or isinstance(column, (types.NullType, types.String, types.JSON)):
        return True
    return isinstance(column, tuple(getattr(types, name) for name in kind))


def _tables_hint(tables: list[str]) -> str:
    return f"; there are: {', '.join(tables[:20])}" if tables else ""


_NUMBERS = ("Integer", "Numeric", "Float", "Boolean")
_KINDS = (
    (pa.types.is_timestamp, ("DateTime",)),
    (pa.types.is_date, ("Date", "DateTime")),
    (pa.types.is_boolean, _NUMBERS),
    (pa.types.is_integer, _NUMBERS),
    (pa.types.is_floating, _NUMBERS),
    (pa.types.is_decimal, _NUMBERS),
    (pa.types.is_binary, ("_Binary",)),
    (pa.types.is_string, ("String", "Enum", "Uuid")),
)


# ── Creating a table ────────────────────────────────────────────────────────────────────────────────


def create_table_sql(session: Session, target: TableMapping, schema: pa.Schema) -> str:
    """Return the CREATE TABLE statement: types from the fields, key columns not null and unique."""
    declared = dict(target.types)
    lines = []
    for field, column in zip(target.fields, target.columns, strict=True):
        is_key = column in target.key
        type_ = declared.get(column) or column_type(schema.field(field).type, session.dialect, is_key)
        lines.append(f"{session.quote(column)} {type_}{' NOT NULL' if is_key else ''}")
    if target.key:
        lines.append(f"PRIMARY KEY ({', '.join(map(session.quote, target.key))})")
    end = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4" if session.dialect == "mysql" else ""
    return f"CREATE TABLE IF NOT EXISTS {session.quote_table(target.table)} ({', '.join(lines)}){end}"


def column_type(type_: pa.DataType, dialect: Dialect, is_key: bool = False) -> str:
    """Return the SQL type for a field's type. MySQL cannot index text without a length, so text in a key gets 255 characters."""
    if pa.types.is_decimal(type_):
        return "TEXT" if dialect == "sqlite" else f"DECIMAL({type_.precision},{type_.scale})"
    mysql, postgresql, sqlite = next(names for applies, names in _TYPES if applies(type_))
    if is_key and dialect == "mysql":
        mysql = {"MEDIUMTEXT": "VARCHAR(255) COLLATE utf8mb4_bin", "LONGBLOB": "VARBINARY(255)"}.get(mysql, mysql)
    return {"mysql": mysql, "postgresql": postgresql, "sqlite": sqlite}[dialect]


_TYPES = (
    (pa.types.is_boolean, ("BOOLEAN", "BOOLEAN", "BOOLEAN")),
    (pa.types.is_int8, ("TINYINT", "SMALLINT", "INTEGER")),
    (lambda t: t in (pa.int16(), pa.uint8()), ("SMALLINT", "SMALLINT", "INTEGER")),
    (lambda t: t in (pa.int32(), pa.uint16()), ("INT", "INTEGER", "INTEGER")),
    (lambda t: t in (pa.int64(), pa.uint32()) or pa.types.is_duration(t), ("BIGINT", "BIGINT", "INTEGER")),
    (pa.types.is_uint64, ("BIGINT UNSIGNED", "NUMERIC(20)", "TEXT")),
    (pa.types.is_float32, ("FLOAT", "REAL", "REAL")),
    (pa.types.is_floating, ("DOUBLE", "DOUBLE PRECISION", "REAL")),
    (pa.types.is_date, ("DATE", "DATE", "DATE")),
    (pa.types.is_time, ("TIME(6)", "TIME", "TIME")),
    (lambda t: pa.types.is_timestamp(t) and t.tz is not None, ("DATETIME(6)", "TIMESTAMPTZ", "TIMESTAMP")),
    (pa.types.is_timestamp, ("DATETIME(6)", "TIMESTAMP", "TIMESTAMP")),
    (
        lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t),
        ("LONGBLOB", "BYTEA", "BLOB"),
    ),
    (pa.types.is_nested, ("JSON", "JSONB", "TEXT")),
    (lambda _: True, ("MEDIUMTEXT", "TEXT", "TEXT")),
)
