"""The `kafka` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.kafka.access import Cluster
from connectors.kafka.encoding import Encoding
from connectors.kafka.ledger import Ledgers
from connectors.kafka.naming import Naming
from connectors.kafka.probing import probe_topics
from connectors.kafka.topic_creation import TopicCreation, create_missing
from connectors.kafka.transactions import TransactionWriter
from connectors.kafka.writer import KafkaWriter
from etl.api import (
    Batching,
    Committer,
    FieldName,
    Finding,
    Guarantee,
    Schema,
    Sink,
    Task,
    Writer,
    nearest,
    visible,
)

_MEMORY = Batching(max_events=10_000, max_bytes=8 << 20, timeout=timedelta(seconds=1))


class KafkaSink(Cluster, Sink):
    """Write events to topics of Kafka, a message an event.

    The value is the event as JSON, as the file sink writes it, or with ``value_field`` a field as it is: text, bytes, or
    null (a tombstone). The key is a field's text, or those of several joined by ``|`` (null: no key). In braces, a topic
    takes the value of a field: ``logs-{service.name}``.

    At least once by default: a write returns when all replicas in sync have it; what was written and not yet noted is
    written again after a crash. With ``delivery: exactly_once`` the events of a split are one transaction, which carries
    an entry of a ledger, too: a split that was written is not written again, whatever is killed. Consumers then have to
    read with ``read_committed``, and see events when their split has ended. Entries are consumer groups, transactions have
    names, both beginning with ``sluice.<pipeline>.<sink>``: with ACLs the user needs Write and Describe on transactional
    ids of that prefix, Read, Describe and Delete on groups of it. Entries expire with ``offsets.retention.minutes``: a
    pipeline that was killed within a micro-batch and stays down for longer writes what it had written of it twice. A
    transaction that nobody ends is taken back after two minutes (``properties: {transaction.timeout.ms: …}``): raise
    that where another sink of the pipeline may hold up a split for longer.

    Events of a split that go to one partition keep their order, and those of one source partition if their key is the
    same; an event that was tried again may come behind later ones of its batch. The unit of parallelism is the split.

    Dead letters: ``event-too-large`` beyond the topic's ``max.message.bytes`` (value, key and headers, before they are
    compressed; where it may not be read, 1 MB), ``null-key`` in front of a compacted topic, ``bad-topic`` and
    ``unknown-topic`` for a topic that an event names, ``refused`` for what brokers do not want. A topic that is named
    in the pipeline and does not exist, a wrong password or certificate ends the run; brokers that are down are waited
    for.

    Tested against Kafka 4.3, open, with SCRAM (with and without TLS) and with client certificates: brokers absent at the
    start and restarted, deleted topics, messages of 5 MiB, kill -9 of driver and workers with both deliveries.

    ```yaml
    type: kafka
    servers: ["localhost:9092"]
    topic: alerts
    key: [source.ip]
    delivery: exactly_once
    ```
    """

    type: Literal["kafka"] = "kafka"
    topic: str = Field(
        description="The topic to write to; `{field}` is replaced.", min_length=1, examples=["alerts", "logs-{service.name}"]
    )
    create: TopicCreation | None = Field(
        default=None,
        description="Create the topic if it does not exist; none leaves that to the cluster, or a missing topic is an error.",
        examples=[{"partitions": 8, "replication": 1}],
    )
    key: tuple[FieldName, ...] = Field(
        default=(), description="Fields that make the key, by which events share a partition.", examples=[["source.ip"]]
    )
    value_field: FieldName | None = Field(
        default=None, description="Field whose text or bytes are the value; none means the event as JSON.", examples=["message"]
    )
    headers: dict[FieldName, str] = Field(
        default={},
        description="Fields that become a header each; one that is null does not.",
        examples=[{"trace.id": "trace-id"}],
    )
    time_field: FieldName | None = Field(
        default=None, description="Field that becomes the message's timestamp; none means the time of sending."
    )
    partitioner: Literal["murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random"] = (
        Field(
            default="murmur2_random",
            description="How a key chooses a partition, by librdkafka's names; murmur2_random is what Java clients do.",
        )
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="lz4", description="How batches are compressed."
    )
    delivery: Literal["at_least_once", "exactly_once"] = Field(
        default="at_least_once", description="Whether a crash may repeat events; exactly_once needs transactions."
    )
    batch: Batching = Field(default=_MEMORY, description="When buffered events are written.")

    guarantee: ClassVar[Guarantee] = "exactly once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Fields that are not here or have no such form, and topics that cannot be."""
        here = visible(incoming)
        yield from self.check_access()
        yield from self._naming.check(here)
        if self.create is not None and not self._naming.is_fixed:
            message = f"create needs the name of a topic, and {self.topic!r} takes it from events"
            yield Finding("unused-option", message, ("create",), "leave create out, and let brokers create topics")
        named: list[tuple[str, tuple[str | int, ...]]] = [(name, ("key", at)) for at, name in enumerate(self.key)]
        named += [(name, ("headers", name)) for name in self.headers]
        single = {"value_field": self.value_field, "time_field": self.time_field}
        named += [(name, (option,)) for option, name in single.items() if name]
        yield from _unknown(named, here)
        yield from self._wrong_types(here)

    def guaranteed(self) -> Guarantee:
        """As `delivery` says."""
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def writes(self) -> Iterable[str]:
        """The topic at each server, where it does not depend on events."""
        return [f"kafka://{server}/{self.topic}" for server in self.servers if self._naming.is_fixed]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Whether the cluster answers and has the topic."""
        names = [self.topic] if self._naming.is_fixed else []
        return probe_topics(self.settings(), names, "topic", creates=self.create is not None)

    def prepare(self, incoming: Schema) -> None:
        """Create the topic where options say so and it is missing."""
        if self.create is not None and self._naming.is_fixed:
            create_missing(self.settings(), [self.topic], self.create)

    def open(self, task: Task) -> Writer:
        """Connects when there is something to write."""
        conf = (("compression.type", self.compression), ("partitioner", self.partitioner))
        if self.delivery == "exactly_once":
            return TransactionWriter(self._encoding, self.settings(), conf, task)
        return KafkaWriter(self._encoding, self.settings(), conf)

    def committer(self, folder: str) -> Committer | None:
        """Deletes entries of the ledger."""
        return Ledgers(self.settings(), folder) if self.delivery == "exactly_once" else None

    @property
    def _naming(self) -> Naming:
        return Naming(self.topic)

    @property
    def _encoding(self) -> Encoding:
        return Encoding(self._naming, self.value_field, self.key, tuple(self.headers.items()), self.time_field)

    def _wrong_types(self, here: Schema) -> Iterator[Finding]:
        time, value = self.time_field, self.value_field
        if time in here.names and not (pa.types.is_timestamp(here.field(time).type) or pa.types.is_null(here.field(time).type)):
            yield Finding("wrong-type", f"field {time!r} is {here.field(time).type}, and a timestamp is needed", ("time_field",))
        if value in here.names and pa.types.is_nested(here.field(value).type):
            message = f"field {value!r} is {here.field(value).type}, and is sent as JSON"
            yield Finding("wrong-type", message, ("value_field",), severity="warning")


def _unknown(named: Iterable[tuple[str, tuple[str | int, ...]]], here: Schema) -> Iterator[Finding]:
    for name, at in named:
        if name not in here.names:
            hint = nearest(name, here.names) or f"fields here: {', '.join(here.names)}"
            yield Finding("unknown-field", f"there is no field {name!r} here", at, hint)
