"""A table from a database: read in its types, asked whether it changed, looked at before a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest
from databases import Database

from connectors.lookup_tables.database import DatabaseTable
from etl.api import ComponentError
from etl.steps.lookup import Lookup, tables_of
from etl.tables.store import Live, refresh


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


def test_a_cheap_query_says_whether_rows_changed(database: Database, tmp_path: Path) -> None:
    of = table(database, changed=f"select count(*) from {database.table}")
    step = Lookup.model_validate({"table": "t", "on": "ip", "add": {"s": "score"}}).with_tables({"t": of})
    (wanted,) = tables_of([step]).values()

    built, _ = refresh(wanted, tmp_path)
    _, again = refresh(wanted, tmp_path)
    database.run("INSERT INTO {t} VALUES ('203.0.113.9', 7, 'new')")
    _, new = refresh(wanted, tmp_path)

    assert (built.what.rows, built.what.missing, again, new) == (2, 1, False, True)
    mapped = Live(tmp_path / wanted.id).mapped()
    found = mapped.first(mapped.find([pa.array(["203.0.113.9", "192.0.2.7"])]))
    assert mapped.values("score", found).to_pylist() == [7, 90]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, []),
        ({"table": "no_such"}, ["unknown-table"]),
        ({"key": "no"}, ["unknown-column"]),
        ({"columns": {"no": "int"}}, ["unknown-column"]),
        ({"query": "select nothing from nowhere"}, ["not-ready"]),
    ],
)
def test_probing_looks_at_the_table(database: Database, options: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in table(database, **options).probe()] == codes


def test_a_missing_table_keeps_the_version_before(database: Database) -> None:
    with pytest.raises(ComponentError):
        rows(table(database, table="no_such"), "ip")


def test_mistakes_are_found() -> None:
    given = {"url": "mysql://u:p@h/d", "key": "ip"}

    assert [finding.code for finding in DatabaseTable.model_validate(given).check()] == ["url-with-password", "one-of-two"]
