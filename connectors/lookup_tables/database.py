"""The table `database`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field

from connectors.database.options import DatabaseOptions
from connectors.database.probing import reached
from connectors.database.reading import rows, selected
from connectors.database.session import Session, close, connected
from connectors.database.tables import found_table, names
from etl.api import Finding, Table, nearest


class DatabaseTable(DatabaseOptions, Table):
    """A table or query of MySQL, MariaDB, PostgreSQL or SQLite.

    It is read whole, in pieces of 16,384 rows and in one statement, so as it is at one moment. With `refresh` it is read again
    that often; `changed` is a cheap query whose answer says whether that is worth it. A value that is none of its column's
    type is null, but in PostgreSQL, where it keeps the version before in use. PyMySQL and SQLite hand over Python values, a row
    at a time; PostgreSQL's COPY does not. Tested against the real servers.

    ```yaml
    type: database
    url: mysql://db.example.org:3306/intel
    user: sluice
    password: ${DB_PASSWORD}
    table: bad_addresses
    key: ip
    columns: {score: int}
    refresh: 10m
    changed: select max(changed), count(*) from bad_addresses
    ```
    """

    type: Literal["database"] = "database"
    table: str | None = Field(
        default=None, description="The table, or `schema.table`.", pattern=r"^[^.\x00]+(\.[^.\x00]+)?$", max_length=129
    )
    query: str | None = Field(
        default=None,
        description="A SELECT instead of a table.",
        min_length=1,
        examples=["select ip, max(score) as score from sightings group by ip"],
    )
    changed: str | None = Field(
        default=None,
        description="A SELECT of one row that is another when rows may have changed; without it the table is read each time.",
        min_length=1,
        examples=["select max(changed), count(*) from bad_addresses"],
    )

    def check(self) -> Iterable[Finding]:
        yield from self.url_findings()
        if (self.table is None) == (self.query is None):
            found = "both are" if self.table else "neither is"
            yield Finding("one-of-two", f"a table or a query is read, and {found} given", (), "give one of them")

    def probe(self) -> Iterable[Finding]:
        return reached(self.access, self._look)

    def version(self) -> str | None:
        if self.changed is None:
            return None
        session = connected(self.access)
        try:
            return repr(session.run(self.changed).fetchone())
        finally:
            close(session)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, self.column(name)) for name in columns])
        session = connected(self.access)
        try:
            sql = f"SELECT {selected(session, schema, columns)} FROM {self._rows(session)}"
            for batch, _ in rows(session, sql, schema):
                yield batch
        finally:
            close(session)

    def _rows(self, session: Session) -> str:
        """What stands behind FROM."""
        if self.table is not None:
            return session.qualified(self.table)
        assert self.query is not None
        return f"({self.query.rstrip().rstrip(';')}) AS source_query"

    def _look(self, session: Session) -> Iterable[Finding]:
        """Is the table there, with the columns that are named; does the query run?"""
        if self.table is None:
            session.run(f"SELECT * FROM {self._rows(session)} LIMIT 0").fetchall()
        elif (found := found_table(session, self.table)) is None:
            known = names(session, self.table)
            hint = nearest(self.table, known) or f"there are: {', '.join(known[:20])}"
            yield Finding("unknown-table", f"there is no table {self.table!r}", ("table",), hint)
        else:
            for name in [*self.key, *self.columns]:
                if name not in found.columns:
                    path = ("key",) if name in self.key else ("columns", name)
                    message = f"table {self.table!r} has no column {name!r}"
                    yield Finding("unknown-column", message, path, nearest(name, found.columns))
        if self.changed is not None:
            session.run(self.changed).fetchone()
