"""Options that the sink and the source share: where the database is and how we get in."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from connectors.database.drivers import Access
from connectors.database.places import UrlError, place_of
from connectors.tls import ClientTls
from etl.api import Duration, Finding

URL = "The database: `mysql://host:3306/database` (MariaDB too), `postgresql://host/database`, `sqlite:///file.db`; no password."


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


_OURS = frozenset(["host", "port", "user", "password", "passwd", "database", "db", "dbname", "autocommit", "isolation_level"])
_OURS |= {"options", "charset", "client_encoding", "check_same_thread", "timeout"}
