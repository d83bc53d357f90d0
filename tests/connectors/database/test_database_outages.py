"""Servers that are killed, hold locks, or have a certificate with another name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import WHOLE, Database, events, of, task
from servers.certificates import Certificates
from servers.mariadb_server import MariaDb
from servers.postgres_server import Postgres

from connectors.database.session import close
from etl.api import ComponentError

KINDS: dict[str, Any] = {"mysql": MariaDb, "postgresql": Postgres}
COUNT = "SELECT count(*), count(DISTINCT id) FROM {t}"


@pytest.fixture(params=["mariadb", "postgres"])
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
    writer = shared.sink(mode="upsert", key=["id"], timeout="2s").open(task(events(0, 1)))

    with pytest.raises(OSError, match=r"[Ll]ock"):
        writer.write(events(0, 10))
    other.run("COMMIT")
    close(other)
    writer.write(events(0, 10))

    assert shared.run(COUNT) == [(10, 10)]
    assert shared.run("SELECT message FROM {t} WHERE id = 5") == [("event 5",)]


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
