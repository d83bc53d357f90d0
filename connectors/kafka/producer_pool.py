"""Pool of transactional producers: which transactional id a task uses, and when a producer can be used for the next
micro-batch.

A writer that was believed dead may still run and commit. Kafka prevents that by the transactional id: a producer that calls
`init_transactions` aborts what an earlier producer with the same id left open, and *fences* that producer. So the second
attempt at a split must use the id of the first. One id a split would do, but brokers keep ids for seven days, and a pipeline
has millions of splits. So ids are numbered by the task's index in its micro-batch (`Task.part` and `Task.order`): splits are
planned again in the same order, no two tasks of a micro-batch have the same index, and there are as many ids as tasks. The
ledger does not depend on the ids: its key is what was read.

`init_transactions` takes 20 ms (a connection, two coordinators), and reading the ledger 60 ms. A producer of this process
that wrote the previous micro-batch skips both: nobody else can have used its id since. If an earlier attempt at the *same*
micro-batch took the id in another process, our producer is the fenced one: its transaction fails, and the next attempt
initialises a new producer and reads the ledger.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field

from connectors.kafka.batch_sender import create_producer
from connectors.kafka.clients import Client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.ledger import NAME_PREFIX
from etl.api import BatchId, Task

_MAX_PRODUCERS = 16
"""Maximum number of producers that a process holds."""

TRANSACTION_MILLIS = 120_000
"""After this time, in milliseconds, brokers abort a transaction that nobody ends. Until then, readers of committed messages
wait.
"""


@dataclass
class PooledProducer:
    """A producer and the last micro-batch that it wrote."""

    client: Client
    last_batch: BatchId | None = None


@dataclass
class ProducerPool:
    """The transactional producers of this process."""

    _producers: dict[tuple[object, ...], PooledProducer] = field(default_factory=dict)
    _reserved_names: set[str] = field(default_factory=set)

    def reserve_name(self, task: Task) -> str:
        """Reserve a transactional id for a writer; a sink that is open twice in one task gets a second id."""
        base, number = _transactional_id(task), 0
        while (name := f"{base}-{number}" if number else base) in self._reserved_names:
            number += 1
        self._reserved_names.add(name)
        return name

    def release_name(self, name: str) -> None:
        """Make the id available again, when the writer ends."""
        self._reserved_names.discard(name)

    def acquire(
        self, settings: ClientSettings, conf: tuple[tuple[str, str], ...], name: str, size: int, batch: BatchId
    ) -> tuple[Client, bool]:
        """Return a producer whose id no other producer can write with, and whether it continues from the previous
        micro-batch.

        If it continues, the split cannot have been written before.
        """
        key = settings, conf, name, size
        pooled = self._producers.pop(key, None)
        before = BatchId(batch.query, batch.number - 1)
        is_continued = pooled is not None and pooled.last_batch == before
        client = pooled.client if pooled is not None and is_continued else _start_producer(settings, conf, name, size)
        while len(self._producers) >= _MAX_PRODUCERS:
            self._producers.pop(next(iter(self._producers)))
        self._producers[key] = PooledProducer(client)
        return client, is_continued

    def mark_written(self, client: Client, batch: BatchId) -> None:
        """Record that the producer's transaction is committed, or that there was nothing to write."""
        for pooled in self._producers.values():
            if pooled.client is client:
                pooled.last_batch = batch

    def discard(self, client: Client) -> None:
        """Remove a producer after a failure and abort its transaction; if that fails, the next user of the id aborts it."""
        self._producers = {key: pooled for key, pooled in self._producers.items() if pooled.client is not client}
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            client.raw.purge()
            client.raw.abort_transaction(5)


PRODUCER_POOL = ProducerPool()
"""The pool of this process. It is empty at the start: workers are forked from a process without clients."""


def _start_producer(settings: ClientSettings, conf: tuple[tuple[str, str], ...], name: str, size: int) -> Client:
    given = {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_MILLIS}
    client = create_producer(settings, size, **{**given, **dict(conf)})
    client.call(
        lambda seconds: client.raw.list_topics(timeout=seconds)
    )  # connects now; init_transactions alone would sleep for half a second
    client.call(client.raw.init_transactions)
    return client


def _transactional_id(task: Task) -> str:
    query = hashlib.sha256(task.batch.query.encode()).hexdigest()[:16]
    return f"{NAME_PREFIX}.{task.pipeline}.{task.sink}.{query}.{task.part}.{task.order}"
