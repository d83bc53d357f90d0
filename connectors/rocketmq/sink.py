"""The ``rocketmq`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.rocketmq.cluster import cluster
from connectors.rocketmq.messages import Form
from connectors.rocketmq.probing import probe_topics
from connectors.rocketmq.servers import Servers
from connectors.rocketmq.source import GroupName, TopicName
from connectors.rocketmq.topic_creation import TopicCreation, create_missing
from connectors.rocketmq.writer import LARGEST, TopicWriter
from etl.api import FieldName, Finding, Guarantee, Schema, Sink, Task, nearest, visible

RESERVED = {"KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "UNIQ_KEY", "PGROUP", "TRAN_MSG", "CLUSTER"}
RESERVED |= {
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


class RocketmqSink(Servers, Sink):
    """Send events to a topic of RocketMQ 4 or 5, a message an event.

    At least once: every event is stored, and what was being sent when a process was killed or a connection lost is sent
    again, so it may be there twice. Exactly once is not to be had: a broker's transaction holds one message, and cannot hold
    the pipeline's progress. Instead the first of a message's ``KEYS`` is the event's identity, the same when it is sent
    again: consumers that remember keys drop repetitions.

    The body is the event as JSON, or with ``body_field`` one field, text or bytes. A request holds messages of one queue, of
    1 MiB together, or one that is larger; it is not compressed, for brokers do not unpack batches. Without ``queue_field``
    requests go to all queues in turn; events of a request keep their order, requests have none. With it events of a key go
    to one queue, the one that Java's ``SelectMessageQueueByHash`` chooses for the same text, in the order of their split.
    Parallelism: splits, each with four requests under way.

    An event that is larger than 4 MiB (``event-too-large``), has more than 32 KiB of keys, tag and properties
    (``properties-too-long``), no body (``null-body``), or that the broker refuses (``rocketmq-rejected``) is a dead letter.
    Brokers that are away or busy are tried again with what they have not stored. A topic that does not exist
    (without ``create``), a refused
    login, a certificate of another name end the run: nothing is lost. In keys, tags and properties the characters U+0001 and
    U+0002, which end them, become U+FFFD.

    It speaks the remoting protocol itself, no client library is needed. Tested against brokers of version 5.3.3, with and
    without access control, and with TLS: absent at the start, killed and restarted at random moments, with no event missing and
    repetitions counted.

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
        description="Create the topic if it does not exist; none means that a missing topic is an error.",
        examples=[{"queues": 8}],
    )
    body_field: FieldName | None = Field(
        default=None, description="Field that is the body, text or bytes; none means the whole event as JSON."
    )
    tag_field: FieldName | None = Field(default=None, description="Field whose value is the message's tag.")
    key_fields: tuple[FieldName, ...] = Field(
        default=(), description="Fields whose values are keys of the message; blanks in them make several keys."
    )
    identity_key: bool = Field(default=True, description="Whether the event's identity is the first of the keys.")
    queue_field: FieldName | None = Field(
        default=None, description="Field whose hash chooses the queue; none means all queues in turn."
    )
    property_fields: dict[FieldName, Annotated[str, Field(min_length=1)]] = Field(
        default={}, description="Fields that are sent as properties: field → property.", examples=[{"trace.id": "traceId"}]
    )
    group: GroupName = Field(default="sluice", description="Producer group in whose name messages are sent.")

    guarantee: ClassVar[Guarantee] = "at least once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Addresses, fields, properties, sizes."""
        yield from self.check_access()
        yield from self._check_fields(visible(incoming))
        for field, name in self.property_fields.items():
            if name in RESERVED or not name.isprintable() or not name.strip():
                yield Finding("reserved-property", f"{name!r} cannot be a property of one's own", ("property_fields", field))
        if (self.batch.max_bytes or 0) > LARGEST:
            yield Finding("batch-too-large", f"brokers take {LARGEST} bytes at most", ("batch", "max_bytes"))

    def writes(self) -> Iterable[str]:
        """The topic at each name server."""
        return [f"rocketmq://{server}/{self.topic}" for server in self.servers]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Ask name servers for the topic, and its brokers for offsets."""
        return probe_topics(self.access(), [self.topic], "topic", creates=self.create is not None)

    def prepare(self, incoming: Schema) -> None:
        """Create the topic where options say so and it is missing."""
        if self.create is not None:
            create_missing(cluster(self.access()), [self.topic], self.create)

    def open(self, task: Task) -> TopicWriter:
        """Connections are made with the first batch."""
        form = Form(self.body_field, self.tag_field, self.key_fields, self.identity_key, self.property_fields)
        return TopicWriter(cluster(self.access()), self.topic, form, self.queue_field, self.group, task.split)

    def _check_fields(self, incoming: Schema) -> Iterator[Finding]:
        for name, path in self._used():
            if name not in incoming.names:
                hint = nearest(name, incoming.names) or f"fields here: {', '.join(incoming.names)}"
                yield Finding("unknown-field", f"there is no field {name!r} here", path, hint)
            elif not _fits(incoming.field(name).type, binary=path == ("body_field",)):
                yield Finding("wrong-type", f"field {name!r} is {incoming.field(name).type}, and a text is needed", path)

    def _used(self) -> list[tuple[str, tuple[str | int, ...]]]:
        single = {"body_field": self.body_field, "tag_field": self.tag_field, "queue_field": self.queue_field}
        used: list[tuple[str, tuple[str | int, ...]]] = [(name, (option,)) for option, name in single.items() if name]
        used += [(name, ("key_fields", number)) for number, name in enumerate(self.key_fields)]
        return used + [(name, ("property_fields", name)) for name in self.property_fields]


def _fits(type_: pa.DataType, binary: bool) -> bool:
    """Bodies are texts or bytes; whatever else a message has may be a number or a time, too."""
    if binary:
        return type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null())
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
