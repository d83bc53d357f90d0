"""A real Kafka broker for tests, and functions that run sources and sinks against it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from running import wait_for

from etl.api import BatchId, Limit, Offset, Rejects, Source, Task

if TYPE_CHECKING:
    from confluent_kafka import Message
    from servers.brokers.kafka_server import Kafka

_numbers = itertools.count()
EVERYTHING = Limit(1 << 62, bounded=True)


class Broker:
    """A broker, with the changes that tests make to it."""

    def __init__(self, server: Kafka) -> None:
        self.server = server
        self.query = f"query-{os.getpid()}-{next(_numbers)}"
        """A checkpoint of this test's own."""
        self.address = server.address

    @cached_property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({**self.server.client(), "log_level": 0})

    def topic(self, partitions: int = 1, name: str = "", **config: str) -> str:
        """Create a topic; its name is unique unless given."""
        from confluent_kafka.admin import NewTopic

        name = name or f"test-{os.getpid()}-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(120)
        wait_for(lambda: self._holds(name, settings), what="the topic")
        return name

    def _holds(self, topic: str, settings: Mapping[str, str]) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        expected = ConfigResource(ResourceType.TOPIC, topic)
        try:
            found = self.admin.describe_configs([expected])[expected].result(120)
        except KafkaException:
            return False
        return all(found[name].value == value for name, value in settings.items())

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(120)

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(120)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete records before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        target = TopicPartition(topic, partition, before)
        self.admin.delete_records([target])[target].result(120)

    def produce(self, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
        """Send messages and wait until all are acknowledged."""
        from confluent_kafka import Producer

        producer = Producer({**self.server.client(), "linger.ms": 5, "message.max.bytes": 20_000_000, "log_level": 0})
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
            producer.poll(0)
        assert producer.flush(30) == 0

    def transaction(self, topic: str, values: Iterable[bytes], commit: bool) -> None:
        """Send messages in a transaction, then commit or abort it."""
        from confluent_kafka import Producer

        producer = Producer({**self.server.client(), "transactional.id": f"test-{next(_numbers)}", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def messages(self, topic: str, committed: bool = True) -> list[Message]:
        """Return the messages of all partitions, in order; by default those of committed transactions."""
        from confluent_kafka import Consumer, TopicPartition

        level = "read_committed" if committed else "read_uncommitted"
        conf = {"group.id": "test", "enable.partition.eof": True, "isolation.level": level, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.server.client(), **conf, "fetch.wait.max.ms": 10, "log_level": 0})
        partitions = consumer.list_topics(topic, timeout=120).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.name() == "_PARTITION_EOF":
                    ended.add(message.partition())
                else:
                    raise AssertionError(error.str())
        consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def values(self, topic: str) -> list[bytes]:
        return [one.value() or b"" for one in self.messages(topic)]

    def groups(self) -> set[str]:
        return {one.group_id for one in self.admin.list_consumer_groups().result(120).valid}


def read(source: Source, start: Offset, end: Offset, parallelism: int = 2) -> list[dict[str, Any]]:
    """Return the events between two offsets of the source."""
    rows: list[dict[str, Any]] = []
    for split in source.splits(start, end, parallelism):
        for batch in source.read(split):
            assert not isinstance(batch, Rejects), batch.reasons
            assert batch.schema.names == [*source.fields().names, "_offset"]
            rows += batch.to_pylist()
    return rows


def everything(source: Source) -> list[dict[str, Any]]:
    """Return the events that a bounded run reads."""
    start = source.start()
    return read(source, start, source.latest(start, EVERYTHING))


def events(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Make a batch with offsets."""
    batch = pa.RecordBatch.from_pylist(list(rows))
    return batch.append_column("_offset", pa.array(range(batch.num_rows), pa.int64()))


def messages_of(batches: Iterable[pa.RecordBatch | Rejects]) -> list[Any]:
    """Return the values of the column ``message``."""
    return [text for batch in batches if isinstance(batch, pa.RecordBatch) for text in batch.column("message").to_pylist()]


def task(broker: Broker | None, batch: pa.RecordBatch, split: str = "split", number: int = 0, query: str = "") -> Task:
    """Make a task; equal arguments give the same split."""
    schema = pa.schema([field for field in batch.schema if field.name != "_offset"])
    return Task(
        "tests",
        "out",
        split,
        "/nonexistent",
        schema,
        BatchId((broker.query if broker else f"none-{next(_numbers)}") + query, number),
    )
