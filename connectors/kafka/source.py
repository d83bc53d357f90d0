"""The `kafka` source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.kafka.access import Cluster
from connectors.kafka.columns import Shape
from connectors.kafka.discovery import Discovery, discovery
from connectors.kafka.groups import mirror
from connectors.kafka.positions import Position, first, splits
from connectors.kafka.probing import probe_topics
from connectors.kafka.reach import OnLoss, Reach
from connectors.kafka.reading import Range
from connectors.kafka.starting import Beginning, Start
from connectors.kafka.topic_creation import TopicCreation, create_missing
from connectors.kafka.topics import LEGAL_TOPIC, VanishedError, Wanted
from etl.api import OFFSET, Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, nearest


class KafkaSource(Cluster, Source):
    """Read topics of Kafka, a message an event.

    The value of a message is in ``message``: as text, in which bytes that are not UTF-8 become U+FFFD, or as bytes with
    ``format: binary``. A message without a value (a tombstone) is an event whose ``message`` is null. Key, headers and
    metadata become fields where options say so. The fields of ``metadata`` are ``kafka.topic``, ``kafka.partition``,
    ``kafka.offset`` and ``kafka.timestamp``.

    Delivery: exactly once, up to the sinks' guarantees. Offsets are kept in the pipeline's checkpoint and never in
    Kafka; ``commit_group`` mirrors what all sinks hold, for tools that watch the lag, to a group that must have no
    consumer. A run of ``--once`` ends at what is there at its beginning. Events of a partition keep their order. The unit
    of parallelism is a part of a partition, of at least 10,000 offsets; a micro-batch is shared out fairly over
    partitions. Memory of a task: 32 MiB that are fetched ahead, and a batch of about 4 MiB (or one message).

    Partitions and topics that come later are found every ``discovery`` and are read from their first message, whatever
    ``start`` says. Only what transactions have committed is read, unless ``isolation`` says otherwise. When messages
    expired before they were read, or a topic was deleted or cut, the run ends and says what is missing; with
    ``on_data_loss: earliest`` it warns and goes on with the first message there is (what a task misses is the dead letter
    ``data-lost``). A broker that is down is waited for; a wrong password, certificate or topic (without ``create``) ends the run.

    Tested against Kafka 4.3, open, with SCRAM (with and without TLS) and with client certificates: brokers absent at the
    start and restarted, topics deleted and made again, messages of 5 MiB, kill -9 of driver and workers.

    ```yaml
    type: kafka
    servers: ["localhost:9092"]
    topics: [syslog, audit]
    metadata: true
    ```
    """

    type: Literal["kafka"] = "kafka"
    topics: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")], ...] = Field(
        default=(), description="Topics to read.", examples=[["syslog", "audit"]]
    )
    pattern: str | None = Field(
        default=None,
        description="A regular expression instead of names: all topics whose whole name matches, also those that come later.",
        examples=[r"logs\..*"],
        min_length=1,
    )
    begin: Start = Field(
        default="earliest",
        alias="start",
        description="Where a new pipeline begins: at the first message, behind the last, at `start_time`, at `start_offsets`, or "
        "where `start_group` stands; a partition that the last two do not name is read from its first message.",
    )
    start_time: datetime | None = Field(
        default=None, description="For `start: timestamp`, in UTC unless it says otherwise.", examples=["2026-11-20T06:00:00Z"]
    )
    start_offsets: dict[str, dict[Annotated[str, Field(pattern=r"^[0-9]+$")], Annotated[int, Field(ge=0)]]] = Field(
        default={}, description="For `start: offsets`: by topic and partition.", examples=[{"syslog": {"0": 1200, "1": 1315}}]
    )
    start_group: str | None = Field(default=None, description="For `start: group`; none means `commit_group`.", min_length=1)
    commit_group: str | None = Field(
        default=None,
        description="Consumer group to which finished offsets are committed.",
        min_length=1,
        examples=["sluice-syslog"],
    )
    value_field: FieldName = Field(default="message", description="Field that takes the value.")
    format: Literal["text", "binary"] = Field(default="text", description="What the value is read as.")
    key_field: FieldName | None = Field(default=None, description="Field that takes the key.", examples=["kafka.key"])
    headers: dict[FieldName, str] = Field(
        default={},
        description="Fields that take a header each; of several with one name the last.",
        examples=[{"trace.id": "trace-id"}],
    )
    headers_field: FieldName | None = Field(
        default=None, description="Field that takes all other headers as a JSON object.", examples=["kafka.headers"]
    )
    metadata: bool = Field(default=False, description="Add topic, partition, offset and time of each message.")
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="Whether messages of transactions are read only when these are committed."
    )
    create: TopicCreation | None = Field(
        default=None,
        description="Create topics that do not exist when a new pipeline begins; none means that they are an error.",
        examples=[{"partitions": 8, "replication": 1}],
    )
    on_data_loss: OnLoss = Field(
        default="fail",
        description="What happens when messages are gone before they were read: the run ends, or goes on behind them.",
    )
    discovery: Duration = Field(
        default=timedelta(seconds=10), description="How often new topics and partitions are looked for.", gt=timedelta(0)
    )

    def check(self) -> Iterable[Finding]:
        """Options that need or exclude each other, and names that cannot be."""
        yield from self.check_access()
        yield from self._check_topics()
        yield from self._check_start()
        names = self._shape.names()
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Finding("duplicate-field", f"two options fill the field {name!r}", (), "give them different fields")

    def fields(self) -> Schema:
        """The value and what else options ask for."""
        return self._shape.fields()

    def reads(self, target: str) -> bool:
        """Whether it is one of the topics, at one of the servers."""
        server, _, topic = target.removeprefix("kafka://").partition("/")
        wanted = topic in self.topics or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)
        return target.startswith("kafka://") and server in self.servers and wanted

    def probe(self) -> Iterable[Finding]:
        """Whether the cluster answers and has the topics."""
        return probe_topics(self.settings(), self.topics, "topics", creates=self.create is not None)

    @property
    def skips(self) -> str | None:
        """Messages that are there already, if the options say so."""
        return "start: latest" if self.begin == "latest" else None

    def start(self) -> Offset:
        """In each partition there is; topics that do not exist are created or an error."""
        if self.create is not None:
            create_missing(self.settings(), self.topics, self.create)
        found = self._wanted.all(self.settings())
        return self._beginning.position(found).offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to what is there now, or as far as the limit allows."""
        begin, discovery = Position.of(start), self._discovery
        found = discovery.topics(begin, self.discovery.total_seconds())
        try:
            return self._reach.position(begin, found, limit).offset()
        except VanishedError:
            discovery.forget()
            raise

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Parts of partitions."""
        return splits(Position.of(end), parallelism)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of about 4 MiB."""
        shape, partition = self._shape, split.detail
        committed = self.isolation == "read_committed"
        range_ = Range(partition, split.start, split.end, committed, self.settings(), self.on_data_loss)
        for messages in range_.messages():
            yield from shape.batches(messages, partition)
        for lost in range_.losses:
            nothing = pa.record_batch([pa.array([""]), pa.array([split.start], pa.int64())], names=["message", OFFSET])
            yield Rejects(nothing, "data-lost", str(lost))

    def commit(self, ends: Sequence[Offset]) -> None:
        """Mirror what all queries have delivered."""
        if self.commit_group:
            mirror(self.settings(), self.commit_group, first([Position.of(end) for end in ends]))

    @property
    def _wanted(self) -> Wanted:
        return Wanted(self.topics, self.pattern or "")

    @property
    def _discovery(self) -> Discovery:
        return discovery(self.settings(), self._wanted)

    @property
    def _reach(self) -> Reach:
        return Reach(self.settings(), self.isolation == "read_committed", self.on_data_loss)

    @property
    def _shape(self) -> Shape:
        headers = tuple(self.headers.items())
        binary = self.format == "binary"
        return Shape(self.value_field, binary, self.key_field, headers, self.headers_field, self.metadata)

    @property
    def _beginning(self) -> Beginning:
        time = self.start_time if self.start_time is None or self.start_time.tzinfo else self.start_time.replace(tzinfo=UTC)
        offsets = {topic: {int(number): at for number, at in given.items()} for topic, given in self.start_offsets.items()}
        group = self.start_group or self.commit_group
        return Beginning(self.begin, time, offsets, group, self.settings(), self.isolation == "read_committed")

    def _check_topics(self) -> Iterator[Finding]:
        if bool(self.topics) == bool(self.pattern):
            what = "topics and pattern are both given" if self.topics else "neither topics nor a pattern is given"
            yield Finding("no-topics", what, ("pattern",) if self.topics else (), "give one of them")
        if self.pattern and self.create is not None:
            message = "create needs the names of topics, and a pattern has none"
            yield Finding("unused-option", message, ("create",), "list the topics under topics, or leave create out")
        for number, name in enumerate(self.topics):
            if not LEGAL_TOPIC.fullmatch(name):
                yield Finding("bad-topic", f"{name!r} is no name that a topic can have", ("topics", number))
            if name in self.topics[:number]:
                yield Finding("duplicate-topic", f"{name!r} is listed twice", ("topics", number))
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            yield Finding("bad-regex", f"the pattern cannot be compiled: {error}", ("pattern",), at=error.pos)

    def _check_start(self) -> Iterator[Finding]:
        needed = {
            "timestamp": ("start_time", self.start_time),
            "offsets": ("start_offsets", self.start_offsets),
            "group": ("start_group", self.start_group or self.commit_group),
        }
        for how, (option, value) in needed.items():
            if self.begin == how and not value:
                yield Finding("missing-option", f"start: {how} needs {option}", ("start",), f"add {option}: …")
            elif self.begin != how and value and value is not self.commit_group:
                message = f"{option} is given, and start is {self.begin}"
                yield Finding("unused-option", message, (option,), f"write start: {how}", severity="warning")
        for name in self.start_offsets if self.topics else ():
            if name not in self.topics:
                message = f"{name!r} is none of the topics that are read"
                yield Finding(
                    "bad-partition",
                    message,
                    ("start_offsets", name),
                    nearest(name, self.topics) or f"topics: {', '.join(self.topics)}",
                )
