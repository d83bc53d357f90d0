"""Tables of MariaDB, PostgreSQL and SQLite in kill tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kill_table import Workspace

from connectors.database.session import Session, close, open_session
from connectors.database.sink import DatabaseSink

SCHEMES = {"mariadb": "mysql", "postgres": "postgresql"}
SERIES = {
    "mariadb": "SELECT seq, CONCAT('event number ', seq) FROM seq_{first}_to_{last}",
    "postgres": "SELECT n, 'event number ' || n FROM generate_series({first}, {last}) AS n",
}
BATCH = 500
"""Rows in a transaction, so that a split has several."""
MAX_LEDGER_BATCHES = 8
"""Maximum number of micro-batches that a query may have in the ledger when a run has ended."""


class Database:
    """A database, with a connection for each statement of the test."""

    def __init__(self, workspace: Workspace, kind: str) -> None:
        if kind == "sqlite":
            self.settings = {"url": f"sqlite:///{workspace.folder}/{workspace.label}.db"}
        else:
            server = workspace.servers[kind]
            url = f"{SCHEMES[kind]}://{server.address}/{server.database}"
            self.settings = {"url": url, "user": server.user, "password": server.password}
        self.options = ", ".join(f"{name}: '{value}'" for name, value in self.settings.items())

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with self._session() as session:
            cursor = session.run(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session = open_session(DatabaseSink.model_validate({**self.settings, "table": "t"}).settings)
        try:
            yield session
        finally:
            close(session)


class TableInput:
    """A growing table, or a new one for each run that is read once; ``order`` has the options for the order of rows."""

    steps: tuple[str, ...] = ()

    def __init__(self, workspace: Workspace, kind: str, order: str) -> None:
        self.workspace, self.kind, self.order, self.numbers = workspace, kind, order, itertools.count()
        self.database, self.table = Database(workspace, kind), ""

    @property
    def options(self) -> str:
        fields = "fields: {n: bigint, text: string}"
        return f"{{type: database, {self.database.options}, table: {self.table}, {fields}{self.order}}}"

    def begin(self) -> None:
        self.table = f"{self.workspace.label.replace('-', '_')}_in_{next(self.numbers)}"
        self.database.run(f"CREATE TABLE {self.table} (n BIGINT PRIMARY KEY, text VARCHAR(100))")
        self.workspace.cleanup.callback(self.database.run, f"DROP TABLE {self.table}")

    def write_events(self, first: int, last: int) -> None:
        self.database.run(f"INSERT INTO {self.table} {SERIES[self.kind].format(first=first, last=last - 1)}")


class TableOutput:
    """A table with a ledger that no other sink uses."""

    def __init__(self, workspace: Workspace, kind: str, mode: str) -> None:
        self.database, self.table = Database(workspace, kind), f"{workspace.label.replace('-', '_')}_out"
        self.ledger = f"{self.table}_ledger"
        key = ", key: [n]" if mode == "upsert" else ""
        if key:
            self.database.run(f"CREATE TABLE {self.table} (n BIGINT PRIMARY KEY, text VARCHAR(100))")
        made = f"mode: {mode}{key}, create: true, ledger: {self.ledger}, batch: {{max_events: {BATCH}}}"
        self.options = f"type: database, {self.database.options}, table: {self.table}, {made}"
        for name in (self.table, self.ledger):
            workspace.cleanup.callback(self.database.run, f"DROP TABLE IF EXISTS {name}")

    def delivered(self) -> Iterator[int]:
        return (row[0] for row in self.database.run(f"SELECT n FROM {self.table}"))

    def check(self, total: int) -> None:
        """Assert that the ledger has no entries of old micro-batches."""
        counts = self.database.run(f"SELECT count(DISTINCT batch) FROM {self.ledger} GROUP BY query")
        assert all(count <= MAX_LEDGER_BATCHES for (count,) in counts), counts


def followed(kind: str) -> partial[TableInput]:
    """A table that is followed by its growing id."""
    return partial(TableInput, kind=kind, order=", id: n, follow: true")


def whole(kind: str) -> partial[TableInput]:
    """A table that is read once, in ranges of its id."""
    return partial(TableInput, kind=kind, order=", id: n")


def unordered(kind: str) -> partial[TableInput]:
    """A table that is read once, in the order that the database chooses."""
    return partial(TableInput, kind=kind, order="")


def rows(kind: str, mode: str) -> partial[TableOutput]:
    """Rows of a table."""
    return partial(TableOutput, kind=kind, mode=mode)
