"""Writes the results of Spark steps: one transaction for the whole partition, shared by all sinks on one database.

After a shuffle, rows of a partition may have another order and content when they are computed again, so the ledger's
positions have no meaning there (see `ledger`): all rows become visible together, or none. Sinks of one task on one database
share the transaction, because they would wait for each other's locks; the last one to close commits it. Written batches are
stored until then (64 MiB in memory, then in a file; results of windows are few), so that after a deadlock or a lost
connection a new transaction can write them again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.database.drivers import ConnectionSettings
from connectors.database.ledger import LedgerEntry
from connectors.database.row_isolation import to_rejects, write_accepted_rows
from connectors.database.session import Session, session_key
from connectors.database.writer import TargetTable
from connectors.database.written_batches import WrittenBatches
from connectors.shared.event_positions import END_OF_SPLIT, START_OF_SPLIT
from etl.api import Rejects, Result, Retry, Staged


@dataclass
class SharedTransaction:
    """The transaction of a task on one database."""

    settings: ConnectionSettings
    writers: list[PartitionWriter] = field(default_factory=list)
    batches: WrittenBatches = field(default_factory=WrittenBatches)
    session: Session | None = None
    unfinished: int = 0
    """Writers that are not closed."""

    def add_writer(self, writer: PartitionWriter) -> int:
        """Register a writer at its first batch; returns its number.

        If its table has to be inspected or created, the open transaction is rolled back first: creating a table commits in
        MySQL.
        """
        if self.session is not None and writer.table.target not in self.session.cache:
            self.roll_back()
        self.writers.append(writer)
        self.unfinished += 1
        return len(self.writers) - 1

    def write(self, number: int, batch: pa.RecordBatch) -> Sequence[Rejects]:
        """Write a batch, unless an earlier attempt has committed the writer's rows."""
        writer = self.writers[number]
        with _RollBackOnError(self):
            self._ensure_begun()
            found = writer.claim()
            if writer.is_written:
                return found
            session, insert_rows = writer.table.open()
            accepted, bad = write_accepted_rows(session, insert_rows, batch)
            rejects = to_rejects(batch, bad)
            writer.store_rejects(session, rejects)
        if accepted.num_rows:
            self.batches.add(number, accepted)
        writer.rejects += rejects
        return rejects

    def finish_writer(self, retry: Retry) -> None:
        """Finish a writer; the last one commits, and retries until the commit is known to have succeeded."""
        self.unfinished -= 1
        if not self.unfinished:
            self._commit(retry)
            self._close()

    def _commit(self, retry: Retry) -> None:
        for tries in range(retry.attempts):
            if tries:
                time.sleep(random.uniform(0, retry.max_pause_seconds(tries)))
            try:
                with _RollBackOnError(self):
                    self._ensure_begun().commit()
                return
            except OSError:
                if tries + 1 == retry.attempts:
                    raise

    def roll_back(self) -> None:
        """Roll back the open transaction."""
        if self.session is not None:
            session, self.session = self.session, None
            session.roll_back()

    def abort(self) -> None:
        """Roll back and drop everything: the task failed."""
        self.roll_back()
        self._close()

    def _close(self) -> None:
        self.session = None
        self.batches.close()
        _transactions.pop(session_key(self.settings), None)

    def _ensure_begun(self) -> Session:
        """Return the session; if no transaction is open, begin one and write all earlier batches again."""
        if self.session is not None and not self.session.is_closed:
            return self.session
        for writer in self.writers:  # tables are created and inspected outside of transactions
            session = writer.table.open()[0]
        session.begin()
        self.session = session
        for writer in self.writers:
            writer.reset_claim()
            if writer.events:
                writer.claim()
        for number, batch in self.batches:
            writer = self.writers[number]
            if not writer.is_written and write_accepted_rows(session, writer.table.open()[1], batch)[1]:
                raise OSError(
                    f"{self.settings.url}: rows that were accepted before are rejected now; the split must be read again"
                )
        return session


class _RollBackOnError:
    """Rolls back the transaction after an error."""

    def __init__(self, transaction: SharedTransaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._transaction.roll_back()


_transactions: dict[tuple[int, int, ConnectionSettings], SharedTransaction] = {}
"""By process and thread."""


@dataclass
class PartitionWriter:
    """A sink's part of the transaction of its task."""

    table: TargetTable
    entry: LedgerEntry | None
    """None: at least once."""
    retry: Retry
    events: int = 0
    is_written: bool = False
    """Whether an earlier attempt has committed all rows."""
    rejects: list[Rejects] = field(default_factory=list)
    _claimed: bool = False
    _transaction: SharedTransaction | None = None
    _number: int = 0

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event; see `TargetTable.sizes`."""
        return self.table.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write a batch in the shared transaction, unless an earlier attempt has committed it."""
        if self._transaction is None:
            self._transaction = _transactions.setdefault(session_key(self.table.settings), SharedTransaction(self.table.settings))
            self._number = self._transaction.add_writer(self)
        rejected = self._transaction.write(self._number, batch)
        self.events += batch.num_rows
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Commit, if this is the last writer of the task."""
        if self._transaction is None:
            return None
        self._transaction.finish_writer(self.retry)
        return Staged("", 0, self.events, self.entry.key.sink) if self.entry else None

    def abort(self) -> None:
        """Roll back the whole transaction of the task."""
        if self._transaction is not None:
            self._transaction.abort()

    def reset_claim(self) -> None:
        """Reset the ledger entry for a new transaction."""
        self._claimed = False
        if self.entry is not None:
            self.entry.parts, self.entry.position = 0, START_OF_SPLIT

    def claim(self) -> Sequence[Rejects]:
        """Take the ledger's row once a transaction. Returns the rejects of an earlier attempt that has committed all rows."""
        if self._claimed or self.entry is None:
            return ()
        self._claimed = True
        session = self.table.open()[0]
        if self.entry.advance(session, END_OF_SPLIT):
            self.store_rejects(session, self.rejects)
            return ()
        self.is_written = True
        found = self.entry.read_back(session)
        if self.entry.position == START_OF_SPLIT:
            raise OSError(f"{self.table.settings.url}: the ledger's row was created and deleted at the same time")
        return () if self.events else found

    def store_rejects(self, session: Session, rejects: Sequence[Rejects]) -> None:
        """Store rejected rows in the ledger."""
        if rejects and self.entry is not None:
            self.entry.parts += self.entry.store_rejects(session, rejects)
