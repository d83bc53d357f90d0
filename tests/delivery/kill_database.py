"""Tables of MariaDB, PostgreSQL and SQLite, in trials in which runs and servers are killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kill_table import Stage

from connectors.database.session import Session, close, open_session
from connectors.database.sink import DatabaseSink

SCHEMES = {"mariadb": "mysql", "postgres": "postgresql"}
SERIES = {
    "mariadb": "SELECT seq, CONCAT('event number ', seq) FROM seq_{first}_to_{last}",
    "postgres": "SELECT n, 'event number ' || n FROM generate_series({first}, {last}) AS n",
}
BATCH = 500
"""Rows in a transaction: several in each split."""
KEPT_BATCHES = 8
"""Micro-batches that a query may have in the ledger when a run has ended."""


class Database:
    """A database that a test asks over connections of its own."""

    def __init__(self, stage: Stage, kind: str) -> None:
        if kind == "sqlite":
            self.settings = {"url": f"sqlite:///{stage.folder}/{stage.label}.db"}
        else:
            server = stage.servers[kind]
            url = f"{SCHEMES[kind]}://{server.address}/{server.database}"
            self.settings = {"url": url, "user": server.user, "password": server.password}
        self.options = ", ".join(f"{name}: '{value}'" for name, value in self.settings.items())

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with self._asking() as session:
            cursor = session.run(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _asking(self) -> Iterator[Session]:
        session = open_session(DatabaseSink.model_validate({**self.settings, "table": "t"}).settings)
        try:
            yield session
        finally:
            close(session)


class TableFeed:
    """A table that grows, or for each run one that is read whole; ``order`` names the rows' order in the pipeline."""

    steps: tuple[str, ...] = ()

    def __init__(self, stage: Stage, kind: str, order: str) -> None:
        self.stage, self.kind, self.order, self.numbers = stage, kind, order, itertools.count()
        self.database, self.table = Database(stage, kind), ""

    @property
    def options(self) -> str:
        fields = "fields: {n: bigint, text: string}"
        return f"{{type: database, {self.database.options}, table: {self.table}, {fields}{self.order}}}"

    def begin(self) -> None:
        self.table = f"{self.stage.label.replace('-', '_')}_in_{next(self.numbers)}"
        self.database.run(f"CREATE TABLE {self.table} (n BIGINT PRIMARY KEY, text VARCHAR(100))")
        self.stage.clearing.callback(self.database.run, f"DROP TABLE {self.table}")

    def fill(self, first: int, last: int) -> None:
        self.database.run(f"INSERT INTO {self.table} {SERIES[self.kind].format(first=first, last=last - 1)}")


class TableCatch:
    """A table with a ledger of its own beside it."""

    def __init__(self, stage: Stage, kind: str, mode: str) -> None:
        self.database, self.table = Database(stage, kind), f"{stage.label.replace('-', '_')}_out"
        self.ledger = f"{self.table}_ledger"
        key = ", key: [n]" if mode == "upsert" else ""
        if key:
            self.database.run(f"CREATE TABLE {self.table} (n BIGINT PRIMARY KEY, text VARCHAR(100))")
        made = f"mode: {mode}{key}, create: true, ledger: {self.ledger}, batch: {{max_events: {BATCH}}}"
        self.options = f"type: database, {self.database.options}, table: {self.table}, {made}"
        for name in (self.table, self.ledger):
            stage.clearing.callback(self.database.run, f"DROP TABLE IF EXISTS {name}")

    def delivered(self) -> Iterator[int]:
        return (row[0] for row in self.database.run(f"SELECT n FROM {self.table}"))

    def prove(self, total: int) -> None:
        """The ledger has forgotten finished micro-batches."""
        kept = self.database.run(f"SELECT count(DISTINCT batch) FROM {self.ledger} GROUP BY query")
        assert all(count <= KEPT_BATCHES for (count,) in kept), kept


def followed(kind: str) -> partial[TableFeed]:
    """By its growing id."""
    return partial(TableFeed, kind=kind, order=", id: n, follow: true")


def whole(kind: str) -> partial[TableFeed]:
    """By ranges of its id."""
    return partial(TableFeed, kind=kind, order=", id: n")


def unordered(kind: str) -> partial[TableFeed]:
    """All rows in the order that the database likes."""
    return partial(TableFeed, kind=kind, order="")


def rows(kind: str, mode: str) -> partial[TableCatch]:
    """Rows of a table."""
    return partial(TableCatch, kind=kind, mode=mode)
