"""Ledger of exactly-once writes: a table in the user's database with one row for each split, updated in the transaction of
the data.

**Problem.** A split is written in several bounded batches whose limits depend on time (``batch.timeout``), so a batch's
number identifies nothing: after a crash the same split is divided differently. One transaction for the whole split would not
need batches, but the size of a split has no bound that a database could rely on (a compressed file is one split; Galera
limits a transaction to 2 GB, InnoDB rolls back a large one for hours), it would hold its locks while another sink of the task
waits for a server that is down, and two sinks on one SQLite file would block each other for ever.

**Solution.** A split's events arrive in the order of their offsets, on every attempt. So the ledger stores a position: the
last event that was written (`event_positions.EventPosition`). A transaction advances it from where this writer believes it is
to the end of its batch, and writes the events between. It advances the position *first*, with a compare-and-swap::

    INSERT … position = b            -- the first time; does nothing if the row exists
    UPDATE … SET position = b WHERE position = a    -- later

If one row changed, no other writer wrote or can write until the commit, and data and position become visible together. If no
row changed, the transaction is rolled back, the position is read, the events up to it are skipped, and the rest is tried
again. So every event is in exactly one committed transaction, however the split is divided into batches:

- *task retried, driver killed between two batches, or between the last one and the commit of the micro-batch*: the position
  says where to continue;
- *connection lost at COMMIT, outcome unknown*: the batch is tried again; the compare-and-swap shows whether it was committed;
- *deadlock, lock timeout, server restarted*: the transaction is lost as a whole, and is tried again from its beginning;
- *two writers at the same time* (a task that is believed dead and is not): they wait for each other at the ledger's row; the
  second one finds the position advanced and skips its events;
- *a writer whose connection is cut without the server's knowledge*: it keeps the ledger's row locked until the server ends its
  transaction, after ``timeout`` without a word from it (`drivers`, `session.Session.begin`);
- *very large splits*: a transaction is as large as a batch, and finished batches stay;
- *bad rows*: rows that the database rejected are in no table. They are stored in further rows of the ledger (``part`` 1 …,
  Arrow IPC), in the same transaction, until the micro-batch is committed: a split that is written again sends these rows to
  the dead letters again, because those of the first attempt may be lost.

**After a shuffle** order and content may differ between attempts, and positions have no meaning. There the whole partition is
one transaction (`shared_transaction`), and its position is the end of the split.

The key is (query, sink, micro-batch, split): what was read under which checkpoint, never a task's number. When a micro-batch
is committed, the driver deletes the entries of earlier ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from connectors.database.database_url import Dialect
from connectors.database.errors import RowsError
from connectors.database.session import Session
from connectors.shared.event_positions import START_OF_SPLIT, EventPosition
from etl.api import ComponentError, Rejects, Task

REJECTS_CHUNK_BYTES = 512 << 10
"""Bytes of rejected rows in one row of the ledger; below every server's packet limit."""


class LedgerKey(NamedTuple):
    """Identifies a split of a micro-batch, for one sink."""

    query: str
    sink: str
    batch: int
    split: str


def ledger_key(task: Task) -> LedgerKey:
    """Return a task's key, with texts short enough for an index."""
    return LedgerKey(shorten(task.batch.query, 64), shorten(task.sink, 64), task.batch.number, shorten(task.split, 128))


def shorten(text: str, max_bytes: int) -> str:
    """Return the text, or its beginning and a hash if it is long or not ASCII."""
    if len(text) <= max_bytes and text.isascii():
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text.encode('ascii', 'replace').decode()[: max_bytes - 33]}-{digest}"


@dataclass
class LedgerEntry:
    """A split's rows in the ledger, as this writer knows them."""

    table: str
    key: LedgerKey
    position: EventPosition = START_OF_SPLIT
    parts: int = 0
    """Number of known rows with rejected events."""

    def advance(self, session: Session, to: EventPosition) -> bool:
        """Advance the position, first in the transaction. Returns False if the position is not the known one: the caller
        rolls back and calls `read_back`.
        """
        table = session.quote_table(self.table)
        if self.position == START_OF_SPLIT:
            moved = session.run(_INSERT_POSITION[session.dialect].format(table=table), (*self.key, 0, *to))
        else:
            sql = f"UPDATE {table} SET at_offset = %s, again = %s WHERE {_KEY} AND part = 0 AND at_offset = %s AND again = %s"
            moved = session.run(sql, (*to, *self.key, *self.position))
        return bool(moved.rowcount == 1)

    def read_back(self, session: Session) -> Sequence[Rejects]:
        """Read the current position. Returns the events that other writers' batches rejected up to it."""
        table = session.quote_table(self.table)
        sql = f"SELECT part, at_offset, again, content FROM {table} WHERE {_KEY} AND (part = 0 OR part > %s) ORDER BY part"
        rows = session.run(sql, (*self.key, self.parts)).fetchall()
        if not rows:
            self.position = START_OF_SPLIT
            return ()
        self.position = EventPosition(rows[0][1], rows[0][2])
        self.parts = max(self.parts, rows[-1][0])
        return list(unpack_rejects(b"".join(bytes(row[3]) for row in rows[1:])))

    def store_rejects(self, session: Session, rejects: Sequence[Rejects]) -> int:
        """Store rejected events in the same transaction. Returns the number of rows used."""
        content = pack_rejects(rejects)
        pieces = [content[at : at + REJECTS_CHUNK_BYTES] for at in range(0, len(content), REJECTS_CHUNK_BYTES)]
        names = "query, sink, batch, split, part, at_offset, again, content"
        sql = f"INSERT INTO {session.quote_table(self.table)} ({names}) VALUES (%s, %s, %s, %s, %s, 0, 0, %s)"
        for number, piece in enumerate(pieces, self.parts + 1):
            session.run(sql, (*self.key, number, piece))
        return len(pieces)


