"""A table from a database: types, refreshes, and the probe before a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest
from databases import Database

from connectors.lookup_tables.database import DatabaseTable
from etl.api import ComponentError
from etl.steps.lookup import Lookup, tables_of
from etl.tables.table_store import LiveTable, TableRequest, refresh


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.servers) for name in ("mariadb", "postgres"))])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    for made in databases.of(request.param, request):
        made.run("CREATE TABLE {t} (ip varchar(40), score int, note text)")
        made.run("INSERT INTO {t} VALUES ('192.0.2.7', 90, 'scan'), ('198.51.100.1', NULL, ''), (NULL, 1, 'none')")
        yield made


def table(of: Database, **options: Any) -> DatabaseTable:
    given = {**of.options, "key": "ip", "columns": {"score": "int"}, **options}
    return DatabaseTable.model_validate(given if "query" in given else {"table": of.table, **given})


def rows(of: DatabaseTable, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in of.read(columns) for row in batch.to_pylist()]


def test_rows_are_read_in_their_types(database: Database) -> None:
    assert rows(table(database), "ip", "score", "note") == [
        ("192.0.2.7", 90, "scan"),
        ("198.51.100.1", None, ""),
        (None, 1, "none"),
    ]


def test_a_query_is_a_table(database: Database) -> None:
    of = table(database, query=f"select ip, score + 1 as more from {database.table} where score > 1;", columns={"more": "bigint"})

    assert rows(of, "ip", "more") == [("192.0.2.7", 91)]


def test_a_cheap_query_shows_whether_rows_changed(database: Database, tmp_path: Path) -> None:
    of = table(database, changed=f"select count(*) from {database.table}")
    step = Lookup.model_validate({"table": "t", "on": "ip", "add": {"s": "score"}}).with_tables({"t": of})
    (expected,) = tables_of([step]).values()

    built, _ = refresh(expected, tmp_path)
    _, again = refresh(expected, tmp_path)
    database.run("INSERT INTO {t} VALUES ('203.0.113.9', 7, 'new')")
    _, new = refresh(expected, tmp_path)

    assert (built.what.rows, built.what.missing, again, new) == (2, 1, False, True)
    mapped = LiveTable(tmp_path / expected.id).newest()
    found = mapped.first_rows(mapped.find([pa.array(["203.0.113.9", "192.0.2.7"])]))
    assert mapped.values("score", found).to_pylist() == [7, 90]


@pytest.fixture(params=["timestamp", "bigint"])
def changing(request: pytest.FixtureRequest, database: Database) -> Changing:
    """A table whose rows have the time or number of their last change."""
    time = "datetime(6)" if request.param == "timestamp" and database.options["url"].startswith("mysql") else request.param
    database.run("DROP TABLE {t}")
    database.run(f"CREATE TABLE {{t}} (id int, ip varchar(40), score int, gone {_flag(database)}, changed {time})")
    return Changing(database, request.param)


@dataclass
class Changing:
    """Changes the rows of the table."""

    database: Database
    type: str

    def put(self, id_: int, ip: str, score: int, at: int, gone: bool = False) -> None:
        """Insert a row, or replace the one with its id."""
        when = f"'{2000 + 100 * at}-01-01 00:00:00'" if self.type == "timestamp" else at
        flag = str(gone).upper() if self.database.options["url"].startswith("postgres") else int(gone)
        self.database.run(f"DELETE FROM {{t}} WHERE id = {id_}")
        self.database.run(f"INSERT INTO {{t}} VALUES ({id_}, '{ip}', {score}, {flag}, {when})")

    def expected(self, **options: Any) -> TableRequest:
        """Return the request of a step for the table."""
        types = {"score": "int", **({"changed": "bigint"} if self.type == "bigint" else {})}
        of = table(self.database, columns=types, refresh="1s", time="changed", deleted="gone", lag="0s", **options)
        assert list(of.check()) == []
        step = Lookup.model_validate({"table": "t", "on": "ip", "add": {"s": "score"}}).with_tables({"t": of})
        return next(iter(tables_of([step]).values()))


def _flag(database: Database) -> str:
    return "bit(1)" if database.options["url"].startswith("mysql") else "boolean"


def scores(folder: Path, one: TableRequest, *keys: str) -> list[int | None]:
    mapped = LiveTable(folder / one.id).newest()
    found: list[int | None] = mapped.values("score", mapped.first_rows(mapped.find([pa.array(keys)]))).to_pylist()
    return found


def test_a_refresh_reads_only_rows_that_changed(changing: Changing, tmp_path: Path) -> None:
    one = changing.expected(id="id")
    for number in range(1, 5):
        changing.put(number, f"10.0.0.{number}", number, at=0)
    refresh(one, tmp_path)
    assert refresh(one, tmp_path)[1] is False

    changing.put(1, "10.0.0.1", 10, at=1)
    changing.put(2, "10.0.0.2", 2, at=2, gone=True)
    changing.put(3, "10.0.0.33", 3, at=3)
    changing.put(4, "10.0.0.4", 44, at=0)  # in silence: it is not read
    changing.put(5, "10.0.0.5", 5, at=4)
    current, new = refresh(one, tmp_path)

    assert (new, current.what.rows) == (True, 4)
    assert current.since is not None
    assert current.since.read == 4
    keys = [f"10.0.0.{n}" for n in (1, 2, 3, 33, 4, 5)]
    assert scores(tmp_path, one, *keys) == [10, None, None, 3, 4, 5]


def test_rows_younger_than_the_lag_are_read_again(database: Database, tmp_path: Path) -> None:
    now = {"sqlite": "datetime('now')", "mysql": "utc_timestamp(6)", "postgresql": "now()"}[
        database.options["url"].partition(":")[0]
    ]
    time = "datetime(6)" if now.startswith("utc") else "timestamptz"
    database.run(f"ALTER TABLE {{t}} ADD COLUMN changed {time}")
    database.run(f"UPDATE {{t}} SET changed = {now}")
    of = table(database, time="changed", refresh="1s", lag="1h")
    step = Lookup.model_validate({"table": "t", "on": "ip", "add": {"s": "score"}}).with_tables({"t": of})
    (one,) = tables_of([step]).values()
    refresh(one, tmp_path)

    database.run("UPDATE {t} SET score = 77 WHERE ip = '192.0.2.7'")  # committed later than its time says

    assert refresh(one, tmp_path)[1]
    assert scores(tmp_path, one, "192.0.2.7") == [77]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"time": "changed", "refresh": "1m"}, []),
        ({"time": "changed", "refresh": "1m", "columns": {"changed": "string"}}, ["wrong-type"]),
        ({"time": "changed"}, ["unused-option"]),
        ({"id": "id", "lag": "1s", "deleted": "gone", "whole": "1d"}, ["unused-option"] * 4),
    ],
)
def test_options_of_changes_are_checked(options: dict[str, Any], codes: list[str]) -> None:
    given = {"url": "mysql://h/d", "table": "t", "key": "ip", **options}

    assert [finding.code for finding in DatabaseTable.model_validate(given).check()] == codes


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, []),
        ({"table": "no_such"}, ["unknown-table"]),
        ({"key": "no"}, ["unknown-column"]),
        ({"columns": {"no": "int"}}, ["unknown-column"]),
        ({"time": "no", "deleted": "no", "id": ["ip", "no"]}, ["unknown-column"] * 3),
        ({"query": "select nothing from nowhere"}, ["not-ready"]),
    ],
)
def test_a_probe_checks_the_table(database: Database, options: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in table(database, **options).probe()] == codes


def test_a_missing_table_keeps_the_last_version(database: Database) -> None:
    with pytest.raises(ComponentError):
        rows(table(database, table="no_such"), "ip")


def test_mistakes_are_found() -> None:
    given = {"url": "mysql://u:p@h/d", "key": "ip"}

    assert [finding.code for finding in DatabaseTable.model_validate(given).check()] == ["url-with-password", "one-of-two"]
