"""Requests to an ASGI application in this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(app: Any, method: str, path: str, body: bytes = b"", query: str = "", **headers: str) -> Answer:
    """One request; header names have ``_`` for ``-``. Host is 127.0.0.1:8088 unless given."""
    return asyncio.run(_request(app, method, path, body, query, {"host": "127.0.0.1:8088", **headers}))


async def _request(app: Any, method: str, path: str, body: bytes, query: str, headers: dict[str, str]) -> Answer:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8088),
    }
    sent: list[dict[str, Any]] = []

    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in given:
            return message
        await asyncio.Event().wait()  # the client stays until the answer is there
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(one for one in sent if one["type"] == "http.response.start")
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(one.get("body", b"") for one in sent))
