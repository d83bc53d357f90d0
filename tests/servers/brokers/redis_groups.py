"""Several Redis servers: a master with its replica and a Sentinel, and a cluster of three nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from servers import ports
from servers.brokers.redis_server import Redis
from servers.process import Command

MASTER = "logs"
WAIT_SECONDS = 180.0
SLOTS = 16_384


class Sentinel(Redis):
    """A Sentinel that watches a master alone, and takes it for down after half a second."""

    name: ClassVar[str] = "redis-sentinel"

    def __init__(self, master: Redis) -> None:
        super().__init__()
        lines = [
            f"port {self.port}",
            f"bind {self.host}",
            f"dir {self.folder}",
            f"sentinel monitor {MASTER} {master.host} {master.port} 1",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
        ]
        self.file = self.folder / "sentinel.conf"
        self.file.write_text("\n".join(lines) + "\n")

    def command(self) -> Command:
        whole = super().command()
        return Command([whole.words[0], self.file, "--sentinel"], whole.folder, whole.environment)


@dataclass
class Watched:
    """A master, its replica, and the Sentinel that knows both."""

    master: Redis
    replica: Redis
    sentinel: Sentinel


@contextmanager
def watched_master() -> Iterator[Watched]:
    """Start them, and wait until the replica follows and the Sentinel knows it."""
    with ExitStack() as stack:
        master = stack.enter_context(Redis())
        replica = stack.enter_context(Redis(settings={"replicaof": f"{master.host} {master.port}"}))
        sentinel = stack.enter_context(Sentinel(master))
        wait_for(lambda: client_of(replica).info("replication")["master_link_status"] == "up")
        wait_for(lambda: client_of(sentinel).sentinel_master(MASTER)["num-slaves"] == 1)
        yield Watched(master, replica, sentinel)


@contextmanager
def cluster() -> Iterator[list[Redis]]:
    """Start three nodes, and wait until they are a cluster."""
    with ExitStack() as stack:
        nodes = []
        for _ in range(3):
            settings = {"cluster-enabled": "yes", "cluster-port": ports.free()[0], "cluster-config-file": "nodes.conf"}
            nodes.append(stack.enter_context(Redis(settings=settings)))
        first, *others = nodes
        for number, node in enumerate(nodes):
            begin, end = SLOTS * number // len(nodes), SLOTS * (number + 1) // len(nodes) - 1
            client_of(node).execute_command("CLUSTER", "ADDSLOTSRANGE", begin, end)
        for node in others:
            bus = node.settings["cluster-port"]
            client_of(first).execute_command("CLUSTER", "MEET", node.host, node.port, bus)
        wait_for(lambda: all(client_of(node).cluster("INFO")["cluster_state"] == "ok" for node in nodes))
        yield nodes


def client_of(server: Redis) -> Any:
    """A client of one server."""
    import redis

    return redis.Redis(server.host, server.port)


def wait_for(is_true: Callable[[], Any]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError("the servers have not found each other")
        time.sleep(0.05)
