"""Producers with transactions: which name they have, and when one may go on with the next micro-batch.

A writer that was thought dead may still be at work, and commit. What stops it is the name of its transactions: who begins
with a name (`init_transactions`) ends what an earlier holder left open and shuts it out (*fences* it). So the writer of
a split that is tried again must have the name that was used before. A name for each split would do, but brokers keep
names for seven days, and a pipeline has millions of splits. So names are numbered by the task's place in its micro-batch
(`Task.part` and `Task.order`): splits are planned again in the same order, no two tasks of a micro-batch have the same, and
there are as many names as tasks. The ledger does not rest on them: its key is what was read.

Beginning costs 20 ms (a connection, two coordinators), and looking into the ledger 60. A producer of this process goes on
without both when it wrote the micro-batch before: nobody can have had its name between. Had an earlier try of the *same*
micro-batch taken the name in another process, ours is the one that is shut out, its transaction fails, and the next try
begins anew and reads the ledger.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client
from connectors.kafka.ledger import PREFIX
from connectors.kafka.sending import producer
from etl.api import BatchId, Task

_MOST = 16
"""Producers that a process keeps."""

TRANSACTION_MILLIS = 120_000
"""After how long brokers take back a transaction that nobody ends: until then, who reads committed messages waits."""


@dataclass
class Holder:
    """A producer and what it wrote last."""

    client: Client
    last: BatchId | None = None


@dataclass
class Producers:
    """Those of this process, by name."""

    _held: dict[tuple[object, ...], Holder] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def take(self, task: Task) -> str:
        """A name for a writer: where a sink is open twice in a task, the second has another."""
        place, number = _name(task), 0
        while (name := f"{place}-{number}" if number else place) in self._taken:
            number += 1
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """The writer has ended."""
        self._taken.discard(name)

    def begun(
        self, settings: Settings, conf: tuple[tuple[str, str], ...], name: str, size: int, batch: BatchId
    ) -> tuple[Client, bool]:
        """A producer whose name nobody else writes with any more, and whether it goes on: then nobody wrote the split."""
        key = settings, conf, name, size
        holder = self._held.pop(key, None)
        before = BatchId(batch.query, batch.number - 1)
        goes_on = holder is not None and holder.last == before
        client = holder.client if holder is not None and goes_on else _begun(settings, conf, name, size)
        while len(self._held) >= _MOST:
            self._held.pop(next(iter(self._held)))
        self._held[key] = Holder(client)
        return client, goes_on

    def wrote(self, client: Client, batch: BatchId) -> None:
        """Its transaction is committed, or there was nothing to write."""
        for holder in self._held.values():
            if holder.client is client:
                holder.last = batch

    def drop(self, client: Client) -> None:
        """It failed: what it has open is taken back, now or when its name is used next."""
        self._held = {key: holder for key, holder in self._held.items() if holder.client is not client}
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            client.the.purge()
            client.the.abort_transaction(5)


PRODUCERS = Producers()
"""Of this process; empty where it begins, for workers are forked from a process without clients."""


def _begun(settings: Settings, conf: tuple[tuple[str, str], ...], name: str, size: int) -> Client:
    given = {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_MILLIS}
    client = producer(settings, size, **{**given, **dict(conf)})
    client.asked(lambda seconds: client.the.list_topics(timeout=seconds))  # connects: otherwise half a second is slept
    client.asked(client.the.init_transactions)
    return client


def _name(task: Task) -> str:
    query = hashlib.sha256(task.batch.query.encode()).hexdigest()[:16]
    return f"{PREFIX}.{task.pipeline}.{task.sink}.{query}.{task.part}.{task.order}"
