"""The table that a sink writes to: found, made where it is asked for, and compared with the fields that come."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import pyarrow as pa

from connectors.database.failures import RowsError
from connectors.database.places import Dialect
from connectors.database.session import Session, engine_of
from etl.api import ComponentError, Finding, format_type, nearest

Mode = Literal["insert", "upsert", "ignore", "replace"]


@dataclass(frozen=True)
class Target:
    """What is written where: the n-th field goes to the n-th column."""

    table: str
    mode: Mode
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Columns that tell rows apart."""
    types: tuple[tuple[str, str], ...] = ()
    """Column → its SQL type, where the user says it, for a table that is made."""


@dataclass(frozen=True)
class Found:
    """A table as it is. Types are SQLAlchemy's."""

    columns: Mapping[str, Any]
    unique: tuple[frozenset[str], ...]
    engine: str | None = None

    @property
    def keeps_transactions(self) -> bool:
        """False for the storage engines of MySQL that know none."""
        return self.engine is None or self.engine.lower() in ("innodb", "rocksdb", "tokudb", "spider", "ndbcluster")


def found_table(session: Session, table: str) -> Found | None:
    """The table, or None where there is none (or none that we may see)."""
    sqlalchemy = import_module("sqlalchemy")
    schema, _, name = table.rpartition(".")
    place = {"table_name": name, "schema": schema or None}
    with session.failing_through_sqlalchemy(), warnings.catch_warnings():
        warnings.simplefilter("ignore", sqlalchemy.exc.SAWarning)  # types and indexes that it does not know
        inspector = sqlalchemy.inspect(engine_of(session))
        try:
            columns = {column["name"]: column["type"] for column in inspector.get_columns(**place)}
            keys = [inspector.get_pk_constraint(**place)["constrained_columns"]]
            keys += [index["column_names"] for index in inspector.get_indexes(**place) if index["unique"]]
            keys += [constraint["column_names"] for constraint in inspector.get_unique_constraints(**place)]
            options = inspector.get_table_options(**place) if session.dialect == "mysql" else {}
        except sqlalchemy.exc.NoSuchTableError:
            return None
    return Found(columns, tuple(frozenset(names) for names in keys if names), options.get("mysql_engine"))


def prepared(session: Session, target: Target, schema: pa.Schema, create: bool) -> Found:
    """The table to write to, made if it has to be. Raises ComponentError when it cannot take these columns."""
    found = found_table(session, target.table)
    if found is None and create:
        with suppress(RowsError):  # PostgreSQL: another task made it at the same moment
            session.run(created(session, target, schema))
        found = found_table(session, target.table)
    problems = [f for f in compared(session, target, schema, found) if f.severity == "error"]
    if found is None or problems:
        place = session.access.place
        raise ComponentError("; ".join(f"{place}: {f.message}" + (f" ({f.hint})" if f.hint else "") for f in problems))
    return found


def compared(session: Session, target: Target, schema: pa.Schema, found: Found | None) -> Iterable[Finding]:
    """Findings: a missing table or column, a column of another type, a key without a unique index."""
    if found is None:
        tables = names(session, target.table)
        hint = nearest(target.table, tables) or f"create it, or let the sink: create: true{_list(tables)}"
        yield Finding("unknown-table", f"there is no table {target.table!r}", ("table",), hint)
        return
    for field, column in zip(target.fields, target.columns, strict=True):
        if column not in found.columns:
            hint = nearest(column, found.columns) or f"columns: {', '.join(found.columns)}"
            yield Finding("unknown-column", f"table {target.table!r} has no column {column!r} for {field!r}", ("columns",), hint)
        elif not fits(schema.field(field).type, found.columns[column]):
            given, there = format_type(schema.field(field).type), str(found.columns[column])
            message = f"column {column!r} of table {target.table!r} is {there}, and field {field!r} is {given}"
            yield Finding("column-type", message, ("columns",), "what does not fit goes to the dead letters", "warning")
    if target.mode != "insert" and target.key and frozenset(target.key) not in found.unique:
        message = f"table {target.table!r} has no unique index on {', '.join(target.key)}, which mode {target.mode} needs"
        yield Finding("no-unique-index", message, ("key",), f"CREATE UNIQUE INDEX … ({', '.join(target.key)})")


def names(session: Session, table: str) -> list[str]:
    """Tables beside this one."""
    sqlalchemy = import_module("sqlalchemy")
    schema = table.rpartition(".")[0]
    with session.failing_through_sqlalchemy():
        found = sqlalchemy.inspect(engine_of(session)).get_table_names(schema=schema or None)
    return [f"{schema}.{name}" if schema else name for name in found]


def fits(type_: pa.DataType, column: Any) -> bool:
    """Whether values of this type usually can be stored in such a column."""
    types = import_module("sqlalchemy.types")
    kind = next((kinds for applies, kinds in _KINDS if applies(type_)), None)
    if kind is None or isinstance(column, (types.NullType, types.String, types.JSON)):
        return True
    return isinstance(column, tuple(getattr(types, name) for name in kind))


def _list(tables: list[str]) -> str:
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


# ── Making a table ────────────────────────────────────────────────────────────────────────────────


def created(session: Session, target: Target, schema: pa.Schema) -> str:
    """The statement that makes the table: types by the fields, key columns not null and unique."""
    given = dict(target.types)
    lines = []
    for field, column in zip(target.fields, target.columns, strict=True):
        keyed = column in target.key
        type_ = given.get(column) or column_type(schema.field(field).type, session.dialect, keyed)
        lines.append(f"{session.quoted(column)} {type_}{' NOT NULL' if keyed else ''}")
    if target.key:
        lines.append(f"PRIMARY KEY ({', '.join(map(session.quoted, target.key))})")
    end = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4" if session.dialect == "mysql" else ""
    return f"CREATE TABLE IF NOT EXISTS {session.qualified(target.table)} ({', '.join(lines)}){end}"


def column_type(type_: pa.DataType, dialect: Dialect, keyed: bool = False) -> str:
    """SQL's type for a field's. MySQL cannot index texts without a length, so key columns of it take 255 characters."""
    if pa.types.is_decimal(type_):
        return "TEXT" if dialect == "sqlite" else f"DECIMAL({type_.precision},{type_.scale})"
    mysql, postgresql, sqlite = next(names for applies, names in _TYPES if applies(type_))
    if keyed and dialect == "mysql":
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
