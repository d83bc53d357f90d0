"""Asking one of several servers: the next when one cannot be reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from connectors.http.access import Access
from connectors.http.connection import Answer, Connection

JSON = "application/json"
UNAVAILABLE = (502, 503, 504)
"""Statuses of a server that another may stand in for."""

_NONE: Mapping[str, str] = {}


class Client:
    """Asks the servers of an `Access`, one at a time: the same one as long as it answers.

    Processes begin with different ones. Redirects are not followed: credentials go where the options say and nowhere else.
    """

    def __init__(self, access: Access) -> None:
        self._headers = {name: value.get_secret_value() for name, value in access.headers}
        self._connections = [Connection(url, access) for url in access.urls]
        self._now = os.getpid() % len(self._connections)

    def ask(
        self, method: str, path: str, body: bytes | memoryview | None = None, type_: str = JSON, more: Mapping[str, str] = _NONE
    ) -> Answer:
        """A request, with further headers, and its answer, whatever its status. Raises ConnectionError, ComponentError."""
        connection = self._reached()
        headers = {**({"Content-Type": type_} if body is not None else {}), **self._headers, **more}
        try:
            answer = connection.exchange(method, path, body, headers)
        except ConnectionError:
            self._turn()
            raise
        if answer.status in UNAVAILABLE:
            self._turn()
        return answer

    def close(self) -> None:
        """Leave all servers."""
        for connection in self._connections:
            connection.close()

    def _reached(self) -> Connection:
        """The first that accepts a connection."""
        causes = []
        for _ in self._connections:
            try:
                self._connections[self._now].connect()
            except ConnectionError as error:
                causes.append(str(error))
                self._turn()
            else:
                return self._connections[self._now]
        raise ConnectionError("; ".join(causes))

    def _turn(self) -> None:
        self._now = (self._now + 1) % len(self._connections)


@cache
def client_of(access: Access) -> Client:
    """This process's client, with its connections."""
    return Client(access)
