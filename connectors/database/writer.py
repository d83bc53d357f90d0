"""Writing a split: a transaction for each batch, with the ledger's position first (why: `ledger`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from connectors.database import ledger
from connectors.database.drivers import Access
from connectors.database.isolating import delivered, rejects_of
from connectors.database.ledger import Entry
from connectors.database.loading import Load, loader
from connectors.database.positions import BEFORE_ALL, Placed, Position, placed
from connectors.database.session import Session, session_of
from connectors.database.tables import Target, prepared
from etl.api import ComponentError, Rejects, Result, Staged

TRIES = 100
"""How often the ledger may be found moved by others before a batch is put off."""


@dataclass
class Table:
    """The table that is written to, over whichever session there is."""

    access: Access
    target: Target
    schema: pa.Schema
    create: bool
    ledger: str | None

    def opened(self) -> tuple[Session, Load]:
        """A session and how it writes rows; the table is looked at once in each session."""
        session = session_of(self.access)
        if self.target not in session.known:
            found = prepared(session, self.target, self.schema, self.create)
            if self.ledger is not None:
                self._with_transactions(session, found.keeps_transactions, found.engine)
                ledger.create(session, self.ledger)
            session.known[self.target] = loader(session, self.target, found)
        return session, session.known[self.target]

    def _with_transactions(self, session: Session, there: bool, engine: str | None) -> None:
        if not there:
            raise ComponentError(
                f"{session.access.place}: table {self.target.table!r} is of engine {engine}, which has no transactions: what a "
                "crash leaves of a batch would be written again; ALTER TABLE … ENGINE=InnoDB, or delivery: at_least_once"
            )

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Bytes of each event's values: texts as they are, anything else eight."""
        sizes = pa.repeat(pa.scalar(8 * len(self.target.fields), pa.int64()), batch.num_rows)
        for name in self.target.fields:
            column = batch.column(name)
            if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0))
        return sizes


@dataclass
class BatchWriter:
    """Each batch in a transaction of its own, with the ledger; without one, at least once."""

    table: Table
    entry: Entry | None
    last: Position = BEFORE_ALL
    """Of the events that came so far."""
    events: int = field(default=0, init=False)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """See `Table.sizes`."""
        return self.table.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """All of it or nothing, but for what the database refuses."""
        if self.entry is None:
            session, load = self.table.opened()
            with session.transaction():
                rejected = rejects_of(batch, delivered(session, load, batch)[1])
        else:
            found = placed(batch, self.last)
            rejected = self._written(self.entry, found)
            self.last = found.last
        self.events += batch.num_rows
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Everything is written; the driver wants to know whether there was anything."""
        return Staged("", 0, self.events, self.entry.key.sink) if self.events and self.entry else None

    def abort(self) -> None:
        """Nothing is open between two batches."""

    def _written(self, entry: Entry, found: Placed) -> Sequence[Rejects]:
        rejected: list[Rejects] = []
        for _ in range(TRIES):
            left = found.behind(entry.position)
            if not left.batch.num_rows:
                return rejected
            session, load = self.table.opened()
            try:
                with session.transaction():
                    parts, refused = self._moved(session, load, entry, left)
            except _MovedError:
                rejected += entry.look(session)
                continue
            entry.position, entry.parts = found.last, entry.parts + parts
            return [*rejected, *refused]
        raise OSError(f"{self.table.access.place}: others write the same split; is the pipeline running twice?")

    def _moved(self, session: Session, load: Load, entry: Entry, left: Placed) -> tuple[int, Sequence[Rejects]]:
        if not entry.move(session, left.last):
            raise _MovedError
        refused = rejects_of(left.batch, delivered(session, load, left.batch)[1])
        return entry.keep(session, refused) if refused else 0, refused


class _MovedError(Exception):
    """The ledger's position is not where this writer believed it to be."""
