"""Which database a URL names: ``mysql://host:3306/logs``, ``postgresql://host/logs``, ``sqlite:///logs.db``.

Taken apart here and not by SQLAlchemy, whose import alone would take longer than checking a pipeline may.
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


_SLASHES = (
    "SQLite's URL has three slashes and a path, for between the second and the third other databases have their host: "
    "sqlite:///logs.db lies in the folder of the run, and sqlite:////var/lib/logs.db, with four, begins at the root"
)


class UrlError(ValueError):
    """A URL that names no database we know; ``code`` is that of the finding. Never holds the URL, which may hold a password."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


@dataclass(frozen=True, slots=True)
class Place:
    """A database: on a server, or the file that it is."""

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


def table_url(place: Place, table: str) -> str:
    """A table as a URL, without who logs in."""
    server = "" if place.dialect == "sqlite" else f"{place.host}:{place.port}/"
    return f"{place.dialect}://{server}{place.database}/{table}"


def place_of(url: str) -> Place:
    """URL → place. Raises UrlError."""
    scheme, found, rest = url.partition("://")
    dialect = _DIALECTS.get(scheme.lower())
    if scheme.lower().startswith("jdbc:") or url.lower().startswith("jdbc:"):
        raise UrlError("unknown-database", f"the URL is one of JDBC; write {EXAMPLES}", "leave out 'jdbc:'")
    if not found and url.lower().startswith("sqlite:"):
        raise UrlError("unknown-database", _SLASHES)
    if not found or dialect is None:
        hint = nearest(scheme, _DIALECTS) if found else None
        raise UrlError("unknown-database", f"the URL names no known database; write {EXAMPLES}", hint)
    return _file(rest) if dialect == "sqlite" else _server(dialect, url)


def _file(rest: str) -> Place:
    path = unquote(rest.partition("?")[0])
    if not path.startswith("/") or path == "/":
        raise UrlError("unknown-database", _SLASHES)
    if path == "/:memory:":
        raise UrlError("unknown-database", "a SQLite database in memory is gone with its process; name a file: sqlite:///logs.db")
    return Place("sqlite", "", 0, os.path.abspath(os.path.expanduser(path[1:])))


def _server(dialect: Dialect, url: str) -> Place:
    try:
        parts = urlsplit(url)
        host, port, database = parts.hostname, parts.port, unquote(parts.path.lstrip("/"))
    except ValueError:
        raise UrlError("unknown-database", f"the URL cannot be read; write {EXAMPLES}") from None
    if parts.password is not None:
        raise UrlError("url-with-password", "the URL holds a password, which would be shown", "give it as password: ${…}")
    if parts.query or parts.fragment:
        raise UrlError("unknown-database", "the URL ends in ?… or #…, which is not read", "give such options under properties")
    if not host or not database:
        raise UrlError("unknown-database", f"the URL lacks its host or database; write {EXAMPLES}")
    return Place(dialect, host, port or _PORTS[dialect], database, unquote(parts.username) if parts.username else None)
