"""What of a split the table holds already: a row of a table of ours, changed in the transaction of the data.

**The question.** A split is written in several bounded batches, and how they are cut depends on time (``batch.timeout``),
so a batch's number says nothing: after a crash the same split is cut otherwise. One transaction for the whole split would
need no cuts, but splits have no bound that a database could rely on (a compressed file is one split; Galera takes 2 GB a
transaction, InnoDB rolls a large one back for hours), it would hold its locks while another sink of the task waits for a
server that is down, and two sinks on one SQLite file would lock each other out for ever.

**The answer.** A split's events come in the order of their offsets, and the same again when it is read again. So the ledger
keeps a position: the last event that was written (`positions.Position`). A transaction moves it from where this writer
believes it is to the end of its batch, and writes what lies between. It is moved *first*, by a compare-and-swap::

    INSERT … position = b            -- the first time; does nothing if the row is there
    UPDATE … SET position = b WHERE position = a    -- each time after

One row changed: nobody else wrote, nobody else can until we commit, and data and position become visible together. No row
changed: the transaction is undone, the position read, the events up to it are skipped, and what is left is tried again. Every
event thus lies in exactly one committed transaction, whatever the batches are:

- *task retried, driver killed between two batches, or between the last and the commit of the micro-batch*: the position says
  where to go on;
- *connection lost at COMMIT, outcome unknown*: the batch is tried again; the compare-and-swap finds the position moved, or not;
- *deadlock, lock wait, server restarted*: the transaction is gone as a whole, and is tried again from its beginning;
- *two writers at once* (a task that is believed dead and is not): they wait for each other at the ledger's row, and the second
  finds the position moved; its events are skipped;
- *very large splits*: transactions are as large as a batch, and what is done stays done;
- *some rows are bad*: what the database refused is in no table. It is kept in further rows of the ledger (``part`` 1 …, Arrow
  IPC), in the same transaction, until the micro-batch is committed: a split that is written again hands these rows to the dead
  letters again, for those of the first attempt may be lost.

**Behind a shuffle** order and content may differ from one attempt to the next, and positions mean nothing. There the whole
partition is one transaction (`whole`), and its position the end of all.

The key is (query, sink, micro-batch, split): what was read, under which checkpoint, never a task's number. The driver deletes
the entries of micro-batches in front of one that was committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from connectors.database.failures import RowsError
from connectors.database.places import Dialect
from connectors.database.positions import BEFORE_ALL, Position
from connectors.database.session import Session
from etl.api import ComponentError, Rejects, Task

PIECE = 512 << 10
"""Bytes of refused rows in one row of the ledger: less than any server's largest packet."""


class Key(NamedTuple):
    """Which split of which micro-batch, for which sink."""

    query: str
    sink: str
    batch: int
    split: str


def key_of(task: Task) -> Key:
    """A task's key, each text short enough for an index."""
    return Key(short(task.batch.query, 64), short(task.sink, 64), task.batch.number, short(task.split, 128))


def short(text: str, most: int) -> str:
    """The text, or its beginning and a hash where it is long or not ASCII."""
    if len(text) <= most and text.isascii():
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text.encode('ascii', 'replace').decode()[: most - 33]}-{digest}"


