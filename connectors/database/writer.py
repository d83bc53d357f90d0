"""Writes a split: a transaction for each batch, which advances the ledger's position first (see `ledger`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.database import ledger
from connectors.database.bulk_insert import InsertRows, create_bulk_insert
from connectors.database.database_url import Dialect
from connectors.database.drivers import ConnectionSettings
from connectors.database.ledger import LedgerEntry
from connectors.database.row_isolation import to_rejects, write_accepted_rows
from connectors.database.session import Session, shared_session
from connectors.database.sql_values import to_python_values
from connectors.database.tables import TableMapping, prepare_table
from connectors.shared.event_positions import START_OF_SPLIT, EventPosition, PositionedBatch, add_positions
from connectors.shared.value_sizes import sum_value_sizes
from etl.api import ComponentError, Rejects, Result, Staged, is_changing, last_of_keys, signs

MAX_LEDGER_CONFLICTS = 100
"""How often the position may have been advanced by others before the batch is retried later."""


@dataclass
class TargetTable:
    """The table to write to, on this thread's session."""

    settings: ConnectionSettings
    target: TableMapping
    schema: pa.Schema
    create: bool
    ledger: str | None

    def open(self) -> tuple[Session, InsertRows]:
        """Return the session and the function that inserts rows; the table is inspected once in each session."""
        session = shared_session(self.settings)
        if self.target not in session.cache:
            found = prepare_table(session, self.target, self.schema, self.create)
            if self.ledger is not None:
                self._require_transactions(session, found.has_transactions, found.engine)
                ledger.create_ledger(session, self.ledger)
            insert_rows = create_bulk_insert(session, self.target, found)
            session.cache[self.target] = with_changes_applied(session, self.target, insert_rows)
        return session, session.cache[self.target]

    def _require_transactions(self, session: Session, has_transactions: bool, engine: str | None) -> None:
        if not has_transactions:
            raise ComponentError(
                f"{session.settings.url}: table {self.target.table!r} is of engine {engine}, which has no transactions: "
                "after a crash rows would be written twice; ALTER TABLE … ENGINE=InnoDB, or delivery: at_least_once"
            )

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event's values."""
        return sum_value_sizes([batch.column(name) for name in self.target.fields], batch.num_rows)


@dataclass
class BatchWriter:
    """Writes each batch in a transaction of its own, with the ledger (exactly once) or without (at least once)."""

    table: TargetTable
    entry: LedgerEntry | None
    last: EventPosition = START_OF_SPLIT
    """Position of the last event so far."""
    events: int = field(default=0, init=False)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event; see `TargetTable.sizes`."""
        return self.table.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write all rows of a batch that the database accepts, or none."""
        if self.entry is None:
            session, insert_rows = self.table.open()
            with session.transaction():
                rejected = to_rejects(batch, write_accepted_rows(session, insert_rows, batch)[1])
        else:
            found = add_positions(batch, self.last, "database")
            rejected = self._write_with_ledger(self.entry, found)
            self.last = found.last
        self.events += batch.num_rows
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Report to the driver whether something was written; all rows are committed."""
        return Staged("", 0, self.events, self.entry.key.sink) if self.events and self.entry else None

    def abort(self) -> None:
        """Do nothing: no transaction is open between two batches."""

    def _write_with_ledger(self, entry: LedgerEntry, found: PositionedBatch) -> Sequence[Rejects]:
        rejected: list[Rejects] = []
        for _ in range(MAX_LEDGER_CONFLICTS):
            remaining = found.after(entry.position)
            if not remaining.batch.num_rows:
                return rejected
            session, insert_rows = self.table.open()
            try:
                with session.transaction():
                    parts, refused = self._write_in_transaction(session, insert_rows, entry, remaining)
            except _PositionMovedError:
                rejected += entry.read_back(session)
                continue
            entry.position, entry.parts = found.last, entry.parts + parts
            return [*rejected, *refused]
        raise OSError(f"{self.table.settings.url}: another writer writes the same split; is the pipeline running twice?")

    def _write_in_transaction(
        self, session: Session, insert_rows: InsertRows, entry: LedgerEntry, remaining: PositionedBatch
    ) -> tuple[int, Sequence[Rejects]]:
        if not entry.advance(session, remaining.last):
            raise _PositionMovedError
        refused = to_rejects(remaining.batch, write_accepted_rows(session, insert_rows, remaining.batch)[1])
        return entry.store_rejects(session, refused) if refused else 0, refused


class _PositionMovedError(Exception):
    """The ledger's position is not the one that this writer knows."""


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
