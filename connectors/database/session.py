"""A connection: one to each database and process, opened when first used, and its transactions."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.database.drivers import CONNECT, Access
from connectors.database.failures import translated
from connectors.database.places import Dialect
from etl.api import ComponentError

if TYPE_CHECKING:
    from sqlalchemy import Engine

EXTRA = "pip install 'sluice-etl[database]'"


@dataclass
class Session:
    """An open connection in autocommit, for one thread. A temporary error closes it, and the next asker gets another."""

    access: Access
    driver: Any
    """The driver's own connection."""
    known: dict[Any, Any] = field(default_factory=dict)
    """What was found out about tables over this connection, by who asked."""
    closed: bool = False

    @property
    def dialect(self) -> Dialect:
        """Which language it speaks."""
        return self.access.place.dialect

    def run(self, sql: str, values: Sequence[Any] | None = None) -> Any:
        """Run one statement with ``%s`` for each value → its cursor. Raises what `failures` makes of errors."""
        if self.closed:
            raise OSError(f"{self.access.place}: the connection was lost")
        cursor = self.driver.cursor()
        with self.failing():
            if values is None:
                cursor.execute(sql)
            else:
                cursor.execute(sql.replace("%s", "?") if self.dialect == "sqlite" else sql, tuple(values))
        return cursor

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Errors of the driver become the engine's."""
        try:
            yield
        except Exception as error:
            found = translated(error, self.access.place)
            if isinstance(found, OSError):
                close(self)
            if found is error:
                raise
            raise found from error

    @contextmanager
    def failing_through_sqlalchemy(self) -> Iterator[None]:
        """The same for calls of SQLAlchemy, which wraps errors of the driver."""
        from sqlalchemy.exc import DBAPIError

        with self.failing():
            try:
                yield
            except DBAPIError as error:
                raise error.orig or error from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Committed at the end, rolled back on an error."""
        self.begin()
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def begin(self) -> None:
        """Begin a transaction: what comes until COMMIT is seen at once or never."""
        self.run(_BEGIN[self.dialect])

    def roll_back(self) -> None:
        """Undo the transaction, as closing the connection does too."""
        if self.closed:
            return
        try:
            self.run("ROLLBACK")
        except (OSError, ComponentError):
            close(self)

    def attempt(self, action: Callable[[], None]) -> None:
        """Do something inside a transaction and undo it alone when it raises."""
        self.run("SAVEPOINT attempt")
        try:
            action()
        except (OSError, ComponentError):
            raise
        except Exception:
            self.run("ROLLBACK TO SAVEPOINT attempt")
            raise
        self.run("RELEASE SAVEPOINT attempt")

    def quoted(self, name: str) -> str:
        """A table or column for SQL text; dots lead from a schema to its table only where `qualified` is used."""
        mark = "`" if self.dialect == "mysql" else '"'
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def qualified(self, table: str) -> str:
        """``schema.table`` for SQL text."""
        return ".".join(self.quoted(part) for part in table.split("."))


_BEGIN: dict[Dialect, str] = {"mysql": "BEGIN", "postgresql": "BEGIN", "sqlite": "BEGIN IMMEDIATE"}
_open: dict[tuple[int, int, Access], Session] = {}
"""By process and thread."""


def session_of(access: Access) -> Session:
    """This thread's session. Raises OSError when the server cannot be reached, ComponentError when it does not let us in."""
    key = here(access)
    if not _open:
        atexit.register(close_all)
    if key not in _open:
        _open[key] = connected(access)
    return _open[key]


def connected(access: Access) -> Session:
    """A session of the caller's own."""
    try:
        return Session(access, CONNECT[access.place.dialect](access))
    except ImportError as error:
        raise ComponentError(f"{error.name} is not installed, which talks to {access.place}; {EXTRA}") from error
    except ComponentError:
        raise
    except Exception as error:
        found = translated(error, access.place)
        if found is error:
            raise ComponentError(f"{access.place}: {error}; check properties, which go to the driver") from error
        raise found from error


def close(session: Session) -> None:
    """Close a session; the next asker gets another."""
    session.closed = True
    if _open.get(here(session.access)) is session:
        del _open[here(session.access)]
    try:
        session.driver.close()
    except Exception:  # it is broken already, in ways that each driver tells otherwise
        return


def close_all() -> None:
    """This process's sessions; those of a process that it was forked from are not its own."""
    for key, session in list(_open.items()):
        if key[0] == os.getpid():
            with suppress(Exception):
                session.driver.close()


def here(access: Access) -> tuple[int, int, Access]:
    """The database as this process and thread know it."""
    return os.getpid(), threading.get_ident(), access


def engine_of(session: Session) -> Engine:
    """SQLAlchemy's view of the same connection, for what it knows of tables."""
    try:
        sqlalchemy = import_module("sqlalchemy")
    except ImportError as error:
        raise ComponentError(f"sqlalchemy is not installed, which knows the tables of databases; {EXTRA}") from error
    names = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg", "sqlite": "sqlite"}
    pool = import_module("sqlalchemy.pool").StaticPool
    return sqlalchemy.create_engine(f"{names[session.dialect]}://", creator=lambda: session.driver, poolclass=pool)
