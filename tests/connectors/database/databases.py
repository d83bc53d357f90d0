"""The databases for tests of `database`, with one interface; MySQL only with ``SLUICE_ALL_VERSIONS=1``."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from connectors.database.session import Session, close, open_session
from connectors.database.sink import DatabaseSink
from etl.api import OFFSET, BatchId, Task

EVERY = ["sqlite", "mariadb", "postgres", *(["mysql8"] if os.environ.get("SLUICE_ALL_VERSIONS") else [])]


@dataclass
class Database:
    """A database with a unique table name."""

    options: dict[str, Any]
    table: str
    name: str = ""
    """Its name in `EVERY`."""

    def sink(self, **more: Any) -> DatabaseSink:
        """Return the tested sink."""
        return DatabaseSink(**{**self.options, "table": self.table, "ledger": f"{self.table}_ledger", **more})

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement over a connection of the test; ``{t}`` is the table, ``{l}`` the ledger."""
        session = self.session()
        try:
            cursor = session.run(sql.replace("{t}", self.table).replace("{l}", f"{self.table}_ledger"))
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            close(session)

    def needs_checks(self) -> None:
        """Skip the test if the database ignores CHECK constraints."""
        if self.name == "mysql8":
            pytest.skip("MySQL obeys CHECK from 8.0.16 on, and this one is 8.0.15")

    def session(self) -> Session:
        """Return a connection of the test."""
        return open_session(self.sink().settings)

    def clear(self) -> None:
        """Drop the test's tables."""
        self.run("DROP TABLE IF EXISTS {t}")
        self.run("DROP TABLE IF EXISTS {l}")


def of(name: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a database by its name in `EVERY`."""
    database = Database(_options(name, request), f"t_{uuid.uuid4().hex[:12]}", name)
    yield database
    database.clear()


def _options(name: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    if name == "sqlite":
        return {"url": f"sqlite:///{request.getfixturevalue('tmp_path')}/events.db"}
    server = request.getfixturevalue(name)
    scheme = {"mariadb": "mysql", "mysql8": "mysql", "postgres": "postgresql"}[name]
    url = f"{scheme}://{server.address}/{server.database}"
    return {"url": url, "user": server.user, "password": server.password}


def yaml_of(database: Database) -> str:
    """Return its options as YAML for a pipeline file."""
    return ", ".join(f"{name}: '{value}'" for name, value in database.options.items())


def events(first: int, last: int, **columns: Any) -> pa.RecordBatch:
    """Return events with numbers in the column ``id``, which are also their offsets."""
    numbers = pa.array(range(first, last), pa.int64())
    texts = pa.array([f"event {n}" for n in range(first, last)])
    found = {"id": numbers, "message": texts, **columns, OFFSET: numbers}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def task(batch: pa.RecordBatch, split: str = "in-0-00000000000000000000-00000000000000000100", number: int = 1) -> Task:
    """Return a task for a range of a source, unless other arguments are given."""
    schema = batch.drop_columns([OFFSET]).schema
    return Task("p", "out", split, "/nonexistent", schema, BatchId("query", number), ordered=not split.startswith(WHOLE))


WHOLE = "result-000000"
"""Beginning of the names of splits after a shuffle."""
