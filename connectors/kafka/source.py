"""The `kafka` source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.kafka.batch_planner import BatchPlanner, OnLoss
from connectors.kafka.connection_options import ClusterOptions
from connectors.kafka.consumer_groups import mirror_offsets
from connectors.kafka.message_columns import MessageColumns
from connectors.kafka.offset_ranges import OffsetRanges, lowest_ends, plan_splits
from connectors.kafka.probe import probe_topics
from connectors.kafka.range_reader import RangeReader
from connectors.kafka.start_offsets import StartMode, StartOffsets
from connectors.kafka.topic_creation import TopicCreation, create_missing
from connectors.kafka.topics import LEGAL_TOPIC, TopicDiscovery, TopicSelection, TopicVanishedError, topic_discovery
from connectors.shared.broker_options import check_distinct_fields, check_start
from etl.api import OFFSET, Backlog, Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, nearest


class KafkaSource(ClusterOptions, Source):
    """Read Kafka topics, one event a message.

    The field ``message`` is the value of a message: as text (bytes that are not UTF-8 become U+FFFD), or as bytes with
    ``format: binary``. A message without a value (a tombstone) is an event whose ``message`` is null. Options add key,
    headers and metadata. The fields of ``metadata`` are ``kafka.topic``, ``kafka.partition``, ``kafka.offset`` and
    ``kafka.timestamp``.

    Delivery: exactly once, up to the sinks' guarantees. Offsets are kept in the pipeline's checkpoint and never in Kafka;
    ``commit_group`` names a consumer group, without consumers, to which offsets are committed after all sinks have the
    events, for tools that watch the lag. A run with ``--once`` reads up to the end offsets at its start. Events of a
    partition keep their order. The unit of parallelism is a part of a partition, of at least 10,000 offsets; a micro-batch is
    divided fairly over partitions. Memory of a task: 32 MiB of prefetched messages, and a batch of about 4 MiB (or one
    message).

    New partitions and topics are searched for every ``discovery`` and read from their first message, whatever ``start``
    says. Only committed transactions are read, unless ``isolation`` says otherwise. If messages expired before they were
    read, or a topic was deleted or truncated, the run ends with a message that names the lost range; with
    ``on_data_loss: earliest`` it warns and continues with the first message that exists (a loss found by a task becomes
    the dead letter ``data-lost``). While a broker is down, the source retries; a wrong password, certificate or topic
    (without ``create``) ends the run.

    Tested against Kafka 4.3, open, with SCRAM (with and without TLS) and with client certificates: brokers down at the
    start and restarted, topics deleted and created again, messages of 5 MiB, kill -9 of driver and workers.

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
        description="A regular expression instead of names: all topics whose whole name matches, including topics created later.",
        examples=[r"logs\..*"],
        min_length=1,
    )
    begin: StartMode = Field(
        default="earliest",
        alias="start",
        description="Where a new pipeline begins: at the first message, after the last, at `start_time`, at `start_offsets`, or "
        "at the offsets of `start_group`; a partition without such an offset is read from its first message.",
    )
    start_time: datetime | None = Field(
        default=None, description="For `start: timestamp`; UTC if it has no time zone.", examples=["2026-11-20T06:00:00Z"]
    )
    start_offsets: dict[str, dict[Annotated[str, Field(pattern=r"^[0-9]+$")], Annotated[int, Field(ge=0)]]] = Field(
        default={}, description="For `start: offsets`: by topic and partition.", examples=[{"syslog": {"0": 1200, "1": 1315}}]
    )
    start_group: str | None = Field(default=None, description="For `start: group`; default `commit_group`.", min_length=1)
    commit_group: str | None = Field(
        default=None,
        description="Consumer group to which delivered offsets are committed.",
        min_length=1,
        examples=["sluice-syslog"],
    )
    value_field: FieldName = Field(default="message", description="Field for the value.")
    format: Literal["text", "binary"] = Field(default="text", description="Whether the value is text or bytes.")
    key_field: FieldName | None = Field(default=None, description="Field for the key.", examples=["kafka.key"])
    headers: dict[FieldName, str] = Field(
        default={},
        description="Fields for a header each; of several with one name the last.",
        examples=[{"trace.id": "trace-id"}],
    )
    headers_field: FieldName | None = Field(
        default=None, description="Field for all other headers as a JSON object.", examples=["kafka.headers"]
    )
    metadata: bool = Field(default=False, description="Add topic, partition, offset and time of each message.")
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="Whether only committed transactions are read."
    )
    create: TopicCreation | None = Field(
        default=None,
        description="Create topics that do not exist when a new pipeline starts; without it they are an error.",
        examples=[{"partitions": 8, "replication": 1}],
    )
    on_data_loss: OnLoss = Field(
        default="fail",
        description="What happens if messages were deleted before they were read: the run ends, or continues after them.",
    )
    discovery: Duration = Field(
        default=timedelta(seconds=10), description="How often the source searches for new topics and partitions.", gt=timedelta(0)
    )

    def check(self) -> Iterable[Finding]:
        """Check options that need or exclude each other, and topic names."""
        yield from self.check_connection_options()
        yield from self._check_topics()
        yield from check_start(self.begin, self.start_time, self.start_offsets, self.start_group, self.commit_group)
        yield from self._check_start_topics()
        yield from check_distinct_fields(self._columns.names())

    def fields(self) -> Schema:
        """Return the value and the fields that options add."""
        return self._columns.fields()

    def reads(self, target: str) -> bool:
        """Return whether the target is one of the topics, at one of the servers."""
        server, _, topic = target.removeprefix("kafka://").partition("/")
        is_read = topic in self.topics or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)
        return target.startswith("kafka://") and server in self.servers and is_read

    def probe(self) -> Iterable[Finding]:
        """Check that the cluster answers and has the topics."""
        return probe_topics(self.settings(), self.topics, "topics", creates=self.create is not None)

    @property
    def skips(self) -> str | None:
        """The option that skips existing messages, if it is set."""
        return "start: latest" if self.begin == "latest" else None

    def start(self) -> Offset:
        """Return the start offset of each partition; topics that do not exist are created or an error."""
        if self.create is not None:
            create_missing(self.settings(), self.topics, self.create)
        found = self._selection.find_all(self.settings())
        return self._start_offsets.resolve(found).to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: what exists now, or what the limit allows."""
        begin, discovery = OffsetRanges.from_offset(start), self._discovery
        found = discovery.topics(begin, self.discovery.total_seconds())
        try:
            return self._planner.plan(begin, found, limit).to_offset()
        except TopicVanishedError:
            discovery.invalidate()
            raise

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the number of offsets after those of the source."""
        end = self.latest(after, Limit(1 << 62))
        ranges = OffsetRanges.from_offset(end).topics.values() if end != after else ()
        return Backlog(sum(sum(topic.ends) - sum(topic.begins) for topic in ranges))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the ranges of a batch."""
        return plan_splits(OffsetRanges.from_offset(end), parallelism)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        columns, partition = self._columns, split.detail
        committed = self.isolation == "read_committed"
        reader = RangeReader(partition, split.start, split.end, committed, self.settings(), self.on_data_loss)
        for messages in reader.messages():
            yield from columns.batches(messages, partition)
        for lost in reader.losses:
            nothing = pa.record_batch([pa.array([""]), pa.array([split.start], pa.int64())], names=["message", OFFSET])
            yield Rejects(nothing, "data-lost", str(lost))

    def commit(self, ends: Sequence[Offset]) -> None:
        """Commit to ``commit_group`` what all queries have delivered."""
        if self.commit_group:
            mirror_offsets(self.settings(), self.commit_group, lowest_ends([OffsetRanges.from_offset(end) for end in ends]))

    @property
    def _selection(self) -> TopicSelection:
        return TopicSelection(self.topics, self.pattern or "")

    @property
    def _discovery(self) -> TopicDiscovery:
        return topic_discovery(self.settings(), self._selection)

    @property
    def _planner(self) -> BatchPlanner:
        return BatchPlanner(self.settings(), self.isolation == "read_committed", self.on_data_loss)

    @property
    def _columns(self) -> MessageColumns:
        headers = tuple(self.headers.items())
        binary = self.format == "binary"
        return MessageColumns(self.value_field, binary, self.key_field, headers, self.headers_field, self.metadata)

    @property
    def _start_offsets(self) -> StartOffsets:
        time = self.start_time if self.start_time is None or self.start_time.tzinfo else self.start_time.replace(tzinfo=UTC)
        offsets = {topic: {int(number): at for number, at in given.items()} for topic, given in self.start_offsets.items()}
        group = self.start_group or self.commit_group
        return StartOffsets(self.begin, time, offsets, group, self.settings(), self.isolation == "read_committed")

    def _check_topics(self) -> Iterator[Finding]:
        if bool(self.topics) == bool(self.pattern):
            what = "topics and pattern are both given" if self.topics else "neither topics nor a pattern is given"
            yield Finding("no-topics", what, ("pattern",) if self.topics else (), "give one of them")
        if self.pattern and self.create is not None:
            message = "create needs topic names, but pattern gives none"
            yield Finding("unused-option", message, ("create",), "list the topics under topics, or remove create")
        for number, name in enumerate(self.topics):
            if not LEGAL_TOPIC.fullmatch(name):
                yield Finding("bad-topic", f"{name!r} is not a legal topic name", ("topics", number))
            if name in self.topics[:number]:
                yield Finding("duplicate-topic", f"{name!r} is listed twice", ("topics", number))
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            yield Finding("bad-regex", f"the pattern cannot be compiled: {error}", ("pattern",), at=error.pos)

    def _check_start_topics(self) -> Iterator[Finding]:
        for name in self.start_offsets if self.topics else ():
            if name not in self.topics:
                message = f"{name!r} is not one of the topics to read"
                yield Finding(
                    "bad-partition",
                    message,
                    ("start_offsets", name),
                    nearest(name, self.topics) or f"topics: {', '.join(self.topics)}",
                )
