"""HTTP client for several servers: uses the next one if a server cannot be reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from connectors.http.connection import Connection, Response
from connectors.http.connection_settings import ConnectionSettings

JSON = "application/json"
UNAVAILABLE_STATUSES = (502, 503, 504)
"""Statuses after which another server is used."""

_NONE: Mapping[str, str] = {}


class Client:
    """Sends requests to the servers of `ConnectionSettings`: to the same one as long as it responds.

    Processes start with different servers. Redirects are not followed: credentials are sent only to the configured servers.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._headers = {name: value.get_secret_value() for name, value in settings.headers}
        self._connections = [Connection(url, settings) for url in settings.urls]
        self._current = os.getpid() % len(self._connections)

    def request(
        self, method: str, path: str, body: bytes | memoryview | None = None, type_: str = JSON, more: Mapping[str, str] = _NONE
    ) -> Response:
        """Send a request with further headers and return its response, whatever its status. Raises ConnectionError,
        ComponentError.
        """
        connection = self._connect()
        headers = {**({"Content-Type": type_} if body is not None else {}), **self._headers, **more}
        try:
            response = connection.send_request(method, path, body, headers)
        except ConnectionError:
            self._switch_server()
            raise
        if response.status in UNAVAILABLE_STATUSES:
            self._switch_server()
        return response

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def _connect(self) -> Connection:
        """Return the first server that accepts a connection."""
        causes = []
        for _ in self._connections:
            try:
                self._connections[self._current].connect()
            except ConnectionError as error:
                causes.append(str(error))
                self._switch_server()
            else:
                return self._connections[self._current]
        raise ConnectionError("; ".join(causes))

    def _switch_server(self) -> None:
        self._current = (self._current + 1) % len(self._connections)


@cache
def shared_client(settings: ConnectionSettings) -> Client:
    """Return this process's client, with its connections."""
    return Client(settings)
