"""Common parts of OpenSearch and Elasticsearch: one node on Java that answers HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import ClassVar

from servers import ports
from servers.java import OLDEST, java
from servers.process import Command
from servers.server import Server

SECONDS = 120
HEALTH = "/_cluster/health"
OWN = {"indices.breaker.total.use_real_memory": "false"}
"""With a serial collector memory may be full of what nobody uses: a node that goes by it refuses requests, and so collects
nothing."""


class SearchNode(Server):
    """A node without users and TLS; ``settings`` are settings of the node."""

    main: ClassVar[str]
    """The tests' Java class that starts it."""
    options: ClassVar[tuple[str, ...]] = ()
    release: ClassVar[int] = OLDEST
    """Version of Java that it needs."""

    def __init__(self, *, port: int = 0, settings: Mapping[str, object] | None = None, heap: str = "350m") -> None:
        super().__init__()
        self.settings, self.heap = {**OWN, **(settings or {})}, heap
        self.port = port or ports.free()[0]
        self.address = f"http://{ports.HOST}:{self.port}"

    def path(self) -> str:
        """Return its class path."""
        raise NotImplementedError

    def command(self) -> Command:
        options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", *self.options]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        started = java(*options, self.main, heap=self.heap, path=self.path(), release=self.release)
        return Command([*started, self.folder, self.port, *settings], self.folder)

    def ready(self) -> bool:
        """Return whether its cluster has a master and is not red."""
        status, health = self.ask("GET", HEALTH)
        return status == 200 and json.loads(health)["status"] in ("green", "yellow")

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> tuple[int, bytes]:
        """Send a request; return status and body."""
        connection = http.client.HTTPConnection(ports.HOST, self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body, {"content-type": kind} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.address}: {error!r}") from error
        finally:
            connection.close()
