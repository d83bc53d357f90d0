"""The table `database`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import pyarrow as pa
from pydantic import Field

from connectors.database.options import RowsOptions
from connectors.database.probing import reached
from connectors.database.ranges import clock, moment
from connectors.database.reading import rows, selected
from connectors.database.session import Session, close, connected
from connectors.database.tables import found_table, names
from etl.api import Changes, Duration, Finding, LookupTable, Names, format_type, nearest, parse_type


class DatabaseTable(RowsOptions, LookupTable):
    """A table or query of MySQL, MariaDB, PostgreSQL or SQLite.

    It is read in one statement, so as it is at one moment. With `refresh` it is read again that often; `changed` is a cheap
    query whose answer says whether that is worth it. A value that is none of its column's type is null, but in PostgreSQL,
    where it keeps the version before in use. Rows of MySQL and MariaDB become columns without a Python value for any of them;
    psycopg and SQLite hand over a row at a time. Tested against the real servers.

    With `time`, a refresh reads only the rows that came or changed since the one before, and builds the new version of them
    and of the other rows, which are kept in a file beside the table's (in the state folder, compressed). `id` says which row a
    changed row replaces: without it the key, which must be unique then. A row that is deleted leaves no time behind: mark it in
    a column (`deleted`), or have the table read whole now and then (`whole`). A row whose `time` is null comes with a whole
    reading only. An index on `time` makes a refresh cheap. A timestamp is compared with the database's clock, so a row may be
    committed up to `lag` after its time; rows that young are read once more. With a number (a version, a sequence) what is
    committed behind a larger one is missed.

    ```yaml
    type: database
    url: mysql://db.example.org:3306/intel
    user: sluice
    password: ${DB_PASSWORD}
    table: bad_addresses
    key: ip
    columns: {score: int}
    refresh: 1m
    time: changed_at
    deleted: is_deleted
    whole: 1d
    ```
    """

    type: Literal["database"] = "database"
    changed: str | None = Field(
        default=None,
        description="A SELECT of one row that is another when rows may have changed; without it the table is read each time.",
        min_length=1,
        examples=["select max(changed), count(*) from bad_addresses"],
    )
    time: str | None = Field(
        default=None,
        min_length=1,
        description="A column that grows when rows are added or changed: a refresh reads only those. A timestamp, unless "
        "`columns` says that it is a whole number.",
        examples=["changed_at"],
    )
    id: Names | None = Field(
        default=None, description="Columns that tell rows apart, where the key does not; for `time`.", examples=["id"]
    )
    lag: Duration = Field(
        default=timedelta(seconds=5),
        ge=timedelta(0),
        description="How long after its `time` a row may be committed: longer than the longest transaction that writes rows.",
    )
    deleted: str | None = Field(
        default=None,
        min_length=1,
        description="A column of rows that count no more: true, a number that is not 0, or a time (say so in `columns`).",
        examples=["is_deleted"],
    )
    whole: Duration | None = Field(
        default=None, description="How often a refresh reads the whole table in spite of `time`.", examples=["1d"]
    )

    def check(self) -> Iterable[Finding]:
        yield from self.rows_findings()
        if self.time is None:
            for name in ("id", "lag", "deleted", "whole"):
                if name in self.model_fields_set:
                    yield Finding("unused-option", f"{name} is for a table with time", (name,), severity="warning")
        elif not (pa.types.is_timestamp(self.column(self.time)) or pa.types.is_integer(self.column(self.time))):
            found = format_type(self.column(self.time))
            yield Finding("wrong-type", f"{self.time!r} is {found}, and time is a timestamp or whole number", ("time",))
        elif self.refresh is None:
            yield Finding("unused-option", "time is for a table with refresh", ("time",), severity="warning")

    def column(self, name: str) -> pa.DataType:
        """As declared; of `time` and `deleted` what they usually are."""
        usual = {self.time: pa.timestamp("us", tz="UTC"), self.deleted: pa.bool_()}
        return parse_type(self.columns[name]) if name in self.columns else usual.get(name, pa.string())

    def probe(self) -> Iterable[Finding]:
        return reached(self.access, self._look)

    def version(self) -> str | None:
        if self.changed is None:
            return None
        with self._session() as session:
            return repr(session.run(self.changed).fetchone())

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._read(columns, None)

    def changes(self) -> Changes | None:
        return Changes(self.id or self.key, self.deleted, self.whole) if self.time else None

    def mark(self) -> str | int | None:
        if self.time is None:
            return None
        with self._session() as session:
            if pa.types.is_timestamp(self.column(self.time)):
                return clock(session) - round(self.lag.total_seconds() * 1e6)
            most = session.run(f"SELECT max({session.quoted(self.time)}) FROM {self.rows(session)}").fetchone()[0]
            return None if most is None else int(most)

    def read_since(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        yield from self._read(columns, mark)

    def _read(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, self.column(name)) for name in columns])
        with self._session() as session:
            sql = f"SELECT {selected(session, schema, columns)} FROM {self.rows(session)}"
            if mark is not None and self.time is not None:
                sql += f" WHERE {session.quoted(self.time)} > {moment(session.dialect, self.column(self.time), mark)}"
            for batch, _ in rows(session, sql, schema):
                yield batch

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session = connected(self.access)
        try:
            yield session
        finally:
            close(session)

    def _look(self, session: Session) -> Iterable[Finding]:
        """Is the table there, with the columns that are named; does the query run?"""
        if self.table is None:
            session.run(f"SELECT * FROM {self.rows(session)} LIMIT 0").fetchall()
        elif (found := found_table(session, self.table)) is None:
            known = names(session, self.table)
            hint = nearest(self.table, known) or f"there are: {', '.join(known[:20])}"
            yield Finding("unknown-table", f"there is no table {self.table!r}", ("table",), hint)
        else:
            for path, name in self._named():
                if name not in found.columns:
                    message = f"table {self.table!r} has no column {name!r}"
                    yield Finding("unknown-column", message, path, nearest(name, found.columns))
        if self.changed is not None:
            session.run(self.changed).fetchone()

    def _named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Columns that options name, and where."""
        yield from ((("key",), name) for name in self.key)
        yield from ((("columns", name), name) for name in self.columns)
        yield from ((("id",), name) for name in self.id or ())
        yield from (((option,), name) for option, name in (("time", self.time), ("deleted", self.deleted)) if name)
