"""Kill -9 at random points: file to MariaDB, and a table of PostgreSQL to another, exactly once.

With ``SLUICE_KILLS`` the file goes to SQLite and PostgreSQL, too, and the servers are restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from killing import EVENTS, FEW_EVENTS, RUNS, kills
from running import Etl, wait_for
from servers.mariadb_server import MariaDb
from servers.postgres_server import Postgres

from connectors.database.session import Session, close, connected
from connectors.database.sink import DatabaseSink
from etl.api import ComponentError

TABLE, GIVEN = "etl_killed", "etl_killed_given"
KINDS: dict[str, Any] = {"mariadb": (MariaDb, "mysql"), "postgres": (Postgres, "postgresql")}
NAMES = ["sqlite", "mariadb", "postgres"] if RUNS else ["mariadb"]

PIPELINE = """
    name: load
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}
      - {type: set, fields: {n: cast(n as bigint)}}
    sink: {type: database, URL, table: TABLE, create: true, batch: {max_events: 300}}
    run: {trigger: 100ms}
""".replace("TABLE", TABLE)

COPY = """
    name: copy
    source: {type: database, URL, table: GIVEN, fields: {n: bigint, text: string}, id: n, follow: true}
    sink: {type: database, URL, table: TABLE, create: true, batch: {max_events: 300}}
    run: {trigger: 100ms}
""".replace("TABLE", TABLE).replace("GIVEN", GIVEN)


@contextmanager
def server(name: str, etl: Etl, request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], Callable[[], object] | None]]:
    """A database's options, and how it is restarted: then it is one of the test's own."""
    if name == "sqlite":
        yield {"url": f"sqlite:///{etl.folder}/events.db"}, None
        return
    kind, scheme = KINDS[name]
    if not RUNS:
        yield options(request.getfixturevalue(name), scheme), None
        return
    with kind() as own:

        def restart() -> None:
            own.kill()
            own.start()

        yield options(own, scheme), restart


def options(found: Any, scheme: str) -> dict[str, Any]:
    return {"url": f"{scheme}://{found.address}/{found.database}", "user": found.user, "password": found.password}


@contextmanager
def asking(given: dict[str, Any]) -> Iterator[Session]:
    session = connected(DatabaseSink(**given, table=TABLE).access)
    try:
        yield session
    finally:
        close(session)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_lines_of_a_file_are_rows_once(name: str, etl: Etl, request: pytest.FixtureRequest) -> None:
    log = etl.folder / "in.log"
    log.touch()

    def fill(first: int, last: int) -> None:
        with log.open("a") as file:
            file.writelines(f"{n} line number {n}\n" for n in range(first, last))

    with server(name, etl, request) as (given, restart):
        trial(etl, PIPELINE, given, fill, restart)


@pytest.mark.slow
@pytest.mark.spark
def test_rows_of_a_table_are_rows_of_another_once(etl: Etl, request: pytest.FixtureRequest) -> None:
    with server("postgres", etl, request) as (given, _):
        with asking(given) as session:
            session.run(f"DROP TABLE IF EXISTS {GIVEN}")
            session.run(f"CREATE TABLE {GIVEN} (n BIGINT PRIMARY KEY, text VARCHAR(100))")

        def fill(first: int, last: int) -> None:
            rows = f"SELECT n, 'row number ' || n FROM generate_series({first}, {last - 1}) AS n"
            with asking(given) as session:
                session.run(f"INSERT INTO {GIVEN} {rows}")

        trial(etl, COPY, given, fill, None)


def trial(
    etl: Etl, text: str, given: dict[str, Any], fill: Callable[[int, int], object], restart: Callable[[], object] | None
) -> None:
    with asking(given) as session:
        session.run(f"DROP TABLE IF EXISTS {TABLE}")
    words = ", ".join(f"{name}: '{value}'" for name, value in given.items())
    pipeline = etl.pipeline(text.replace("URL", words))

    def delivered() -> list[int]:
        with asking(given) as session:
            return [row[0] for row in session.run(f"SELECT n FROM {TABLE}").fetchall()]

    def fill_and_see(first: int, last: int) -> None:
        """The first events of a run have arrived before the next are put in: then it is at work when it is struck."""
        with asking(given) as session:
            before = count(session)
            fill(first, last)
            if first % (EVENTS if RUNS else FEW_EVENTS) == 0:
                wait_for(lambda: count(session) > before, what="the first rows")

    found = kills(etl, pipeline, fill_and_see, delivered, restart)

    assert found.exact, str(found)
    with asking(given) as session:
        left = session.run("SELECT count(DISTINCT batch) FROM sluice_ledger WHERE sink = 'main'").fetchone()[0]
    assert left <= 8, "the ledger keeps what is of finished micro-batches"


def count(session: Session) -> int:
    """How many rows there are; none without the table."""
    try:
        return int(session.run(f"SELECT count(*) FROM {TABLE}").fetchone()[0])
    except ComponentError:
        return 0
