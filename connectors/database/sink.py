"""The ``database`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.database import ledger
from connectors.database.options import DatabaseOptions, TableName
from connectors.database.places import UrlError, place_of, table_url
from connectors.database.probing import reached
from connectors.database.session import Session, session_of
from connectors.database.tables import Mode, Target, compared, found_table
from connectors.database.whole import WholeWriter
from connectors.database.writer import BatchWriter, Table
from etl.api import (
    BatchId,
    Batching,
    Committer,
    ComponentError,
    FieldName,
    Finding,
    Guarantee,
    Schema,
    Sink,
    Staged,
    Task,
    Writer,
    nearest,
    visible,
)

Column = Annotated[str, Field(min_length=1, max_length=64)]
SqlType = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_ (),]*$",
        json_schema_extra={"patternErrorMessage": "is no SQL type, such as VARCHAR(20) or BIGINT"},
    ),
]
LEDGER = "sluice_ledger"


class DatabaseSink(DatabaseOptions, Sink):
    """Write events as rows of a table: MySQL, MariaDB, PostgreSQL or SQLite.

    Exactly once, by a ledger: a table of ours (`ledger`) in the same database, whose row for the split is moved forward in
    the transaction of the data. A crash, a lost connection, a deadlock or a second writer therefore neither loses nor
    repeats a row; rows are seen as their batch is written, before the micro-batch is over. It needs transactions: tables of
    MyISAM, or a user who may not make or write the ledger, take ``delivery: at_least_once``. Tested on MariaDB 10.11,
    MySQL 8.0.15, PostgreSQL 15 and SQLite, by killing driver and workers at random points and restarting the server: in ten
    runs of 200,000 events each from Kafka and from files into MariaDB none was lost or came twice.

    Events of a split are written in order; splits, the unit of parallelism, have a connection each and are not ordered
    among each other. A batch is one statement of SQL text for MySQL, one COPY for PostgreSQL, one `executemany` for SQLite
    (where one task writes at a time); a task's memory is a batch, by default of up to 10,000 rows or 32 MiB, and its text. A
    batch that the database refuses is cut until the rows at fault stand alone; those go to the dead letters
    (``database-rejected``) with the database's reason: a text too long, a wrong value, a constraint. No value is cut or
    changed to fit: MySQL is used in strict mode. SQLite itself checks neither lengths nor types, and stores NaN as null.

    A field goes to the column of its name, dots as underscores (``source.ip`` to ``source_ip``), or as ``columns`` says.
    Times are UTC, lists and maps JSON text. ``mode``: insert, where a key that exists is a bad row; upsert changes the
    columns that are given; ignore keeps the row that is there; replace changes the whole row, columns that are not given
    to their defaults. A statement whose connection is lost, that deadlocks or waits too long for a lock, or that finds no
    room, is tried again as ``retry`` says; a wrong password or a missing table or column ends the run.

    ```yaml
    type: database
    url: mysql://localhost:3306/logs
    user: sluice
    password: ${DB_PASSWORD}
    table: logins
    mode: upsert
    key: [event.id]
    create: true
    ```
    """

    type: Literal["database"] = "database"
    table: TableName = Field(description="The table, or `schema.table`.")
    columns: dict[FieldName, Column] | None = Field(
        default=None,
        min_length=1,
        description="Field → column: only these are written. Without it all are, dots in names as underscores.",
        examples=[{"source.ip": "ip", "message": "text"}],
    )
    mode: Mode = Field(default="insert", description="What happens when a row with the same key is there already.")
    key: tuple[FieldName, ...] = Field(
        default=(), description="Fields that tell rows apart: their columns have a unique index.", examples=[["event.id"]]
    )
    create: bool = Field(default=False, description="Make the table when it is not there, with types by the fields.")
    types: dict[FieldName, SqlType] = Field(
        default={}, description="SQL types of columns of a table that is made.", examples=[{"message": "VARCHAR(2000)"}]
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="With the ledger, or without: then a crash may repeat rows."
    )
    ledger: TableName = Field(default=LEDGER, description="Table of what is written already; made when it is not there.")
    batch: Batching = Field(
        default=Batching(max_events=10_000, max_bytes=32 << 20), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "exactly once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """A URL that cannot be read, unknown fields, columns that two fields share, a mode without its key."""
        yield from self.url_findings()
        fields = visible(incoming)
        for path, names in (("columns", self.columns or ()), ("key", self.key), ("types", self.types)):
            for number, name in enumerate(names):
                if name not in fields.names:
                    at = (path, number) if path == "key" else (path, name)
                    hint = nearest(name, fields.names) or f"fields here: {', '.join(fields.names)}"
                    yield Finding("unknown-field", f"there is no field {name!r} here", at, hint)
                elif path != "columns" and self.columns is not None and name not in self.columns:
                    yield Finding("unknown-field", f"{name!r} is written to no column", (path,), f"add it to columns: {name}: …")
        yield from self._column_findings(fields)
        if self.mode in ("upsert", "replace") and not self.key:
            yield Finding("no-key", f"mode {self.mode} needs to know which rows are the same", ("mode",), "add key: [field]")
        if self.types and not self.create:
            yield Finding("unused-option", "types is for a table that is made: create: true", ("types",), severity="warning")

    def _column_findings(self, fields: Schema) -> Iterable[Finding]:
        seen: dict[str, str] = {}
        for field, column in self._columns(fields).items():
            other = seen.setdefault(column.lower(), field)
            if other != field:
                message = f"fields {other!r} and {field!r} both go to column {column!r}"
                yield Finding("duplicate-column", message, ("columns",), "name another column for one of them")

    def guaranteed(self) -> Guarantee:
        """As ``delivery`` says."""
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def host_path(self) -> str | None:
        """SQLite's file."""
        with suppress(UrlError):
            place = place_of(self.url)
            return place.database if place.dialect == "sqlite" else None
        return None

    def writes(self) -> Iterable[str]:
        """The table."""
        return (table_url(place_of(self.url), self.table),)

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Reach it, log in, compare the table with the fields."""
        yield from reached(self.access, lambda session: self._compared(session, visible(incoming)))

    def _compared(self, session: Session, fields: Schema) -> Iterable[Finding]:
        found = found_table(session, self.table)
        if found is None and self.create:
            return
        yield from compared(session, self._target(fields), fields, found)
        if found is not None and self.delivery == "exactly_once" and not found.keeps_transactions:
            message = f"table {self.table!r} is of engine {found.engine}, which has no transactions"
            yield Finding("no-transactions", message, ("table",), "ALTER TABLE … ENGINE=InnoDB, or delivery: at_least_once")

    def open(self, task: Task) -> Writer:
        """Connects when the first batch is written."""
        exactly = self.delivery == "exactly_once"
        table = Table(self.access, self._target(task.schema), task.schema, self.create, self.ledger if exactly else None)
        entry = ledger.Entry(self.ledger, ledger.key_of(task)) if exactly else None
        return BatchWriter(table, entry) if task.ordered else WholeWriter(table, entry, self.retry)

    def committer(self, folder: str) -> Committer | None:
        """Forgets what the ledger holds of finished micro-batches."""
        return _Forgetting(self) if self.delivery == "exactly_once" else None

    def _columns(self, fields: Schema) -> dict[str, str]:
        return self.columns or {name: name.replace(".", "_") for name in fields.names}

    def _target(self, fields: Schema) -> Target:
        columns = self._columns(fields)
        types = tuple((columns[field], type_) for field, type_ in self.types.items())
        return Target(self.table, self.mode, tuple(columns), tuple(columns.values()), tuple(columns[k] for k in self.key), types)


class _Forgetting:
    """Deletes entries that are never asked for again. What it cannot delete now, a later micro-batch's commit does."""

    def __init__(self, sink: DatabaseSink) -> None:
        self._sink = sink
        self._names: set[str] = set()

    def commit(self, batch: BatchId, staged: Iterable[Staged]) -> None:
        """``detail`` of what was staged is the sink's name."""
        names = {item.detail for item in staged}
        for name in names:
            try:
                ledger.forget(session_of(self._sink.access), self._sink.ledger, batch.query, name, batch.number)
            except (OSError, ComponentError):
                return

    def tick(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        """Nothing is open."""
