"""Redis in kill tests."""

from __future__ import annotations

from collections.abc import Iterator

import redis
from kill_table import LINES, Workspace, lines
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from servers.brokers.redis_server import Redis


def _client(server: Redis) -> redis.Redis:
    return redis.Redis(server.host, server.port, retry=Retry(ConstantBackoff(0.2), 50))


class RedisInput:
    """A stream, to which entries are added in one transaction."""

    steps = (*LINES, "{type: keep, fields: [n, text]}")

    def __init__(self, workspace: Workspace) -> None:
        self.server: Redis = workspace.servers["redis"]
        self.key = f"{workspace.label}-in"
        self.options = f"{{type: redis, url: '{self.server.url}', streams: ['{self.key}'], entry_field: line}}"

    def begin(self) -> None:
        """Do nothing: the first entry makes the stream."""

    def write_events(self, first: int, last: int) -> None:
        with _client(self.server) as client:
            pipe = client.pipeline(transaction=True)
            for line in lines(first, last):
                pipe.xadd(self.key, {"line": line})
            pipe.execute()


class RedisOutput:
    """A stream, read whole."""

    def __init__(self, workspace: Workspace) -> None:
        self.server: Redis = workspace.servers["redis"]
        self.key = f"{workspace.label}-out"
        self.options = f"type: redis, url: '{self.server.url}', key: '{self.key}'"

    def delivered(self) -> Iterator[int]:
        with _client(self.server) as client:
            yield from (int(fields[b"n"]) for _, fields in client.xrange(self.key))

    def check(self, total: int) -> None:
        """Check nothing more."""
