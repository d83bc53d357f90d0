"""The ``rocketmq`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.rocketmq.connection_options import ClusterOptions
from connectors.rocketmq.message_encoding import MessageEncoding
from connectors.rocketmq.probe import probe_topics
from connectors.rocketmq.protocol.cluster import cluster
from connectors.rocketmq.source import GroupName, TopicName
from connectors.rocketmq.topic_creation import TopicCreation, create_missing
from connectors.rocketmq.writer import MAX_REQUEST_BYTES, TopicWriter
from etl.api import FieldName, Finding, Guarantee, Schema, Sink, Task, unknown_field, visible

RESERVED_PROPERTIES = {
    "KEYS",
    "TAGS",
    "WAIT",
    "DELAY",
    "RETRY_TOPIC",
    "REAL_TOPIC",
    "REAL_QID",
    "UNIQ_KEY",
    "PGROUP",
    "TRAN_MSG",
    "CLUSTER",
}
"""Properties with a meaning for brokers and clients."""
RESERVED_PROPERTIES |= {
    "MIN_OFFSET",
    "MAX_OFFSET",
    "BUYER_ID",
    "ORIGIN_MESSAGE_ID",
    "MSG_REGION",
    "TRACE_ON",
    "INSTANCE_ID",
    "__SHARDINGKEY",
}
"""Properties that mean something to brokers and clients."""


class RocketmqSink(ClusterOptions, Sink):
    """Send events to a topic of RocketMQ 4 or 5, one message an event.

    At least once: every event is stored; events in flight when a process is killed or a connection is lost are sent again
    and may be stored twice. Exactly once is not possible: a transaction of RocketMQ holds one message, and cannot hold the
    pipeline's progress. Instead the first of a message's ``KEYS`` is the event's identity, which does not change when the
    event is sent again: consumers can drop duplicates by it.

    The body is the event as JSON, or with ``body_field`` one field, text or bytes. A request has messages of one queue, up to
    1 MiB or a single larger one; it is not compressed, because brokers do not decompress batches. Without ``queue_field``
    requests go to all queues in turn; events of a request keep their order, requests do not. With it events of a key go to
    one queue, which Java's ``SelectMessageQueueByHash`` chooses for the same text, in the order of their split. Parallelism:
    splits, each with four requests in flight.

    An event that is larger than 4 MiB (``event-too-large``), has more than 32 KiB of keys, tag and properties
    (``properties-too-long``), no body (``null-body``), or that the broker refuses (``rocketmq-rejected``) is a dead letter.
    While brokers are down or busy, the sink retries the events that are not stored. A topic that does not exist (without
    ``create``), a refused login or a certificate with another name ends the run without loss. In keys, tags and properties
    the characters U+0001 and U+0002, which separate them, become U+FFFD.

    The sink implements the remoting protocol itself; no client library is needed. Tested against brokers of version 5.3.3,
    with and without access control, and with TLS: down at the start, killed and restarted at random moments, with no event
    missing and duplicates counted.

    ```yaml
    type: rocketmq
    servers: ["localhost:9876"]
    topic: alerts
    queue_field: source.ip
    tag_field: event.action
    ```
    """

    type: Literal["rocketmq"] = "rocketmq"
    topic: TopicName = Field(description="Topic to send to.", examples=["alerts"])
    create: TopicCreation | None = Field(
        default=None,
        description="Create the topic if it does not exist; without it a missing topic is an error.",
        examples=[{"queues": 8}],
    )
    body_field: FieldName | None = Field(
        default=None, description="Field that is the body, text or bytes; without it the whole event as JSON."
    )
    tag_field: FieldName | None = Field(default=None, description="Field whose value is the message's tag.")
    key_fields: tuple[FieldName, ...] = Field(
        default=(), description="Fields whose values are keys of the message; a value with blanks gives several keys."
    )
    identity_key: bool = Field(default=True, description="Whether the event's identity is the first of the keys.")
    queue_field: FieldName | None = Field(
        default=None, description="Field whose hash chooses the queue; without it all queues in turn."
    )
    property_fields: dict[FieldName, Annotated[str, Field(min_length=1)]] = Field(
        default={}, description="Fields that become properties: field → property.", examples=[{"trace.id": "traceId"}]
    )
    group: GroupName = Field(default="sluice", description="Producer group of the messages.")

    guarantee: ClassVar[Guarantee] = "at least once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check addresses, fields, properties and sizes."""
        yield from self.check_connection_options()
        yield from self._check_fields(visible(incoming))
        for field, name in self.property_fields.items():
            if name in RESERVED_PROPERTIES or not name.isprintable() or not name.strip():
                yield Finding("reserved-property", f"{name!r} cannot be used as a property", ("property_fields", field))
        if (self.batch.max_bytes or 0) > MAX_REQUEST_BYTES:
            yield Finding("batch-too-large", f"brokers accept {MAX_REQUEST_BYTES} bytes at most", ("batch", "max_bytes"))

    def writes(self) -> Iterable[str]:
        """Return the topic at each name server."""
        return [f"rocketmq://{server}/{self.topic}" for server in self.servers]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Ask name servers for the topic, and its brokers for offsets."""
        return probe_topics(self.settings(), [self.topic], "topic", creates=self.create is not None)

    def prepare(self, incoming: Schema) -> None:
        """Create the topic if it is missing and the option ``create`` is set."""
        if self.create is not None:
            create_missing(cluster(self.settings()), [self.topic], self.create)

    def open(self, task: Task) -> TopicWriter:
        """Return a writer, which connects with the first batch."""
        encoding = MessageEncoding(self.body_field, self.tag_field, self.key_fields, self.identity_key, self.property_fields)
        return TopicWriter(cluster(self.settings()), self.topic, encoding, self.queue_field, self.group, task.split)

    def _check_fields(self, incoming: Schema) -> Iterator[Finding]:
        for name, path in self._used_fields():
            if name not in incoming.names:
                yield unknown_field(name, incoming, path)
            elif not _is_accepted_type(incoming.field(name).type, binary=path == ("body_field",)):
                yield Finding("wrong-type", f"field {name!r} is {incoming.field(name).type}, a text is needed", path)

    def _used_fields(self) -> list[tuple[str, tuple[str | int, ...]]]:
        single = {"body_field": self.body_field, "tag_field": self.tag_field, "queue_field": self.queue_field}
        used: list[tuple[str, tuple[str | int, ...]]] = [(name, (option,)) for option, name in single.items() if name]
        used += [(name, ("key_fields", number)) for number, name in enumerate(self.key_fields)]
        return used + [(name, ("property_fields", name)) for name in self.property_fields]


def _is_accepted_type(type_: pa.DataType, binary: bool) -> bool:
    """Bodies are text or bytes; other parts of a message may also be numbers or times."""
    if binary:
        return type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null())
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
