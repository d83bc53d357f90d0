"""The `rocketmq` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.rocketmq import planning, tags
from connectors.rocketmq.cluster import cluster
from connectors.rocketmq.columns import KEYS, TAGS, Columns
from connectors.rocketmq.holdings import holdings
from connectors.rocketmq.mirroring import mirror
from connectors.rocketmq.positions import Position
from connectors.rocketmq.probing import probe_topics
from connectors.rocketmq.reading import OnDataLoss, Reading, lost
from connectors.rocketmq.routes import Queue
from connectors.rocketmq.servers import Servers
from connectors.rocketmq.starts import Begin
from connectors.rocketmq.topic_creation import TopicCreation, create_missing
from etl.api import ComponentError, Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, nearest

TopicName = Annotated[str, Field(pattern=r"^[%|A-Za-z0-9_-]+$", max_length=127)]
"""What RocketMQ takes as a topic."""

GroupName = Annotated[str, Field(pattern=r"^[%|A-Za-z0-9_-]+$", max_length=120)]


class RocketmqSource(Servers, Source):
    """Read topics of RocketMQ 4 or 5, an event a message.

    Delivery: exactly once, up to the sinks' guarantees: the pipeline's checkpoint says which offsets of which queue a
    micro-batch holds, and a split that is read again pulls the same messages. Consumer groups have no part in it; with
    ``commit_group`` finished offsets are mirrored to a group, for tools that show its lag, and for ``start: group``.
    Messages of a queue keep their order, queues have none among each other. Parallelism: queues, long ones in several parts.
    The event's offset is that of its queue, its partition ``broker/topic/queue``.

    Queues and brokers are found through the name servers, also new ones while the pipeline runs; those are read from
    their first message. Brokers that are away are waited for, and a replica is read when the master does not answer.
    Memory of a task: eight answers of a broker (256 KiB each by its own limits), and a batch of 4 MiB, of 32 MiB and one
    body more where bodies are compressed.

    ``message`` is the body as text; bytes that are not UTF-8 become U+FFFD, and ``format: binary`` gives the bytes
    themselves. Tag, keys, properties and metadata become fields where options say so; those of ``metadata`` are
    ``rocketmq.topic``, ``rocketmq.broker``, ``rocketmq.queue``, ``rocketmq.offset``, ``rocketmq.born`` (when the producer made
    the message) and ``rocketmq.stored`` (when the broker stored it). Bodies that producers compressed (zlib, LZ4, ZSTD) are
    unpacked; one that cannot be, or has more than 32 MiB then, is a dead letter (``corrupt-body``). ``tags`` filters at the
    broker, and once more exactly, for brokers compare hash codes; ``filter`` is evaluated by the broker alone, which must have
    ``enablePropertyFilter=true``.

    Messages that a broker deleted before they were read, and queues that end before what was read of them (a topic made
    anew, a broker replaced by an empty one), end the run, or with ``on_data_loss: earliest`` are told of by a dead letter
    (``data-lost``) and reading goes on with the first message that is there. A topic that does not
    exist (without ``create``) or is deleted while
    the pipeline runs, a refused login, a certificate of another name end the run: nothing is lost, its checkpoint stays.

    Of topics of the type BatchCQ, in which brokers keep messages together that were sent at once, each message is an event.
    Brokers do not see the tags inside, so all messages of such a topic travel and ``tags`` is looked at here; ``filter`` is an
    error there. So they do where the broker does not tell a user the topic's type (with access control: ``GET``), and
    ``filter`` warns.

    It speaks the remoting protocol itself, no client library is needed. Tested against brokers of version 5.3.3, with and
    without access control, and with TLS: absent at the start, killed and continued, restarted, replaced, with topics deleted,
    conditions, and bodies of all compressions. Replicas were tested with brokers of our own only.

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
        default=tags.ALL, description="Which messages to take: tags with `||` between them, or `*` for all.", examples=["a || b"]
    )
    filter: str | None = Field(
        default=None,
        min_length=1,
        description="Which messages to take, by their properties: a condition of SQL 92, which the broker evaluates.",
        examples=["amount > 100 AND region IN ('eu', 'us')"],
    )
    begin: Literal["earliest", "latest", "timestamp", "offsets", "group"] = Field(
        default="earliest",
        alias="start",
        description="Where a new pipeline begins: at the first message that is there, behind the last, at `start_time`, at "
        "`start_offsets`, or where `start_group` stands; a queue that the last two do not name is read from its first message.",
    )
    start_time: datetime | None = Field(
        default=None,
        description="For `start: timestamp`: what was stored then or later, in UTC unless it says otherwise.",
        examples=["2026-11-20T06:00:00Z"],
    )
    start_offsets: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="For `start: offsets`: by broker/topic/queue.",
        examples=[{"broker-a/web-logs/0": 1200}],
    )
    start_group: GroupName | None = Field(default=None, description="For `start: group`; none means `commit_group`.")
    group: GroupName = Field(
        default="sluice", description="Consumer group in whose name messages are pulled; it must exist, or brokers may make it."
    )
    commit_group: GroupName | None = Field(
        default=None, description="Consumer group to which finished offsets are mirrored.", examples=["sluice-web-logs"]
    )
    create: TopicCreation | None = Field(
        default=None,
        description="Create topics that do not exist when a new pipeline begins; none means that they are an error.",
        examples=[{"queues": 8}],
    )
    on_data_loss: OnDataLoss = Field(
        default="fail",
        description="What happens when messages are gone before they were read: the run fails, or goes on with the first that "
        "is there.",
    )
    discovery: Duration = Field(
        default=timedelta(seconds=10), description="How often new queues and brokers are looked for.", gt=timedelta(0)
    )
    body_field: FieldName = Field(default="message", description="Field that takes the body.")
    format: Literal["text", "binary"] = Field(default="text", description="What the body is read as.")
    tag_field: FieldName | None = Field(
        default=None, description="Field that takes the message's tag.", examples=["rocketmq.tag"]
    )
    keys_field: FieldName | None = Field(
        default=None, description="Field that takes the message's keys, with blanks between them.", examples=["rocketmq.keys"]
    )
    property_fields: dict[FieldName, Annotated[str, Field(min_length=1)]] = Field(
        default={}, description="Fields that take a property each: field → property.", examples=[{"trace.id": "traceId"}]
    )
    properties_field: FieldName | None = Field(
        default=None, description="Field that takes all properties, as a map of texts.", examples=["labels"]
    )
    metadata: bool = Field(default=False, description="Add topic, broker, queue, offset and times of each message.")

    def check(self) -> Iterable[Finding]:
        """Addresses, tags, fields and options that do not go together."""
        yield from self.check_access()
        yield from self._check_start()
        try:
            tags.wanted(self.tags)
        except ValueError as error:
            yield Finding("bad-tags", str(error), ("tags",))
        if self.filter is not None and self.tags != tags.ALL:
            yield Finding("filter-conflict", "a broker goes by tags or by a filter", ("filter",), "ask for TAGS in the filter")
        names = self._columns().schema().names
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Finding("duplicate-field", f"two options fill the field {name!r}", (), "give them different fields")

    def _check_start(self) -> Iterator[Finding]:
        asked = {"timestamp": ("start_time", self.start_time), "offsets": ("start_offsets", self.start_offsets)}
        for how, (option, value) in {**asked, "group": ("start_group", self.start_group or self.commit_group)}.items():
            if self.begin == how and not value:
                yield Finding("missing-option", f"start: {how} needs {option}", ("start",), f"add {option}: …")
        for how, (option, value) in {**asked, "group": ("start_group", self.start_group)}.items():
            if self.begin != how and value:
                message = f"{option} has no effect with start: {self.begin}"
                yield Finding("unused-option", message, (option,), f"write start: {how}", severity="warning")
        for name in self.start_offsets:
            try:
                if (topic := Queue.of(name).topic) not in self.topics:
                    message = f"{topic!r} is none of the topics that are read"
                    yield Finding("bad-queue", message, ("start_offsets",), nearest(topic, self.topics))
            except ValueError as error:
                yield Finding("bad-queue", str(error), ("start_offsets",))

    def fields(self) -> Schema:
        """The body, and what else was asked for."""
        return self._columns().schema()

    def reads(self, target: str) -> bool:
        """Whether it is one of the topics, at one of the name servers."""
        server, _, topic = target.removeprefix("rocketmq://").partition("/")
        return target.startswith("rocketmq://") and server in self.servers and topic in self.topics

    def probe(self) -> Iterable[Finding]:
        """Ask name servers for the topics, and brokers for their offsets."""
        return probe_topics(self.access(), self.topics, creates=self.create is not None)

    @property
    def skips(self) -> str | None:
        """Messages that are there already, if the options say so."""
        return "start: latest" if self.begin == "latest" else None

    def start(self) -> Offset:
        """As the options say; topics that do not exist are created or an error."""
        if self.create is not None:
            create_missing(cluster(self.access()), self.topics, self.create)
        millis = _millis(self.start_time) if self.start_time else None
        begin = Begin(self.begin, millis, self.start_offsets, self.start_group or self.commit_group)
        return Position(begin.at(cluster(self.access()), self.topics)).to_json()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """What queues hold now, or as far as the limit allows."""
        position = Position.of(start)
        held = holdings(cluster(self.access()), self.topics, position, self.discovery.total_seconds(), limit.bounded)
        if self.on_data_loss == "fail":
            for said in planning.begins(position, held).lost.values():
                raise ComponentError(f"rocketmq: {said}; on_data_loss: earliest goes on with what is there")
        reached = planning.reached(position, held, limit)
        return start if reached is position else reached.to_json()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Ranges of offsets."""
        return planning.splits(Position.of(start), Position.of(end), parallelism)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Pulled in parts of which several are under way."""
        queue, gone = split.detail
        if gone is not None:
            yield lost(queue, gone, "earliest")
        if split.start < split.end:
            reading = Reading(self._columns(), self.group, self.tags, self.filter, self.on_data_loss)
            yield from reading.batches(cluster(self.access()), queue, split.start, split.end)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Mirror finished offsets."""
        if self.commit_group:
            mirror(cluster(self.access()), self.commit_group, [Position.of(end) for end in ends])

    def _columns(self) -> Columns:
        texts = {name: wanted for name, wanted in ((self.tag_field, TAGS), (self.keys_field, KEYS)) if name}
        return Columns(
            self.body_field, self.format == "binary", {**texts, **self.property_fields}, self.properties_field, self.metadata
        )


def _millis(time: datetime) -> int:
    """Since 1970; without a zone, UTC is meant."""
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
