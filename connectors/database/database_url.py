"""URLs of databases: ``mysql://host:3306/logs``, ``postgresql://host/logs``, ``sqlite:///logs.db``.

Parsed without SQLAlchemy, whose import alone would take longer than checking a pipeline may.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from etl.api import nearest

Dialect = Literal["mysql", "postgresql", "sqlite"]

_DIALECTS: dict[str, Dialect] = {
    "mysql": "mysql",
    "mysql+pymysql": "mysql",
    "mariadb": "mysql",
    "mariadb+pymysql": "mysql",
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
}
_PORTS = {"mysql": 3306, "postgresql": 5432, "sqlite": 0}
EXAMPLES = "mysql://host:3306/database, postgresql://host/database or sqlite:///file.db"


_SQLITE_URL_HELP = (
    "a SQLite URL has three slashes before the path, because it has no host: "
    "sqlite:///logs.db is relative to the folder of the run, and sqlite:////var/lib/logs.db, with four slashes, is absolute"
)


class UrlError(ValueError):
    """A URL that is malformed or names an unknown database. ``code`` is the finding's code. Never contains the URL, which may
    contain a password.
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A parsed URL: a database on a server, or a SQLite file."""

    dialect: Dialect
    host: str
    port: int
    database: str
    user: str | None = None

    def __str__(self) -> str:
        if self.dialect == "sqlite":
            return f"SQLite file {self.database}"
        system = {"mysql": "MySQL", "postgresql": "PostgreSQL"}[self.dialect]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{system} at {host}:{self.port}"


_JDBC = "jdbc:"
"""Prefix of the URLs of Java programs; an environment variable may hold one."""


def table_url(url: DatabaseUrl, table: str) -> str:
    """Return a table as a URL, without the user."""
    server = "" if url.dialect == "sqlite" else f"{url.host}:{url.port}/"
    return f"{url.dialect}://{server}{url.database}/{table}"


def parse_url(url: str) -> DatabaseUrl:
    """Parse a URL, or one of JDBC. Raises UrlError."""
    url = url[len(_JDBC) :] if url.lower().startswith(_JDBC) else url
    scheme, found, rest = url.partition("://")
    dialect = _DIALECTS.get(scheme.lower())
    if not found and url.lower().startswith("sqlite:"):
        raise UrlError("unknown-database", _SQLITE_URL_HELP)
    if not found or dialect is None:
        hint = nearest(scheme, _DIALECTS) if found else None
        raise UrlError("unknown-database", f"the URL does not name a known database; write {EXAMPLES}", hint)
    return _parse_sqlite(rest) if dialect == "sqlite" else _parse_server(dialect, url)


def _parse_sqlite(rest: str) -> DatabaseUrl:
    path = unquote(rest.partition("?")[0])
    if not path.startswith("/") or path == "/":
        raise UrlError("unknown-database", _SQLITE_URL_HELP)
    if path == "/:memory:":
        raise UrlError("unknown-database", "a SQLite database in memory is lost with its process; use a file: sqlite:///logs.db")
    return DatabaseUrl("sqlite", "", 0, os.path.abspath(os.path.expanduser(path[1:])))


def _parse_server(dialect: Dialect, url: str) -> DatabaseUrl:
    try:
        parts = urlsplit(url)
        host, port, database = parts.hostname, parts.port, unquote(parts.path.lstrip("/"))
    except ValueError:
        raise UrlError("unknown-database", f"the URL cannot be read; write {EXAMPLES}") from None
    if parts.password is not None:
        raise UrlError("url-with-password", "the URL contains a password, which would be shown", "give it as password: ${…}")
    if parts.query or parts.fragment:
        raise UrlError("unknown-database", "the part of the URL after ? or # is not used", "give such options under properties")
    if not host or not database:
        raise UrlError("unknown-database", f"the URL lacks its host or database; write {EXAMPLES}")
    return DatabaseUrl(dialect, host, port or _PORTS[dialect], database, unquote(parts.username) if parts.username else None)
