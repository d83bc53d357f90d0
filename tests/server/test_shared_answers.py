"""Many viewers of a server: one answer for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jobs_and_client import Client, Jobs
from running import wait_for

from etl.cli.server.connection import Connection
from etl.server.boards import shared_answers
from etl.server.boards.shared_answers import FREE_PER_SECOND, MAX_ANSWERS, SharedAnswers
from etl.server.boards.viewer_turns import TURNS_PER_SECOND
from etl.server.listening import ServerProtocol


class Load:
    """Requests at times that the test chooses."""

    def __init__(self) -> None:
        self.now, self.computed = 0.0, 0
        self.answers = SharedAnswers(lambda: self.now)

    async def _compute(self) -> bytes:
        self.computed += 1
        return b"%d" % self.computed

    async def ask(self, times: int, key: str = "a") -> bytes:
        found = b""
        for _ in range(times):
            found = await self.answers.get(key, self._compute)
        return found


def test_a_few_viewers_get_answers_of_their_own() -> None:
    async def work() -> None:
        load = Load()
        for _ in range(5):
            await load.ask(FREE_PER_SECOND)
            load.now += 1.0
        assert load.computed == 5 * FREE_PER_SECOND

    asyncio.run(work())


def test_many_viewers_share_an_answer_of_the_last_second() -> None:
    async def work() -> None:
        load = Load()
        await load.ask(FREE_PER_SECOND)
        assert await load.ask(100) == await load.ask(1) == b"%d" % (FREE_PER_SECOND + 1)
        load.now += 0.9
        await load.ask(10)
        assert load.computed == FREE_PER_SECOND + 1
        await load.ask(1, "b")
        assert load.computed == FREE_PER_SECOND + 2
        load.now += 0.2
        await load.ask(50)
        assert load.computed == FREE_PER_SECOND + 3
        load.answers.forget()
        await load.ask(50)
        assert load.computed == FREE_PER_SECOND + 4

    asyncio.run(work())


def test_the_longer_viewers_wait_the_longer_an_answer_serves_them() -> None:
    async def work() -> None:
        load = Load()
        for connection in range(15 * TURNS_PER_SECOND):
            load.answers.turns.pause("somebody", connection)
        for now in (0.0, 3.5, 3.8, 7.0):
            load.now = now
            await load.ask(1)
        assert load.computed == 2

    asyncio.run(work())


def test_answers_are_few_and_one_viewer_who_leaves_takes_it_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "FREE_PER_SECOND", 0)

    async def work() -> None:
        load, goes_on = Load(), asyncio.Event()

        async def compute() -> bytes:
            await goes_on.wait()
            return b"x"

        first, second = (asyncio.create_task(load.answers.get("a", compute)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        goes_on.set()
        assert await second == b"x"
        for number in range(3 * MAX_ANSWERS):
            await load.ask(1, str(number))
        assert len(load.answers._answers) <= MAX_ANSWERS

    asyncio.run(work())


def test_an_error_is_the_answer_of_all_who_asked() -> None:
    async def work() -> None:
        answers = SharedAnswers(lambda: 0.0)

        async def fail() -> bytes:
            raise OSError("no")

        for _ in range(FREE_PER_SECOND + 5):
            with pytest.raises(OSError, match="no"):
                await answers.get("a", fail)

    asyncio.run(work())


def test_a_change_is_seen_at_once_also_by_many(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "FREE_PER_SECOND", 0)
    client("PUT", "/api/pipelines/shop/a", jobs.text())
    assert [one["name"] for one in client("GET", "/api/pipelines").json["pipelines"]] == ["shop/a"]

    client("DELETE", "/api/pipelines/shop/a")

    assert client("GET", "/api/pipelines").json["pipelines"] == []


def test_a_request_for_an_answer_of_now_gets_one(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "FREE_PER_SECOND", 0)
    monkeypatch.setattr(shared_answers, "SHARE_SECONDS", 1000.0)
    client("PUT", "/api/pipelines/shop/a", jobs.text())
    path = "/api/pipelines/shop/a/logs"
    before = client("GET", path).json

    jobs.server.jobs()[0].report("further", "a further message")

    assert client("GET", path).json == before
    assert client("GET", path, Cache_Control="no-cache").json[-1]["event"] == "further"


def test_clients_wait_as_long_as_the_server_asks_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(f"http://{client.address.host}:{client.address.port}")
    connection.get("/api/pipelines")
    assert connection.pace.pause(0.5) == 0.5
    answered: Any = type("Answer", (), {"headers": {"Poll-After": "7.5"}})

    connection.pace.note(answered)

    assert (connection.pace.pause(0.5), connection.pace.pause(10)) == (7.5, 10)
    for text in ("soon", "-1", "1e9", "nan"):
        answered.headers = {"Poll-After": text}
        connection.pace.note(answered)
        assert 0.5 <= connection.pace.pause(0.5) <= 60.0


def test_a_client_that_asks_again_and_again_keeps_its_connection(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted: list[int] = []
    accept = ServerProtocol.connection_made

    def note(self: ServerProtocol, transport: Any) -> None:
        accepted.append(1)
        accept(self, transport)

    monkeypatch.setattr(ServerProtocol, "connection_made", note)
    connection = Connection(f"http://{client.address.host}:{client.address.port}")
    with connection.kept_open() as server:
        for _ in range(3):
            assert server.get("/api/pipelines")["pipelines"] == []
        assert len(accepted) == 1

        monkeypatch.setattr(ServerProtocol, "idle_seconds", 0.01)  # the server closes it
        server.get("/api/pipelines")
        wait_for(lambda: not ServerProtocol.open_connections, 60, "the end of the connection")
        assert server.get("/api/pipelines")["pipelines"] == []
        assert len(accepted) == 2