@dataclass
class Entry:
    """A split's rows in the ledger, as this writer knows them."""

    table: str
    key: Key
    position: Position = BEFORE_ALL
    parts: int = 0
    """How many rows of refused events we know of."""

    def move(self, session: Session, to: Position) -> bool:
        """Move the position, first thing in the transaction. False: it is not where we believe; undo, and `look`."""
        table = session.qualified(self.table)
        if self.position == BEFORE_ALL:
            moved = session.run(_CLAIM[session.dialect].format(table=table), (*self.key, 0, *to))
        else:
            sql = f"UPDATE {table} SET at_offset = %s, again = %s WHERE {_KEY} AND part = 0 AND at_offset = %s AND again = %s"
            moved = session.run(sql, (*to, *self.key, *self.position))
        return bool(moved.rowcount == 1)

    def look(self, session: Session) -> Sequence[Rejects]:
        """Read where the position is. Gives the events that were refused on the way there."""
        table = session.qualified(self.table)
        sql = f"SELECT part, at_offset, again, content FROM {table} WHERE {_KEY} AND (part = 0 OR part > %s) ORDER BY part"
        rows = session.run(sql, (*self.key, self.parts)).fetchall()
        if not rows:
            self.position = BEFORE_ALL
            return ()
        self.position = Position(rows[0][1], rows[0][2])
        self.parts = max(self.parts, rows[-1][0])
        return list(unpacked(b"".join(bytes(row[3]) for row in rows[1:])))

    def keep(self, session: Session, rejects: Sequence[Rejects]) -> int:
        """Keep refused events in the same transaction → how many rows that took."""
        content = packed(rejects)
        pieces = [content[at : at + PIECE] for at in range(0, len(content), PIECE)]
        names = "query, sink, batch, split, part, at_offset, again, content"
        sql = f"INSERT INTO {session.qualified(self.table)} ({names}) VALUES (%s, %s, %s, %s, %s, 0, 0, %s)"
        for number, piece in enumerate(pieces, self.parts + 1):
            session.run(sql, (*self.key, number, piece))
        return len(pieces)


_KEY = "query = %s AND sink = %s AND batch = %s AND split = %s"
_NAMES = "query, sink, batch, split, part, at_offset, again"
_CLAIM: dict[Dialect, str] = {
    "mysql": f"INSERT IGNORE INTO {{table}} ({_NAMES}) VALUES (%s, %s, %s, %s, %s, %s, %s)",
    "postgresql": f"INSERT INTO {{table}} ({_NAMES}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
    "sqlite": f"INSERT INTO {{table}} ({_NAMES}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
}
_CREATE = (
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


def create(session: Session, table: str) -> None:
    """Make the ledger where it is missing. Outside of a transaction."""
    if session.known.get("ledger") == table:
        return
    try:  # making one that is there already would ask for rights that few users have
        session.run(f"SELECT part FROM {session.qualified(table)} WHERE 1 = 0")
    except ComponentError:
        with suppress(RowsError):  # PostgreSQL: another task made it at the same moment
            session.run(_CREATE.format(table=session.qualified(table), **_TYPES[session.dialect]))
    session.known["ledger"] = table


def forget(session: Session, table: str, query: str, sink: str, before: int) -> None:
    """Delete the entries of a sink's micro-batches in front of one."""
    sql = f"DELETE FROM {session.qualified(table)} WHERE query = %s AND sink = %s AND batch < %s"
    session.run(sql, (short(query, 64), short(sink, 64), before))


def packed(rejects: Sequence[Rejects]) -> bytes:
    """Refused events with their reasons, as streams of Arrow behind each other, each with its length."""
    streams = []
    for found in rejects:
        reasons = found.reasons if isinstance(found.reasons, pa.Array) else pa.repeat(found.reasons, found.events.num_rows)
        table = found.events.append_column(_REASON, reasons)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(table)
        stream = buffer.getvalue().to_pybytes()
        streams.append(len(stream).to_bytes(8, "big") + len(found.code).to_bytes(8, "big") + found.code.encode() + stream)
    return b"".join(streams)


def unpacked(content: bytes) -> Iterator[Rejects]:
    """What was `packed`."""
    at = 0
    while at < len(content):
        length, name = int.from_bytes(content[at : at + 8], "big"), int.from_bytes(content[at + 8 : at + 16], "big")
        at += 16
        code = content[at : at + name].decode()
        table = pa.ipc.open_stream(content[at + name : at + name + length]).read_all().combine_chunks()
        batch = table.to_batches()[0]
        yield Rejects(batch.drop_columns([_REASON]), code, batch.column(_REASON))
        at += name + length


_REASON = "_reason"
