"""Servers that are killed, hold locks, have a certificate with another name, or are behind a line that is cut."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import WHOLE, Database, events, of, task
from servers.certificates import Certificates
from servers.databases.mariadb_server import MariaDb
from servers.databases.postgres_server import Postgres
from servers.relay import Relay

from connectors.database import drivers
from connectors.database.session import close, open_session
from etl.api import ComponentError

SERVERS = ["mariadb", "postgres", *(["mysql8"] if os.environ.get("SLUICE_ALL_VERSIONS") else [])]
KINDS: dict[str, Any] = {"mysql": MariaDb, "postgresql": Postgres}
COUNT = "SELECT count(*), count(DISTINCT id) FROM {t}"


@pytest.fixture(params=SERVERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Database]:
    yield from of(request.param, request)


def database(server: Any, scheme: str, **more: Any) -> Database:
    url = f"{scheme}://{server.address}/{server.database}"
    return Database({"url": url, "user": server.user, "password": server.password, **more}, "outages")


@pytest.mark.servers
@pytest.mark.parametrize("scheme", KINDS)
def test_after_a_kill_of_the_server_every_row_is_there_once(scheme: str) -> None:
    with KINDS[scheme]() as server:
        sink = database(server, scheme).sink(create=True, retry={"initial_backoff": "10ms"})
        for begin, split in ((0, task(events(0, 1)).split), (1000, WHOLE)):
            writer = sink.open(task(events(0, 1), split))
            writer.write(events(begin, begin + 100))

            server.kill()
            for _ in range(2):
                with pytest.raises(OSError, match=server.address):
                    writer.write(events(begin + 100, begin + 200))
            server.start()
            writer.write(events(begin + 100, begin + 200))
            writer.close()

        assert database(server, scheme).run(COUNT) == [(400, 400)]


def test_a_locked_row_is_waited_for_and_retried(shared: Database) -> None:
    shared.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20))")
    shared.run("INSERT INTO {t} VALUES (5, 'locked')")
    other = shared.session()
    other.begin()
    other.run(f"UPDATE {shared.table} SET message = 'theirs' WHERE id = 5")
    writer = shared.sink(mode="upsert", key=["id"], timeout="4s").open(task(events(0, 1)))

    with pytest.raises(OSError, match=r"[Ll]ock|read operation timed out"):  # MySQL 8 looks at its limit once a second
        writer.write(events(0, 10))
    other.run("COMMIT")
    close(other)
    writer.write(events(0, 10))

    assert shared.run(COUNT) == [(10, 10)]
    assert shared.run("SELECT message FROM {t} WHERE id = 5") == [("event 5",)]


@pytest.fixture
def relayed(shared: Database) -> Iterator[tuple[Database, Relay]]:
    """Return the database as a client behind a relay sees it."""
    scheme, _, rest = shared.options["url"].partition("://")
    address, _, name = rest.partition("/")
    with Relay(address) as relay:
        relay.open()
        url = f"{scheme}://{relay.address}/{name}"
        yield Database({**shared.options, "url": url, "timeout": "2s"}, shared.table), relay


def test_a_client_whose_line_is_cut_does_not_keep_its_locks(shared: Database, relayed: tuple[Database, Relay]) -> None:
    behind, relay = relayed
    shared.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20))")
    lost = behind.session()
    lost.begin()
    lost.run(f"INSERT INTO {shared.table} VALUES (5, 'never committed')")
    relay.freeze()
    writer = shared.sink(timeout="2s").open(task(events(0, 1)))

    until = time.monotonic() + 30
    while True:
        try:
            writer.write(events(0, 10))
            break
        except OSError:
            assert time.monotonic() < until

    assert shared.run(COUNT) == [(10, 10)]
    assert shared.run("SELECT message FROM {t} WHERE id = 5") == [("event 5",)]
    close(lost)


def test_a_transaction_that_the_server_ended_is_written_again(shared: Database) -> None:
    sink = shared.sink(create=True, timeout="1s", retry={"initial_backoff": "10ms"})
    writer = sink.open(task(events(0, 1), WHOLE))
    writer.write(events(0, 100))
    until = time.monotonic() + 30
    open_session = writer._transaction.session  # type: ignore[attr-defined]
    while not _is_ended(open_session.driver):
        assert time.monotonic() < until

    with pytest.raises(OSError, match=r"(MySQL|PostgreSQL) at 127\.0\.0\.1"):
        writer.write(events(100, 200))
    writer.write(events(100, 200))
    writer.close()

    assert shared.run(COUNT) == [(200, 200)]


def _is_ended(driver: Any, seconds: float = 0.1) -> bool:
    """Whether the server closes a connection within a time: its socket can be read then."""
    handle = driver.fileno() if hasattr(driver, "fileno") else driver._sock
    return bool(select.select([handle], [], [], seconds)[0])


def test_connections_that_are_idle_between_transactions_stay_open(shared: Database) -> None:
    shared.run("CREATE TABLE {t} (id INTEGER PRIMARY KEY, message VARCHAR(20))")
    opened = open_session(shared.sink(timeout="1s").settings)
    with opened.transaction():
        opened.run(f"INSERT INTO {shared.table} VALUES (1, 'one')")

    assert not _is_ended(opened.driver, 3.0)

    assert opened.run(f"SELECT count(*) FROM {shared.table}").fetchone()[0] == 1
    close(opened)


def test_a_client_does_not_wait_without_end_for_an_answer(
    relayed: tuple[Database, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, relay = relayed
    monkeypatch.setattr(drivers, "ANSWER_GRACE_SECONDS", 0.1)
    session = behind.session()
    session.run("SELECT 1").fetchall()
    relay.freeze()

    with pytest.raises(OSError, match=r"has not answered within 2.1 s|timed out"):
        session.run("SELECT 2")
    assert session.is_closed


@pytest.mark.servers
@pytest.mark.parametrize("scheme", KINDS)
def test_certificates_are_verified(scheme: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates", "DNS:elsewhere.example")
    with KINDS[scheme](tls=certificates) as server:
        authority = str(certificates.authority)

        def probe_messages(**tls: str) -> list[str]:
            return [finding.message for finding in database(server, scheme, tls=tls).sink(create=True).probe(events(0, 1).schema)]

        assert probe_messages(authority=authority, verify="authority") == []
        assert probe_messages(verify="none") == []
        for wrong in (probe_messages(authority=authority), probe_messages()):
            assert len(wrong) == 1
            assert "check tls" in wrong[0]
            assert server.address in wrong[0]
        with pytest.raises(ComponentError, match="check tls"):
            database(server, scheme, tls={"authority": authority}).sink().open(task(events(0, 1))).write(events(0, 1))
