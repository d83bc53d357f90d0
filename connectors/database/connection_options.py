"""Options that source, sink and look-up table share: how to connect, and which rows to read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, SecretStr

from connectors.database.database_url import UrlError, parse_url
from connectors.database.drivers import ConnectionSettings
from connectors.shared.tls import ClientTls
from etl.api import Duration, Finding

if TYPE_CHECKING:
    from connectors.database.session import Session

URL = "The database: `mysql://host:3306/database` (MariaDB too), `postgresql://host/database`, `sqlite:///file.db`; no password."


TableName = Annotated[
    str,
    Field(
        pattern=r"^[^.\x00]+(\.[^.\x00]+)?$",
        max_length=129,
        json_schema_extra={"patternErrorMessage": "is not a table name: write table or schema.table"},
    ),
]
"""A table name, with or without a schema."""


class DatabaseOptions(BaseModel):
    """Options for connecting to a database."""

    url: str = Field(description=URL, min_length=1, examples=["mysql://localhost:3306/logs", "sqlite:///logs.db"])
    user: str | None = Field(default=None, description="User name.", min_length=1)
    password: SecretStr | None = Field(default=None, description="Password.", examples=["${DB_PASSWORD}"])
    tls: ClientTls | None = Field(default=None, description="Encrypted connection; without it the connection is not encrypted.")
    timeout: Duration = Field(
        default=timedelta(seconds=60),
        gt=timedelta(0),
        description="How long a statement may take; connecting may take at most 10 s, waiting for a lock three quarters of it. "
        "A server ends an open transaction, and releases its locks, after this time without a word from the client.",
    )
    properties: dict[str, Any] = Field(
        default={},
        description="More options of the driver: PyMySQL's `connect`, libpq's connection, Python's `sqlite3.connect`.",
        examples=[{"application_name": "audit"}],
    )

    @property
    def settings(self) -> ConnectionSettings:
        """Return address and credentials. Raises UrlError."""
        given = tuple(sorted(self.properties.items()))
        return ConnectionSettings(parse_url(self.url), self.user, self.password, self.tls, self.timeout.total_seconds(), given)

    def check_url(self) -> Iterable[Finding]:
        """Yield findings for a malformed URL, options that SQLite does not use, and properties that have an option of their
        own.
        """
        try:
            url = parse_url(self.url)
        except UrlError as error:
            yield Finding(error.code, str(error), ("url",), error.hint)
            return
        if url.dialect == "sqlite":
            for name in ("user", "password", "tls"):
                if getattr(self, name) is not None:
                    message = f"{name} is not used: SQLite's database is a file"
                    yield Finding("unused-option", message, (name,), severity="warning")
        if self.tls is not None:
            yield from self.tls.check("tls")
        for name, value in self.properties.items():
            if name in _RESERVED_PROPERTIES:
                message = f"{name!r} is set by the options url, user, password, tls and timeout"
                yield Finding("reserved-property", message, ("properties", name))
            elif isinstance(value, dict | list):
                yield Finding("reserved-property", f"{name!r} must be a text, a number, true or false", ("properties", name))


class RowsOptions(DatabaseOptions):
    """Options that choose the rows to read."""

    table: TableName | None = Field(default=None, description="The table, or `schema.table`.")
    query: str | None = Field(
        default=None,
        description="A SELECT instead of a table.",
        min_length=1,
        examples=["select o.id, c.name from orders o join customers c on c.id = o.customer"],
    )

    def check_rows(self) -> Iterable[Finding]:
        """Yield findings for a malformed URL, and unless exactly one of table and query is set."""
        yield from self.check_url()
        if (self.table is None) == (self.query is None):
            found = "both are" if self.table else "neither is"
            yield Finding("one-of-two", f"either table or query is needed, but {found} given", (), "give one of them")

    def from_clause(self, session: Session) -> str:
        """Return the text after FROM."""
        if self.table is not None:
            return session.quote_table(self.table)
        assert self.query is not None
        return f"({self.query.rstrip().rstrip(';')}) AS source_query"


_RESERVED_PROPERTIES = frozenset(
    ["host", "port", "user", "password", "passwd", "database", "db", "dbname", "autocommit", "isolation_level"]
)
_RESERVED_PROPERTIES |= {"options", "charset", "client_encoding", "check_same_thread", "timeout"}
