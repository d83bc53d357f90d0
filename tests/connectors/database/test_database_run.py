"""Whole runs into and out of databases: windows, dead letters, a wrong password, what `etl lint --connect` says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databases import Database, events, of, task, yaml_of
from running import Engine, Etl

from etl.api import EtlError


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture(params=["mariadb"])
def mysql(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


@pytest.fixture(params=["postgres"])
def postgresql(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


LOAD = """
    name: load
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<id>[0-9]+) (?<user_name>.*)$']}
      - {type: set, fields: {id: cast(id as bigint)}}
    sink: {type: database, OPTIONS, table: TABLE, ledger: TABLE_ledger, key: [id], create: true}
"""
COUNT = """
    name: count
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<id>[0-9]+) (?<user_name>.*)$']}
      - {type: timestamp, field: id, target: seen, formats: [epoch]}
      - {type: window, time: seen, size: 10s, late: 1s, group_by: [user_name], aggregates: {events: count(*)}}
    sink: {type: database, OPTIONS, table: TABLE, ledger: TABLE_ledger, mode: upsert, key: [user_name, window_start],
      create: true}
"""
COPY = """
    name: copy
    source: {type: database, OPTIONS, table: TABLE, fields: {id: bigint, message: string}, id: id, follow: true}
    sink: {type: file, path: "{here}/out.json"}
"""


def pipeline(text: str, database: Database) -> str:
    return text.replace("OPTIONS", yaml_of(database)).replace("TABLE", database.table)


def put(etl: Etl, first: int, last: int) -> None:
    with (etl.folder / "in.log").open("a") as log:
        log.writelines(f"{n} user{n % 3}\n" for n in range(first, last))


@pytest.mark.spark
def test_lines_become_rows_and_rejected_ones_dead_letters(engine: Engine, database: Database) -> None:
    put(engine.etl, 0, 5000)
    put(engine.etl, 7, 8)

    totals = engine(pipeline(LOAD, database))

    assert database.run("SELECT count(*), count(DISTINCT id), max(user_name) FROM {t}") == [(5000, 5000, "user2")]
    assert sum(letter.count("database-rejected") for letter in dead_letters(engine.etl)) == 1
    assert totals.sinks["main"].accepted == 5000

    put(engine.etl, 5000, 5010)
    engine(pipeline(LOAD, database))
    assert database.run("SELECT count(*), count(DISTINCT id) FROM {t}") == [(5010, 5010)]
    assert database.run("SELECT count(DISTINCT batch) FROM {l}")[0][0] <= 1


def dead_letters(etl: Etl) -> list[str]:
    folder = etl.folder / "state"
    return [line for path in folder.rglob("*.json*") if "dead" in str(path) for line in path.read_text().splitlines()]


@pytest.mark.spark
def test_windows_become_rows(engine: Engine, mysql: Database) -> None:
    put(engine.etl, 0, 300)

    engine(pipeline(COUNT, mysql), drain=True)

    assert mysql.run("SELECT sum(events), count(*) FROM {t}") == [(300, 90)]


@pytest.mark.spark
def test_rows_become_lines_and_new_rows_follow(engine: Engine, postgresql: Database) -> None:
    out = engine.etl.folder / "out.json"
    for first, last in ((0, 500), (500, 600)):
        batch = events(first, last)
        postgresql.sink(create=True, delivery="at_least_once").open(task(batch)).write(batch)

        engine(pipeline(COPY, postgresql))

        assert len(out.read_text().splitlines()) == last
    assert out.read_text().count('"event 599"') == 1


@pytest.mark.spark
def test_a_wrong_password_ends_the_run_and_nothing_is_lost(engine: Engine, mysql: Database) -> None:
    put(engine.etl, 0, 10)
    good = dict(mysql.options)
    mysql.options["password"] = "hunter2"

    with pytest.raises(EtlError, match="check user and password") as caught:
        engine(pipeline(LOAD, mysql))
    mysql.options.update(good)
    assert "hunter2" not in str(caught.value)

    engine(pipeline(LOAD, mysql))
    assert mysql.run("SELECT count(*) FROM {t}") == [(10,)]


@pytest.mark.slow
def test_lint_connect_compares_the_table_with_the_fields(etl: Etl, mysql: Database) -> None:
    mysql.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, username VARCHAR(5))")
    path = etl.pipeline(pipeline(LOAD, mysql))

    plain, asked = etl("lint", path), etl("lint", "--connect", path)

    assert plain.status == 0, plain.out + plain.err
    assert asked.status == 1
    assert "unknown-column" in asked.out + asked.err
    assert "did you mean 'username'?" in asked.out + asked.err
    assert mysql.options["password"] not in asked.out + asked.err