_KEY = "query = %s AND sink = %s AND batch = %s AND split = %s"
_COLUMNS = "query, sink, batch, split, part, at_offset, again"
_INSERT_POSITION: dict[Dialect, str] = {
    "mysql": f"INSERT IGNORE INTO {{table}} ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)",
    "postgresql": f"INSERT INTO {{table}} ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
    "sqlite": f"INSERT INTO {{table}} ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
}
_CREATE_TABLE = (
    "CREATE TABLE IF NOT EXISTS {table} (query {text}(64){bytes} NOT NULL, sink {text}(64){bytes} NOT NULL, "
    "batch BIGINT NOT NULL, split {text}(128){bytes} NOT NULL, part INTEGER NOT NULL, at_offset BIGINT NOT NULL, "
    "again BIGINT NOT NULL, content {blob}, PRIMARY KEY (query, sink, batch, split, part)){end}"
)
_TYPES: dict[Dialect, dict[str, str]] = {
    "mysql": {
        "text": "VARCHAR",
        "bytes": " CHARACTER SET ascii COLLATE ascii_bin",
        "blob": "MEDIUMBLOB",
        "end": " ENGINE=InnoDB",
    },
    "postgresql": {"text": "VARCHAR", "bytes": "", "blob": "BYTEA", "end": ""},
    "sqlite": {"text": "VARCHAR", "bytes": "", "blob": "BLOB", "end": " WITHOUT ROWID"},
}


def create_ledger(session: Session, table: str) -> None:
    """Create the ledger table if it is missing. Call outside of a transaction."""
    if session.cache.get("ledger") == table:
        return
    try:  # CREATE TABLE needs rights that few users have, even if the table exists
        session.run(f"SELECT part FROM {session.quote_table(table)} WHERE 1 = 0")
    except ComponentError:
        with suppress(RowsError):  # PostgreSQL: another task created it at the same moment
            session.run(_CREATE_TABLE.format(table=session.quote_table(table), **_TYPES[session.dialect]))
    session.cache["ledger"] = table


def delete_before(session: Session, table: str, query: str, sink: str, before: int) -> None:
    """Delete the entries of a sink's micro-batches before the given one."""
    sql = f"DELETE FROM {session.quote_table(table)} WHERE query = %s AND sink = %s AND batch < %s"
    session.run(sql, (shorten(query, 64), shorten(sink, 64), before))


def pack_rejects(rejects: Sequence[Rejects]) -> bytes:
    """Serialise rejected events with their reasons: Arrow streams, each preceded by its length."""
    streams = []
    for found in rejects:
        reasons = found.reasons if isinstance(found.reasons, pa.Array) else pa.repeat(found.reasons, found.events.num_rows)
        table = found.events.append_column(_REASON_COLUMN, reasons)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(table)
        stream = buffer.getvalue().to_pybytes()
        streams.append(len(stream).to_bytes(8, "big") + len(found.code).to_bytes(8, "big") + found.code.encode() + stream)
    return b"".join(streams)


def unpack_rejects(content: bytes) -> Iterator[Rejects]:
    """Parse the output of `pack_rejects`."""
    at = 0
    while at < len(content):
        length, name = int.from_bytes(content[at : at + 8], "big"), int.from_bytes(content[at + 8 : at + 16], "big")
        at += 16
        code = content[at : at + name].decode()
        table = pa.ipc.open_stream(content[at + name : at + name + length]).read_all().combine_chunks()
        batch = table.to_batches()[0]
        yield Rejects(batch.drop_columns([_REASON_COLUMN]), code, batch.column(_REASON_COLUMN))
        at += name + length


_REASON_COLUMN = "_reason"
