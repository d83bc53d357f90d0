"""The table `database`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import pyarrow as pa
from pydantic import Field

from connectors.database.connection_options import RowsOptions
from connectors.database.probe import probe_database
from connectors.database.row_ranges import fetch_clock, time_literal
from connectors.database.row_reader import read_rows, select_list
from connectors.database.session import Session, close, open_session
from connectors.database.tables import inspect_table, list_tables
from etl.api import Changes, Duration, Finding, LookupTable, Names, format_type, nearest, parse_type


class DatabaseTable(RowsOptions, LookupTable):
    """A table or query of MySQL, MariaDB, PostgreSQL or SQLite.

    It is read in one statement, which sees the rows at one moment. With `refresh` it is read again at this interval;
    `changed` is a cheap query whose result shows whether rows may have changed. A value that does not fit its column's type
    is null; in PostgreSQL such a value keeps the last version in use. Rows of MySQL and MariaDB become columns without a
    Python value for each; psycopg and SQLite return one row at a time. Tested against real servers.

    With `time`, a refresh reads only the rows that are new or changed since the last one, and builds the new version from
    them and the other rows, which are stored in a file beside the table's (in the state folder, compressed). `id` identifies
    the row that a changed row replaces; without it the key does, and must be unique. Deleted rows are not noticed: mark them
    in a column (`deleted`), or read the whole table from time to time (`whole`). A row whose `time` is null is only read with
    the whole table. An index on `time` makes a refresh cheap. A timestamp is compared with the database's clock, and a row
    may be committed up to `lag` after its time; rows younger than that are read again. If `time` is a number (a version, a
    sequence), a row that is committed after one with a larger number is missed.

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
        description="A SELECT of one row, whose result changes with the rows; without it every refresh reads the table.",
        min_length=1,
        examples=["select max(changed), count(*) from bad_addresses"],
    )
    time: str | None = Field(
        default=None,
        min_length=1,
        description="Column that increases when rows are added or changed: a refresh reads only those. A timestamp, unless "
        "`columns` declares a whole number.",
        examples=["changed_at"],
    )
    id: Names | None = Field(
        default=None, description="Columns that identify a row, if the key does not; for `time`.", examples=["id"]
    )
    lag: Duration = Field(
        default=timedelta(seconds=5),
        ge=timedelta(0),
        description="How long after its `time` a row may be committed: longer than the longest transaction that writes rows.",
    )
    deleted: str | None = Field(
        default=None,
        min_length=1,
        description="Column that marks deleted rows: true, a number other than 0, or a time (declared in `columns`).",
        examples=["is_deleted"],
    )
    whole: Duration | None = Field(
        default=None, description="How often a refresh reads the whole table although `time` is set.", examples=["1d"]
    )

    def check(self) -> Iterable[Finding]:
        yield from self.check_rows()
        if self.time is None:
            for name in ("id", "lag", "deleted", "whole"):
                if name in self.model_fields_set:
                    yield Finding("unused-option", f"{name} is only used with time", (name,), severity="warning")
        elif not (pa.types.is_timestamp(self.column(self.time)) or pa.types.is_integer(self.column(self.time))):
            found = format_type(self.column(self.time))
            yield Finding("wrong-type", f"{self.time!r} is {found}, but time must be a timestamp or whole number", ("time",))
        elif self.refresh is None:
            yield Finding("unused-option", "time is only used with refresh", ("time",), severity="warning")

    def column(self, name: str) -> pa.DataType:
        """Return the declared type; `time` and `deleted` have a default type."""
        usual = {self.time: pa.timestamp("us", tz="UTC"), self.deleted: pa.bool_()}
        return parse_type(self.columns[name]) if name in self.columns else usual.get(name, pa.string())

    def probe(self) -> Iterable[Finding]:
        return probe_database(self.settings, self._check_connected)

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
                return fetch_clock(session) - round(self.lag.total_seconds() * 1e6)
            latest = session.run(f"SELECT max({session.quote(self.time)}) FROM {self.from_clause(session)}").fetchone()[0]
            return None if latest is None else int(latest)

    def read_since(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        yield from self._read(columns, mark)

    def _read(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, self.column(name)) for name in columns])
        with self._session() as session:
            sql = f"SELECT {select_list(session, schema, columns)} FROM {self.from_clause(session)}"
            if mark is not None and self.time is not None:
                sql += f" WHERE {session.quote(self.time)} > {time_literal(session.dialect, self.column(self.time), mark)}"
            for batch, _ in read_rows(session, sql, schema):
                yield batch

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session = open_session(self.settings)
        try:
            yield session
        finally:
            close(session)

    def _check_connected(self, session: Session) -> Iterable[Finding]:
        """Check that the table exists and has the columns that options name, and that the query runs."""
        if self.table is None:
            session.run(f"SELECT * FROM {self.from_clause(session)} LIMIT 0").fetchall()
        elif (found := inspect_table(session, self.table)) is None:
            known = list_tables(session, self.table)
            hint = nearest(self.table, known) or f"there are: {', '.join(known[:20])}"
            yield Finding("unknown-table", f"there is no table {self.table!r}", ("table",), hint)
        else:
            for path, name in self._named_columns():
                if name not in found.columns:
                    message = f"table {self.table!r} has no column {name!r}"
                    yield Finding("unknown-column", message, path, nearest(name, found.columns))
        if self.changed is not None:
            session.run(self.changed).fetchone()

    def _named_columns(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the columns that options name, each with its option."""
        yield from ((("key",), name) for name in self.key)
        yield from ((("columns", name), name) for name in self.columns)
        yield from ((("id",), name) for name in self.id or ())
        yield from (((option,), name) for option, name in (("time", self.time), ("deleted", self.deleted)) if name)
