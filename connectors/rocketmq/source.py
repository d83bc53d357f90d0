"""The `rocketmq` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.rocketmq import batch_planner, tags
from connectors.rocketmq.broker_offsets import fetch_all_bounds, mirror_offsets
from connectors.rocketmq.connection_options import ClusterOptions
from connectors.rocketmq.messages.message_columns import KEYS, TAGS, MessageColumns
from connectors.rocketmq.probe import probe_topics
from connectors.rocketmq.protocol.cluster import cluster
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.queue_offsets import QueueOffsets
from connectors.rocketmq.range_reader import OnDataLoss, RangeReader, reject_lost
from connectors.rocketmq.start_offsets import StartOffsets
from connectors.rocketmq.topic_creation import TopicCreation, create_missing
from connectors.shared.broker_options import check_distinct_fields, check_start
from etl.api import Backlog, ComponentError, Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, nearest

TopicName = Annotated[str, Field(pattern=r"^[%|A-Za-z0-9_-]+$", max_length=127)]
"""Topic names that RocketMQ accepts."""

GroupName = Annotated[str, Field(pattern=r"^[%|A-Za-z0-9_-]+$", max_length=120)]


class RocketmqSource(ClusterOptions, Source):
    """Read topics of RocketMQ 4 or 5, one event a message.

    Delivery: exactly once, up to the sinks' guarantees: the pipeline's checkpoint holds the offsets of each
    micro-batch, and a split that runs again pulls the same messages. Consumer groups are not used for it; with
    ``commit_group`` delivered offsets are also committed to a group, for tools that show its lag, and for ``start: group``.
    Messages of a queue keep their order; there is no order between queues. Parallelism: queues, long ones in several
    splits. An event's offset is that of its queue, its partition is ``broker/topic/queue``.

    Queues and brokers are found through the name servers, also new ones while the pipeline runs; new queues are read from
    their first message. While brokers are down, the source retries; it reads a replica if the master does not answer.
    Memory of a task: eight answers of a broker (256 KiB each by its own limits), and a batch of 4 MiB; with compressed
    bodies a batch of 32 MiB and one more body.

    ``message`` is the body as text; bytes that are not UTF-8 become U+FFFD, and ``format: binary`` gives the bytes
    themselves. Options add tag, keys, properties and metadata; the fields of ``metadata`` are ``rocketmq.topic``,
    ``rocketmq.broker``, ``rocketmq.queue``, ``rocketmq.offset``, ``rocketmq.born`` (when the producer made the message) and
    ``rocketmq.stored`` (when the broker stored it). Bodies that producers compressed (zlib, LZ4, ZSTD) are decompressed; one
    that is corrupt, or larger than 32 MiB, is a dead letter (``corrupt-body``). ``tags`` filters at the broker, which
    compares hash codes, and again exactly in the source; ``filter`` is evaluated by the broker alone, with
    ``enablePropertyFilter=true``.

    If a broker deleted messages before they were read, or a queue ends before the offset that was read (a topic was created
    again, a broker was replaced by an empty one), the run ends; with ``on_data_loss: earliest`` the loss becomes a dead
    letter (``data-lost``) and reading continues with the first message that exists. A topic that does not exist (without
    ``create``) or is deleted while the pipeline runs, a refused login or a certificate with another name ends the run
    without loss: the checkpoint stays.

    In topics of the type BatchCQ brokers store the messages of one request together; each of them is an event. Brokers do
    not see the tags inside, so the source pulls all messages and applies ``tags`` itself; ``filter`` is an error. The same
    holds if the user may not read the topic's type (with access control: ``GET``), but then ``filter`` only warns.

    The source implements the remoting protocol itself; no client library is needed. Tested against brokers of version
    5.3.3, with and without access control, and with TLS: down at the start, killed and continued, restarted, replaced, with
    topics deleted, filters, and bodies of all compressions. Replicas were tested with simulated brokers only.

    ```yaml
    type: rocketmq
    servers: ["localhost:9876"]
    topics: [web-logs]
    tags: access || error
    commit_group: sluice-web-logs
    ```
    """

    type: Literal["rocketmq"] = "rocketmq"
    topics: tuple[TopicName, ...] = Field(description="Topics to read.", min_length=1, examples=[["web-logs"]])
    tags: str = Field(
        default=tags.ALL, description="Tags of the messages to read, separated by `||`, or `*` for all.", examples=["a || b"]
    )
    filter: str | None = Field(
        default=None,
        min_length=1,
        description="SQL 92 condition on the properties of the messages to read; the broker evaluates it.",
        examples=["amount > 100 AND region IN ('eu', 'us')"],
    )
    begin: Literal["earliest", "latest", "timestamp", "offsets", "group"] = Field(
        default="earliest",
        alias="start",
        description="Where a new pipeline begins: at the first message, after the last, at `start_time`, at `start_offsets`, or "
        "at the offsets of `start_group`; a queue without such an offset is read from its first message.",
    )
    start_time: datetime | None = Field(
        default=None,
        description="For `start: timestamp`: messages stored at this time or later; UTC if it has no time zone.",
        examples=["2026-11-20T06:00:00Z"],
    )
    start_offsets: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="For `start: offsets`: by broker/topic/queue.",
        examples=[{"broker-a/web-logs/0": 1200}],
    )
    start_group: GroupName | None = Field(default=None, description="For `start: group`; default `commit_group`.")
    group: GroupName = Field(
        default="sluice",
        description="Consumer group that pulls the messages; it must exist, or brokers must be allowed to create it.",
    )
    commit_group: GroupName | None = Field(
        default=None, description="Consumer group to which delivered offsets are committed.", examples=["sluice-web-logs"]
    )
    create: TopicCreation | None = Field(
        default=None,
        description="Create topics that do not exist when a new pipeline starts; without it they are an error.",
        examples=[{"queues": 8}],
    )
    on_data_loss: OnDataLoss = Field(
        default="fail",
        description="What happens if messages were deleted before they were read: the run fails, or continues with the first "
        "message that exists.",
    )
    discovery: Duration = Field(
        default=timedelta(seconds=10), description="How often the source searches for new queues and brokers.", gt=timedelta(0)
    )
    body_field: FieldName = Field(default="message", description="Field for the body.")
    format: Literal["text", "binary"] = Field(default="text", description="Whether the body is text or bytes.")
    tag_field: FieldName | None = Field(default=None, description="Field for the message's tag.", examples=["rocketmq.tag"])
    keys_field: FieldName | None = Field(
        default=None, description="Field for the message's keys, separated by blanks.", examples=["rocketmq.keys"]
    )
    property_fields: dict[FieldName, Annotated[str, Field(min_length=1)]] = Field(
        default={}, description="Fields for a property each: field → property.", examples=[{"trace.id": "traceId"}]
    )
    properties_field: FieldName | None = Field(
        default=None, description="Field for all properties, as a map of texts.", examples=["labels"]
    )
    metadata: bool = Field(default=False, description="Add topic, broker, queue, offset and times of each message.")

    def check(self) -> Iterable[Finding]:
        """Check addresses, tags, fields, and options that exclude each other."""
        yield from self.check_connection_options()
        yield from check_start(self.begin, self.start_time, self.start_offsets, self.start_group, self.commit_group)
        yield from self._check_start_queues()
        try:
            tags.parse_tags(self.tags)
        except ValueError as error:
            yield Finding("bad-tags", str(error), ("tags",))
        if self.filter is not None and self.tags != tags.ALL:
            yield Finding("filter-conflict", "a broker accepts either tags or filter", ("filter",), "use TAGS in the filter")
        yield from check_distinct_fields(self._columns().schema().names)

    def _check_start_queues(self) -> Iterator[Finding]:
        for name in self.start_offsets:
            try:
                if (topic := Queue.of(name).topic) not in self.topics:
                    message = f"{topic!r} is not one of the topics to read"
                    yield Finding("bad-queue", message, ("start_offsets",), nearest(topic, self.topics))
            except ValueError as error:
                yield Finding("bad-queue", str(error), ("start_offsets",))

    def fields(self) -> Schema:
        """Return the body and the fields that options add."""
        return self._columns().schema()

    def reads(self, target: str) -> bool:
        """Return whether the target is one of the topics, at one of the name servers."""
        server, _, topic = target.removeprefix("rocketmq://").partition("/")
        return target.startswith("rocketmq://") and server in self.servers and topic in self.topics

    def probe(self) -> Iterable[Finding]:
        """Ask name servers for the topics, and brokers for their offsets."""
        return probe_topics(self.settings(), self.topics, creates=self.create is not None)

    @property
    def skips(self) -> str | None:
        """The option that skips existing messages, if it is set."""
        return "start: latest" if self.begin == "latest" else None

    def start(self) -> Offset:
        """Return the start offset of each queue; topics that do not exist are created or an error."""
        if self.create is not None:
            create_missing(cluster(self.settings()), self.topics, self.create)
        millis = _millis(self.start_time) if self.start_time else None
        start = StartOffsets(self.begin, millis, self.start_offsets, self.start_group or self.commit_group)
        return QueueOffsets(start.resolve(cluster(self.settings()), self.topics)).to_json()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: what exists now, or what the limit allows."""
        position = QueueOffsets.from_json(start)
        bounds = fetch_all_bounds(cluster(self.settings()), self.topics, position, self.discovery.total_seconds(), limit.bounded)
        if self.on_data_loss == "fail":
            for loss in batch_planner.find_read_starts(position, bounds).lost.values():
                raise ComponentError(f"rocketmq: {loss}; on_data_loss: earliest continues with the first message that exists")
        planned = batch_planner.plan_batch(position, bounds, limit)
        return start if planned is position else planned.to_json()

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the number of messages after those of the offset."""
        end = self.latest(after, Limit(1 << 62))
        return Backlog(0 if end == after else sum(split.end - split.start for split in self.splits(after, end, 1)))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the ranges of a batch."""
        return batch_planner.plan_splits(QueueOffsets.from_json(start), QueueOffsets.from_json(end), parallelism)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Pull the messages of a split; several requests are in flight."""
        queue, lost = split.detail
        if lost is not None:
            yield reject_lost(queue, lost, "earliest")
        if split.start < split.end:
            reading = RangeReader(self._columns(), self.group, self.tags, self.filter, self.on_data_loss)
            yield from reading.batches(cluster(self.settings()), queue, split.start, split.end)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Commit delivered offsets to ``commit_group``."""
        if self.commit_group:
            mirror_offsets(cluster(self.settings()), self.commit_group, [QueueOffsets.from_json(end) for end in ends])

    def _columns(self) -> MessageColumns:
        texts = {name: property_ for name, property_ in ((self.tag_field, TAGS), (self.keys_field, KEYS)) if name}
        return MessageColumns(
            self.body_field, self.format == "binary", {**texts, **self.property_fields}, self.properties_field, self.metadata
        )


def _millis(time: datetime) -> int:
    """Return milliseconds since 1970; a time without a zone is UTC."""
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
