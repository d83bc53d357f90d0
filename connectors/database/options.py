"""Options that sink, source and look-up table share: where the database is, how we get in, and which rows are read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, SecretStr

from connectors.database.drivers import Access
from connectors.database.places import UrlError, place_of
from connectors.tls import ClientTls
from etl.api import Duration, Finding

if TYPE_CHECKING:
    from connectors.database.session import Session

URL = "The database: `mysql://host:3306/database` (MariaDB too), `postgresql://host/database`, `sqlite:///file.db`; no password."


TableName = Annotated[
    str,
    Field(
        pattern=r"^[^.\x00]+(\.[^.\x00]+)?$",
        max_length=129,
        json_schema_extra={"patternErrorMessage": "is no table: write its name, or schema.name"},
    ),
]
"""A table, with its schema in front or not."""


class DatabaseOptions(BaseModel):
    """How to reach a database."""

    url: str = Field(description=URL, min_length=1, examples=["mysql://localhost:3306/logs", "sqlite:///logs.db"])
    user: str | None = Field(default=None, description="User name.", min_length=1)
    password: SecretStr | None = Field(default=None, description="Password.", examples=["${DB_PASSWORD}"])
    tls: ClientTls | None = Field(default=None, description="Encrypted connection; plain when nothing is said.")
    timeout: Duration = Field(
        default=timedelta(seconds=60),
        gt=timedelta(0),
        description="How long the server may take for one answer; a connection may take 10 s of it, a lock three quarters.",
    )
    properties: dict[str, Any] = Field(
        default={},
        description="Further options of the driver: PyMySQL's `connect`, libpq's connection, Python's `sqlite3.connect`.",
        examples=[{"application_name": "audit"}],
    )

    @property
    def access(self) -> Access:
        """Where and how; raises UrlError."""
        given = tuple(sorted(self.properties.items()))
        return Access(place_of(self.url), self.user, self.password, self.tls, self.timeout.total_seconds(), given)

    def url_findings(self) -> Iterable[Finding]:
        """A URL that cannot be read, options that a file needs not, properties that are options of ours."""
        try:
            place = place_of(self.url)
        except UrlError as error:
            yield Finding(error.code, str(error), ("url",), error.hint)
            return
        if place.dialect == "sqlite":
            for name in ("user", "password", "tls"):
                if getattr(self, name) is not None:
                    message = f"SQLite's database is a file, and {name} is not used"
                    yield Finding("unused-option", message, (name,), severity="warning")
        if self.tls is not None:
            yield from self.tls.check("tls")
        for name, value in self.properties.items():
            if name in _OURS:
                message = f"{name!r} is given by the options url, user, password, tls and timeout"
                yield Finding("reserved-property", message, ("properties", name))
            elif isinstance(value, dict | list):
                yield Finding("reserved-property", f"{name!r} is a text, a number or true or false", ("properties", name))


class RowsOptions(DatabaseOptions):
    """Which rows of a database are read."""

    table: TableName | None = Field(default=None, description="The table, or `schema.table`.")
    query: str | None = Field(
        default=None,
        description="A SELECT instead of a table.",
        min_length=1,
        examples=["select o.id, c.name from orders o join customers c on c.id = o.customer"],
    )

    def rows_findings(self) -> Iterable[Finding]:
        """A URL that cannot be read; no table or query, or both."""
        yield from self.url_findings()
        if (self.table is None) == (self.query is None):
            found = "both are" if self.table else "neither is"
            yield Finding("one-of-two", f"a table or a query is read, and {found} given", (), "give one of them")

    def rows(self, session: Session) -> str:
        """What stands behind FROM."""
        if self.table is not None:
            return session.qualified(self.table)
        assert self.query is not None
        return f"({self.query.rstrip().rstrip(';')}) AS source_query"


_OURS = frozenset(["host", "port", "user", "password", "passwd", "database", "db", "dbname", "autocommit", "isolation_level"])
_OURS |= {"options", "charset", "client_encoding", "check_same_thread", "timeout"}
