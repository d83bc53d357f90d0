"""Requests that come again byte for byte: they are answered without the application, as it would answer them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jobs_and_client import LOOPBACK, Client, Jobs
from running import wait_for

from etl.server.access import Access, Guard
from etl.server.app import create_app
from etl.server.boards import shared_answers
from etl.server.boards.shared_answers import SharedAnswers
from etl.server.boards.viewer_turns import ViewerTurns
from etl.server.listening import ServerProtocol, listening
from etl.server.tokens import Tokens, token_line

PATH = "/api/pipelines/shop/a/graph"
OTHER = "/api/pipelines/shop/a/versions"


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that the application got; many viewers share answers from the first one on."""
    monkeypatch.setattr(shared_answers, "FREE_PER_SECOND", 0)
    monkeypatch.setattr(shared_answers, "SHARE_SECONDS", 1000.0)
    found: list[str] = []
    called = Guard.__call__

    async def note(self: Guard, scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["path"])
        await called(self, scope, receive, send)

    monkeypatch.setattr(Guard, "__call__", note)
    return found


@pytest.fixture
def guarded(jobs: Jobs, tmp_path: Path, entered: list[str]) -> Iterator[Client]:
    """A server with tokens and a pipeline."""
    (tmp_path / "tokens").write_text(token_line("read", "one", "a") + token_line("write", "other", "b"))
    with listening(create_app(jobs.server, Access(Tokens(tmp_path / "tokens"))), LOOPBACK) as address:
        client = Client(address)
        client("PUT", "/api/pipelines/shop/a", jobs.text(), Authorization="Bearer other")
        jobs.wait("shop/a", "running")
        yield client


def head(path: str = PATH, token: str = "one", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n".encode()


class Talk:
    """One connection."""

    def __init__(self, client: Client, source: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(client.address, timeout=60, source_address=(source, 0))
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline()) != b"\r\n":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers, self._file.read(int(headers["content-length"]))

    def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        self.send(data)
        return self.read()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def test_the_answer_is_that_of_the_application(guarded: Client, entered: list[str]) -> None:
    entered.clear()
    with closing(Talk(guarded)) as first, closing(Talk(guarded)) as second:
        answers = [talk.ask(head()) for talk in (first, second, first, first)]

        assert entered == [PATH]
        status, headers, body = answers[0]
        assert (status, b"nodes" in body) == (200, True)
        for other in answers[1:]:
            assert (other[0], other[2]) == (status, body)
            assert {**other[1], "date": ""} == {**headers, "date": ""}
        assert first.ask(head(OTHER))[0] == 200  # HTTP goes on as before
        assert entered == [PATH, OTHER]


@pytest.mark.parametrize(
    "more",
    [
        "Content-Length: 4\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n ,close\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Cache-Control: no-cache\r\n",
        f"X: {5000 * 'x'}\r\n",
    ],
    ids=["body", "close", "close in a folded line", "chunked", "no-cache", "long"],
)
def test_other_requests_go_to_the_application(guarded: Client, entered: list[str], more: str) -> None:
    entered.clear()
    body = b"GET " if "Length" in more else b"0\r\n\r\n" if "chunked" in more else b""
    for _ in range(2):
        with closing(Talk(guarded)) as talk:
            assert talk.ask(head(more=more) + body)[0] == 200
            if "close" not in more:
                assert talk.ask(head(more=more) + body)[0] == 200
    assert len(entered) == (2 if "close" in more else 4)


def test_what_comes_in_parts_or_with_others_is_processed_in_order(guarded: Client, entered: list[str]) -> None:
    with closing(Talk(guarded)) as talk:
        plain = talk.ask(head())
        other = talk.ask(head(OTHER))
        entered.clear()

        talk.send(head() + head(OTHER))
        assert [talk.read()[2] for _ in range(2)] == [plain[2], other[2]]
        talk.send(head()[:50])
        assert len(entered) == 2
        talk.send(head()[50:])
        assert talk.read()[2] == plain[2]
        assert len(entered) == 3
        assert [talk.ask(data)[2] for data in (head(OTHER), head())] == [other[2], plain[2]]
        assert len(entered) == 3


def test_a_token_that_is_withdrawn_gets_nothing_more(guarded: Client, entered: list[str], tmp_path: Path) -> None:
    with closing(Talk(guarded)) as talk:
        assert [talk.ask(head())[0] for _ in range(2)] == [200, 200]

        (tmp_path / "tokens").write_text(token_line("write", "other", "b"))

        assert talk.ask(head())[0] == 401
        assert talk.ask(head(token="other"))[0] == 200


def test_a_change_is_seen_at_once(guarded: Client, entered: list[str], jobs: Jobs) -> None:
    with closing(Talk(guarded)) as talk:
        before = talk.ask(head(OTHER))[2]
        guarded("PUT", "/api/pipelines/shop/a", jobs.text(more="# new\n"), Authorization="Bearer other")
        assert talk.ask(head(OTHER))[2] != before


def test_the_same_head_from_two_addresses_is_that_of_two_clients(guarded: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    pause = ViewerTurns.pause

    def note(self: ViewerTurns, client: Any, connection: Any) -> float:
        counted.append(client)
        return pause(self, client, connection)

    monkeypatch.setattr(ViewerTurns, "pause", note)
    with closing(Talk(guarded)) as one, closing(Talk(guarded, "127.0.0.2")) as other:
        assert [talk.ask(head())[0] for talk in (one, other)] == [200, 200]

    assert counted == [("127.0.0.1", "one"), ("127.0.0.2", "one")]


def test_a_viewer_who_leaves_before_its_answer_takes_no_turns(guarded: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, get = Talk(guarded), SharedAnswers.get
    found: list[SharedAnswers] = []

    async def leave(self: SharedAnswers, key: str, compute: Callable[[], Awaitable[bytes]]) -> bytes:
        if not found:
            leaves.close()
            while ServerProtocol.open_connections:
                await asyncio.sleep(0.01)
            found.append(self)
        return await get(self, key, compute)

    monkeypatch.setattr(SharedAnswers, "get", leave)
    leaves.send(head())
    wait_for(lambda: found != [])
    with closing(Talk(guarded)) as stays:
        assert stays.ask(head())[0] == 200

        assert set(found[0].turns._client_of) == ServerProtocol.open_connections
