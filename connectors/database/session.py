"""Connections to databases, one for each database, process and thread, opened at the first use, and their transactions."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.database.database_url import Dialect
from connectors.database.drivers import CONNECTORS, ConnectionSettings, is_mariadb
from connectors.database.errors import to_engine_error
from etl.api import ComponentError

if TYPE_CHECKING:
    from sqlalchemy import Engine

EXTRA = "pip install 'sluice-etl[database]'"


@dataclass
class Session:
    """An open connection in autocommit, for one thread. A temporary error closes it, and `shared_session` opens another."""

    settings: ConnectionSettings
    driver: Any
    """Connection object of the driver."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """What callers found out about tables over this connection, by a key of their own."""
    is_closed: bool = False

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the database."""
        return self.settings.url.dialect

    def run(self, sql: str, values: Sequence[Any] | None = None) -> Any:
        """Run a statement with ``%s`` for each value; returns its cursor. Raises what `errors` makes of the driver's errors."""
        if self.is_closed:
            raise OSError(f"{self.settings.url}: the connection was lost")
        cursor = self.driver.cursor()
        with self.translating_errors():
            if values is None:
                cursor.execute(sql)
            else:
                cursor.execute(sql.replace("%s", "?") if self.dialect == "sqlite" else sql, tuple(values))
        return cursor

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Convert errors of the driver to the engine's; a temporary error closes the session."""
        try:
            yield
        except Exception as error:
            found = to_engine_error(error, self.settings.url)
            if isinstance(found, OSError):
                close(self)
            if found is error:
                raise
            raise found from error

    @contextmanager
    def translating_sqlalchemy_errors(self) -> Iterator[None]:
        """Like `translating_errors`, for calls of SQLAlchemy, which wraps the driver's errors."""
        from sqlalchemy.exc import DBAPIError

        with self.translating_errors():
            try:
                yield
            except DBAPIError as error:
                raise error.orig or error from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end, roll back after an error."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            self.roll_back()
            raise

    def begin(self) -> None:
        """Begin a transaction."""
        if self._is_mysql:
            self.run(f"SET wait_timeout = {self.settings.idle_seconds}")
        self.run(_BEGIN[self.dialect])

    def commit(self) -> None:
        """Commit the transaction."""
        self.run("COMMIT")
        self._unlimit_idle_time()

    def roll_back(self) -> None:
        """Roll back the transaction; closing the connection would, too."""
        if self.is_closed:
            return
        try:
            self.run("ROLLBACK")
        except (OSError, ComponentError):
            close(self)
        self._unlimit_idle_time()

    @property
    def _is_mysql(self) -> bool:
        """Whether the server limits the idle time only of connections: MySQL. Others have a limit for transactions, which
        `drivers` sets.
        """
        return self.dialect == "mysql" and not is_mariadb(self.driver)

    def _unlimit_idle_time(self) -> None:
        """Let the connection be idle between transactions for as long as the server's default allows."""
        if self._is_mysql and not self.is_closed:
            with suppress(OSError, ComponentError):  # the transaction is over; a lost connection is opened again
                self.run("SET wait_timeout = DEFAULT")

    def run_with_savepoint(self, action: Callable[[], None]) -> None:
        """Call ``action`` in a transaction, and undo it alone if it raises."""
        self.run("SAVEPOINT attempt")
        try:
            action()
        except (OSError, ComponentError):
            raise
        except Exception:
            self.run("ROLLBACK TO SAVEPOINT attempt")
            raise
        self.run("RELEASE SAVEPOINT attempt")

    def quote(self, name: str) -> str:
        """Quote a table or column name for SQL text; a dot in it does not separate schema and table."""
        mark = "`" if self.dialect == "mysql" else '"'
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def quote_table(self, table: str) -> str:
        """Quote ``table`` or ``schema.table`` for SQL text."""
        return ".".join(self.quote(part) for part in table.split("."))


_BEGIN: dict[Dialect, str] = {"mysql": "BEGIN", "postgresql": "BEGIN", "sqlite": "BEGIN IMMEDIATE"}
_sessions: dict[tuple[int, int, ConnectionSettings], Session] = {}
"""By process and thread."""


def shared_session(settings: ConnectionSettings) -> Session:
    """Return this thread's session. Raises OSError if the server cannot be reached, and ComponentError if it refuses the
    login.
    """
    key = session_key(settings)
    if not _sessions:
        atexit.register(close_all_sessions)
    if key not in _sessions:
        _sessions[key] = open_session(settings)
    return _sessions[key]


def open_session(settings: ConnectionSettings) -> Session:
    """Open a session of the caller's own."""
    try:
        return Session(settings, CONNECTORS[settings.url.dialect](settings))
    except ImportError as error:
        raise ComponentError(f"{error.name}, the driver of {settings.url}, is not installed; {EXTRA}") from error
    except ComponentError:
        raise
    except Exception as error:
        found = to_engine_error(error, settings.url)
        if found is error:
            raise ComponentError(f"{settings.url}: {error}; check properties, which are passed to the driver") from error
        raise found from error


def close(session: Session) -> None:
    """Close a session; `shared_session` opens another."""
    session.is_closed = True
    if _sessions.get(session_key(session.settings)) is session:
        del _sessions[session_key(session.settings)]
    try:
        session.driver.close()
    except Exception:  # already broken; each driver raises another error
        return


def close_all_sessions() -> None:
    """Close this process's sessions, but not those inherited from the parent of a fork."""
    for key, session in list(_sessions.items()):
        if key[0] == os.getpid():
            with suppress(Exception):
                session.driver.close()


def session_key(settings: ConnectionSettings) -> tuple[int, int, ConnectionSettings]:
    """Return the key of this process's and thread's session."""
    return os.getpid(), threading.get_ident(), settings


def sqlalchemy_engine(session: Session) -> Engine:
    """Return a SQLAlchemy engine on the same connection, to inspect tables."""
    try:
        sqlalchemy = import_module("sqlalchemy")
    except ImportError as error:
        raise ComponentError(f"sqlalchemy, which inspects tables, is not installed; {EXTRA}") from error
    names = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg", "sqlite": "sqlite"}
    pool = import_module("sqlalchemy.pool").StaticPool
    return sqlalchemy.create_engine(f"{names[session.dialect]}://", creator=lambda: session.driver, poolclass=pool)
