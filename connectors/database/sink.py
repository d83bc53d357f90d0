"""The ``database`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.database import ledger
from connectors.database.connection_options import DatabaseOptions, TableName
from connectors.database.database_url import UrlError, parse_url, table_url
from connectors.database.probe import probe_database
from connectors.database.session import Session, shared_session
from connectors.database.shared_transaction import PartitionWriter
from connectors.database.tables import Mode, TableMapping, compare_table, inspect_table
from connectors.database.writer import BatchWriter, TargetTable
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
    key_findings,
    refused_changes,
    unknown_field,
    visible,
)

Column = Annotated[str, Field(min_length=1, max_length=64)]
SqlType = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_ (),]*$",
        json_schema_extra={"patternErrorMessage": "is not a SQL type such as VARCHAR(20) or BIGINT"},
    ),
]
LEDGER = "sluice_ledger"


class DatabaseSink(DatabaseOptions, Sink):
    """Write events as rows of a table: MySQL, MariaDB, PostgreSQL or SQLite.

    Exactly once, with a ledger: a table (option ``ledger``) in the same database with a row for each split, which is
    updated in the transaction of the data. So a crash, a lost connection, a deadlock or a second writer neither loses nor
    repeats a row. Rows are visible when their batch is written, before the micro-batch ends. It needs transactions: MyISAM
    tables, or a user who may not create or write the ledger, need ``delivery: at_least_once``. Tested on MariaDB 10.11,
    MySQL 8.0.15, PostgreSQL 15 and SQLite, by killing driver and workers at random points and restarting the server: in ten
    runs of 200,000 events each from Kafka and from files into MariaDB none was lost or duplicated.

    Events of a split are written in order; splits, the unit of parallelism, have a connection each and no order
    between them. A batch is one statement of SQL text for MySQL, one COPY for PostgreSQL, one `executemany` for SQLite
    (where one task writes at a time); a task's memory is a batch, by default of up to 10,000 rows or 32 MiB, and its text. A
    batch that the database refuses is divided until the bad rows are found; they become dead letters
    (``database-rejected``) with the database's reason: a text too long, a wrong value, a constraint. No value is truncated
    or changed to fit: MySQL runs in strict mode. SQLite itself checks neither lengths nor types, and stores NaN as null.

    A field goes to the column of its name, dots as underscores (``source.ip`` to ``source_ip``), or to the one in
    ``columns``. Times are UTC, lists and maps JSON text. ``mode`` is insert (an existing key is a bad row), upsert (update
    the given columns), ignore (keep the existing row) or replace (update the whole row, other columns to their defaults).
    Results that change, such as those of ``top`` with ``changelog: true``, need mode upsert or replace, and as ``key`` the
    fields by which they replace each other: rows that they remove are deleted.
    After a lost connection, a deadlock, a lock timeout or a full disk the statement is retried as ``retry`` says; a wrong
    password or a missing table or column ends the run.

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
        description="Field → column; only these fields are written. Without it all fields are, dots in names as underscores.",
        examples=[{"source.ip": "ip", "message": "text"}],
    )
    mode: Mode = Field(default="insert", description="What happens if a row with the same key exists.")
    key: tuple[FieldName, ...] = Field(
        default=(), description="Fields of the key; their columns need a unique index.", examples=[["event.id"]]
    )
    create: bool = Field(default=False, description="Create the table if it does not exist, with types derived from the fields.")
    types: dict[FieldName, SqlType] = Field(
        default={}, description="SQL types for columns of a created table.", examples=[{"message": "VARCHAR(2000)"}]
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="With the ledger, or without; then a crash may repeat rows."
    )
    ledger: TableName = Field(default=LEDGER, description="Table of the ledger; created if it does not exist.")
    batch: Batching = Field(
        default=Batching(max_events=10_000, max_bytes=32 << 20), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "exactly once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the URL, fields, columns that two fields share, and that the mode has its key."""
        yield from self.check_url()
        fields = visible(incoming)
        for path, names in (("columns", self.columns or ()), ("key", self.key), ("types", self.types)):
            for number, name in enumerate(names):
                if name not in fields.names:
                    at = (path, number) if path == "key" else (path, name)
                    yield unknown_field(name, fields, at)
                elif path != "columns" and self.columns is not None and name not in self.columns:
                    yield Finding(
                        "unknown-field", f"{name!r} is not written to a column", (path,), f"add it to columns: {name}: …"
                    )
        yield from self._check_columns(fields)
        if self.mode in ("upsert", "replace") and not self.key:
            yield Finding("no-key", f"mode {self.mode} needs a key", ("mode",), "add key: [field]")
        if self.types and not self.create:
            yield Finding("unused-option", "types is only used with create: true", ("types",), severity="warning")

    def _check_columns(self, fields: Schema) -> Iterable[Finding]:
        fields_by_column: dict[str, str] = {}
        for field, column in self._columns(fields).items():
            other = fields_by_column.setdefault(column.lower(), field)
            if other != field:
                message = f"fields {other!r} and {field!r} both go to column {column!r}"
                yield Finding("duplicate-column", message, ("columns",), "use another column for one of them")

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """Changes are written by the key of the changelog, which is that of the table."""
        if self.mode not in ("upsert", "replace"):
            hint = "write mode: upsert, with the key of the results"
            yield from refused_changes(incoming, f"mode {self.mode} only adds rows", hint)
        else:
            yield from key_findings(incoming, self.key)

    def guaranteed(self) -> Guarantee:
        """Return the guarantee that ``delivery`` chooses."""
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def host_path(self) -> str | None:
        """Return SQLite's file."""
        with suppress(UrlError):
            url = parse_url(self.url)
            return url.database if url.dialect == "sqlite" else None
        return None

    def writes(self) -> Iterable[str]:
        """Return the table."""
        return (table_url(parse_url(self.url), self.table),)

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Connect, log in, and compare the table with the fields."""
        yield from probe_database(self.settings, lambda session: self._compare(session, visible(incoming)))

    def _compare(self, session: Session, fields: Schema) -> Iterable[Finding]:
        found = inspect_table(session, self.table)
        if found is None and self.create:
            return
        yield from compare_table(session, self._target(fields), fields, found)
        if found is not None and self.delivery == "exactly_once" and not found.has_transactions:
            message = f"table {self.table!r} is of engine {found.engine}, which has no transactions"
            yield Finding("no-transactions", message, ("table",), "ALTER TABLE … ENGINE=InnoDB, or delivery: at_least_once")

    def open(self, task: Task) -> Writer:
        """Return a writer, which connects when it writes the first batch."""
        exactly = self.delivery == "exactly_once"
        fields = visible(task.schema)
        table = TargetTable(self.settings, self._target(fields), fields, self.create, self.ledger if exactly else None)
        entry = ledger.LedgerEntry(self.ledger, ledger.ledger_key(task)) if exactly else None
        return BatchWriter(table, entry) if task.ordered else PartitionWriter(table, entry, self.retry)

    def committer(self, folder: str) -> Committer | None:
        """Return the committer that deletes ledger entries of finished micro-batches."""
        return _LedgerCleaner(self) if self.delivery == "exactly_once" else None

    def _columns(self, fields: Schema) -> dict[str, str]:
        return self.columns or {name: name.replace(".", "_") for name in fields.names}

    def _target(self, fields: Schema) -> TableMapping:
        columns = self._columns(fields)
        types = tuple((columns[field], type_) for field, type_ in self.types.items())
        return TableMapping(
            self.table, self.mode, tuple(columns), tuple(columns.values()), tuple(columns[k] for k in self.key), types
        )


class _LedgerCleaner:
    """Deletes ledger entries that are no longer needed. An entry that it cannot delete is deleted with a later micro-batch."""

    def __init__(self, sink: DatabaseSink) -> None:
        self._sink = sink
        self._names: set[str] = set()

    def commit(self, batch: BatchId, staged: Iterable[Staged]) -> None:
        """Delete the entries of earlier micro-batches; ``detail`` of a staged item is the sink's name."""
        names = {item.detail for item in staged}
        for name in names:
            try:
                ledger.delete_before(shared_session(self._sink.settings), self._sink.ledger, batch.query, name, batch.number)
            except (OSError, ComponentError):
                return

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
