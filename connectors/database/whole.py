"""Writing results of Spark: one transaction for the whole partition, in which all sinks on one database take part.

Rows of a partition behind a shuffle may come in another order, and be others, when they are computed again, so the ledger's
positions mean nothing there (see `ledger`): all of them become visible at once, or none. Sinks of one task on one database
share the transaction, for they would wait for each other's locks; it is committed when the last of them closes. Results of
windows are few. What was written is kept (64 MiB in memory, then in a file) until then: when a deadlock or a lost connection
costs the transaction, another is begun with it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.database.drivers import Access
from connectors.database.isolating import delivered, rejects_of
from connectors.database.ledger import Entry
from connectors.database.positions import BEFORE_ALL, WHOLE
from connectors.database.replay import Batches
from connectors.database.session import Session, here
from connectors.database.writer import Table
from etl.api import Rejects, Result, Retry, Staged


@dataclass
class Together:
    """The transaction of a task on one database."""

    access: Access
    writers: list[WholeWriter] = field(default_factory=list)
    log: Batches = field(default_factory=Batches)
    session: Session | None = None
    unfinished: int = 0

    def joined(self, writer: WholeWriter) -> int:
        """A writer has its first batch → its number. A table that has to be looked at, or made, ends what is open: to make one
        commits in MySQL."""
        if self.session is not None and writer.table.target not in self.session.known:
            self.lost()
        self.writers.append(writer)
        self.unfinished += 1
        return len(self.writers) - 1

    def write(self, number: int, batch: pa.RecordBatch) -> Sequence[Rejects]:
        """Write a batch, unless what the writer writes is in the database from an earlier attempt."""
        writer = self.writers[number]
        with _Losing(self):
            self._begun()
            found = writer.claimed()
            if writer.done:
                return found
            session, load = writer.table.opened()
            kept, bad = delivered(session, load, batch)
            refused = rejects_of(batch, bad)
            writer.keep(session, refused)
        if kept.num_rows:
            self.log.add(number, kept)
        writer.refused += refused
        return refused

    def closed(self, retry: Retry) -> None:
        """A writer has written all; the last one commits, and tries until it is known to be done."""
        self.unfinished -= 1
        if not self.unfinished:
            self._committed(retry)
            self._over()

    def _committed(self, retry: Retry) -> None:
        for attempt in range(retry.attempts):
            if attempt:
                longest = min(retry.initial_backoff.total_seconds() * 2 ** (attempt - 1), retry.max_backoff.total_seconds())
                time.sleep(random.uniform(0, longest))
            try:
                with _Losing(self):
                    self._begun().run("COMMIT")
                return
            except OSError:
                if attempt + 1 == retry.attempts:
                    raise

    def lost(self) -> None:
        """Undo what is open."""
        if self.session is not None:
            session, self.session = self.session, None
            session.roll_back()

    def over(self) -> None:
        """The task failed."""
        self.lost()
        self._over()

    def _over(self) -> None:
        self.session = None
        self.log.close()
        _open.pop(here(self.access), None)

    def _begun(self) -> Session:
        """Begin the transaction if none is open, with everything that was written before."""
        if self.session is not None and not self.session.closed:
            return self.session
        for writer in self.writers:  # tables are made, and looked at, outside of transactions
            session = writer.table.opened()[0]
        session.begin()
        self.session = session
        for writer in self.writers:
            writer.begun_again()
            if writer.events:
                writer.claimed()
        for number, batch in self.log:
            writer = self.writers[number]
            if not writer.done and delivered(session, writer.table.opened()[1], batch)[1]:
                raise OSError(f"{self.access.place}: rows that were taken before are refused now; the split has to be read again")
        return session


class _Losing:
    """An error costs the transaction."""

    def __init__(self, together: Together) -> None:
        self._together = together

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._together.lost()


_open: dict[tuple[int, int, Access], Together] = {}
"""By process and thread."""


@dataclass
class WholeWriter:
    """A sink's part in the transaction of its task."""

    table: Table
    entry: Entry | None
    """None: at least once."""
    retry: Retry
    events: int = 0
    done: bool = False
    """Whether all of it is in the database from an earlier attempt."""
    refused: list[Rejects] = field(default_factory=list)
    _claimed: bool = False
    _together: Together | None = None
    _number: int = 0

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """See `Table.sizes`."""
        return self.table.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Part of the transaction, or known to be committed."""
        if self._together is None:
            self._together = _open.setdefault(here(self.table.access), Together(self.table.access))
            self._number = self._together.joined(self)
        rejected = self._together.write(self._number, batch)
        self.events += batch.num_rows
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Commit, when it is the last of its task."""
        if self._together is None:
            return None
        self._together.closed(self.retry)
        return Staged("", 0, self.events, self.entry.key.sink) if self.entry else None

    def abort(self) -> None:
        """Undo everything of the task."""
        if self._together is not None:
            self._together.over()

    def begun_again(self) -> None:
        """In a new transaction nothing is claimed and nothing kept."""
        self._claimed = False
        if self.entry is not None:
            self.entry.parts, self.entry.position = 0, BEFORE_ALL

    def claimed(self) -> Sequence[Rejects]:
        """Take the ledger's row once a transaction. Gives what an earlier attempt refused, where that did all of it."""
        if self._claimed or self.entry is None:
            return ()
        self._claimed = True
        session = self.table.opened()[0]
        if self.entry.move(session, WHOLE):
            self.keep(session, self.refused)
            return ()
        self.done = True
        found = self.entry.look(session)
        if self.entry.position == BEFORE_ALL:
            raise OSError(f"{self.table.access.place}: the ledger's row came and went")
        return () if self.events else found

    def keep(self, session: Session, refused: Sequence[Rejects]) -> None:
        """Keep refused rows in the ledger."""
        if refused and self.entry is not None:
            self.entry.parts += self.entry.keep(session, refused)
