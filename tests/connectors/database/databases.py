"""The databases that tests of `database` run against, each in the same words; MySQL itself with ``SLUICE_ALL_VERSIONS=1``."""

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
    """A database with a table name of the test's own."""

    options: dict[str, Any]
    table: str
    name: str = ""
    """In `EVERY`."""

    def sink(self, **more: Any) -> DatabaseSink:
        """The sink under test."""
        return DatabaseSink(**{**self.options, "table": self.table, "ledger": f"{self.table}_ledger", **more})

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask it, over a connection of the test's own; ``{t}`` is the table, ``{l}`` the ledger."""
        session = self.session()
        try:
            cursor = session.run(sql.replace("{t}", self.table).replace("{l}", f"{self.table}_ledger"))
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            close(session)

    def needs_checks(self) -> None:
        """For tests whose rows a CHECK refuses."""
        if self.name == "mysql8":
            pytest.skip("MySQL obeys CHECK from 8.0.16 on, and this one is 8.0.15")

    def session(self) -> Session:
        """A connection of the test's own."""
        return open_session(self.sink().settings)

    def clear(self) -> None:
        """Drop what the test made."""
        self.run("DROP TABLE IF EXISTS {t}")
        self.run("DROP TABLE IF EXISTS {l}")


def of(name: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database by its name in `EVERY`."""
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
    """Its options as they stand in a pipeline file."""
    return ", ".join(f"{name}: '{value}'" for name, value in database.options.items())


def events(first: int, last: int, **columns: Any) -> pa.RecordBatch:
    """Events numbered in the column ``id``, which are also their offsets."""
    numbers = pa.array(range(first, last), pa.int64())
    texts = pa.array([f"event {n}" for n in range(first, last)])
    found = {"id": numbers, "message": texts, **columns, OFFSET: numbers}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def task(batch: pa.RecordBatch, split: str = "in-0-00000000000000000000-00000000000000000100", number: int = 1) -> Task:
    """Of a split that is a range of a source, unless another is named."""
    schema = batch.drop_columns([OFFSET]).schema
    return Task("p", "out", split, "/nonexistent", schema, BatchId("query", number), ordered=not split.startswith(WHOLE))


WHOLE = "result-000000"
"""A split behind a shuffle."""
