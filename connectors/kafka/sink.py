"""The `kafka` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.kafka.connection_options import ClusterOptions
from connectors.kafka.ledger import delete_entries
from connectors.kafka.message_encoding import MessageEncoding
from connectors.kafka.probe import probe_topics
from connectors.kafka.topic_creation import TopicCreation, create_missing
from connectors.kafka.topic_template import TopicTemplate
from connectors.kafka.transaction_writer import TransactionWriter
from connectors.kafka.writer import KafkaWriter
from connectors.shared.ledger_cleaner import LedgerCleaner
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
    change_key,
    format_type,
    key_findings,
    unknown_field,
    visible,
)

_MEMORY = Batching(max_events=10_000, max_bytes=8 << 20, timeout=timedelta(seconds=1))


class KafkaSink(ClusterOptions, Sink):
    """Write events to Kafka topics, one message an event.

    The value is the event as JSON, as the file sink writes it, or with ``value_field`` one field unchanged: text, bytes, or
    null (a tombstone). The key is the text of a field, or several joined by ``|`` (null: no key). A field name in braces in
    ``topic`` is replaced by the field's value: ``logs-{service.name}``.

    At least once by default: a write returns when all in-sync replicas have it; events that were written but not yet
    committed by the pipeline are written again after a crash. With ``delivery: exactly_once`` the events of a split are one
    transaction that also contains a ledger entry: a split that is written is never written again, whichever process is
    killed. Consumers must read with ``read_committed``, and see events when their split is complete. Ledger entries are
    consumer groups; their names and the transactional ids begin with ``sluice.<pipeline>.<sink>``: with ACLs the user needs
    Write and Describe on transactional ids of that prefix, Read, Describe and Delete on groups of it. Entries expire with
    ``offsets.retention.minutes``: a pipeline that was killed within a micro-batch and stays down for longer repeats the
    events of that micro-batch. Brokers abort a transaction that does not end within two minutes (``properties:
    {transaction.timeout.ms: …}``): raise that if another sink of the pipeline may delay a split for longer.

    Events of a split that go to one partition keep their order, as do those of one source partition with the same key;
    a retried event may follow later ones of its batch. The unit of parallelism is the split.

    Dead letters: ``event-too-large`` beyond the topic's ``max.message.bytes`` (value, key and headers, before
    compression; 1 MB if it cannot be read), ``null-key`` for a compacted topic, ``bad-topic`` and
    ``unknown-topic`` for a topic name from an event, ``refused`` for messages that brokers reject. A fixed topic that
    does not exist, a wrong password or a wrong certificate ends the run; while brokers are down, the sink retries.

    Results that change, such as those of ``top`` with ``changelog: true``, need as ``key`` the fields by which they replace each
    other: a message has the row of its key, and no value (a tombstone) if the row is removed, as with Flink's `upsert-kafka`.
    With ``changes: debezium`` each change is a message, ``{"before": null, "after": {…}, "op": "c"}`` or
    ``{"before": {…}, "after": null, "op": "d"}``, as Flink's format `debezium-json` writes it; fields of the key in ``key`` keep
    the changes of a row in one partition, and so in order.

    Tested against Kafka 4.3, open, with SCRAM (with and without TLS) and with client certificates: brokers down at the
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
        description="Create the topic if it does not exist; without it the cluster creates it, or a missing topic is an error.",
        examples=[{"partitions": 8, "replication": 1}],
    )
    key: tuple[FieldName, ...] = Field(
        default=(), description="Fields that form the key; events with one key share a partition.", examples=[["source.ip"]]
    )
    key_format: Literal["text", "json"] = Field(
        default="text", description="Whether the key is the text of its fields, joined by `|`, or a JSON object of them."
    )
    key_prefix: str = Field(
        default="",
        description="Beginning of names of key fields that is left out in a key in JSON.",
        examples=["key_"],
    )
    key_in_value: bool = Field(default=True, description="Whether the value as JSON has the fields of the key, too.")
    value_field: FieldName | None = Field(
        default=None, description="Field whose text or bytes are the value; without it the event as JSON.", examples=["message"]
    )
    changes: Literal["key", "debezium"] = Field(
        default="key",
        description="How results that change are written: the last row of each key, and no value if it is removed, or each "
        "change as a message of Debezium. Also how events that are only added are, with debezium.",
    )
    headers: dict[FieldName, str] = Field(
        default={},
        description="Fields that become a header each; a null field gives no header.",
        examples=[{"trace.id": "trace-id"}],
    )
    time_field: FieldName | None = Field(
        default=None, description="Field that becomes the message's timestamp; without it the time of sending."
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
        """Check for unknown fields, fields of a wrong type, and illegal topic names."""
        visible_fields = visible(incoming)
        yield from self.check_connection_options()
        yield from self._template.check(visible_fields)
        if self.create is not None and not self._template.is_fixed:
            message = f"create needs a fixed topic name, but {self.topic!r} takes it from events"
            yield Finding("unused-option", message, ("create",), "remove create, and let brokers create topics")
        named: list[tuple[str, tuple[str | int, ...]]] = [(name, ("key", at)) for at, name in enumerate(self.key)]
        named += [(name, ("headers", name)) for name in self.headers]
        single = {"value_field": self.value_field, "time_field": self.time_field}
        named += [(name, (option,)) for option, name in single.items() if name]
        yield from _check_fields_exist(named, visible_fields)
        yield from self._check_types(visible_fields)
        yield from self._check_key_options(visible_fields)

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """Changes are messages by the key of the changelog, or Debezium's with any key."""
        if self.changes == "key":
            yield from key_findings(incoming, self.key)
            return
        own = change_key(incoming)
        if own is None or not self.key or not set(self.key) <= set(own):
            message = "changes of one row may be in several partitions, whose messages have no common order"
            hint = f"write key: [{', '.join(own)}]" if own else "write to a topic with one partition"
            yield Finding("changing-results", message, ("key",), hint, severity="warning")

    def guaranteed(self) -> Guarantee:
        """Return the guarantee that `delivery` chooses."""
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def writes(self) -> Iterable[str]:
        """Return the topic at each server, if it does not depend on events."""
        return [f"kafka://{server}/{self.topic}" for server in self.servers if self._template.is_fixed]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the cluster answers and has the topic."""
        names = [self.topic] if self._template.is_fixed else []
        return probe_topics(self.settings(), names, "topic", creates=self.create is not None)

    def prepare(self, incoming: Schema) -> None:
        """Create the topic if it is missing and the option ``create`` is set."""
        if self.create is not None and self._template.is_fixed:
            create_missing(self.settings(), [self.topic], self.create)

    def open(self, task: Task) -> Writer:
        """Return a writer, which connects when it first has something to write."""
        conf = (("compression.type", self.compression), ("partitioner", self.partitioner))
        if self.delivery == "exactly_once":
            return TransactionWriter(self._encoding, self.settings(), conf, task)
        return KafkaWriter(self._encoding, self.settings(), conf)

    def committer(self, folder: str) -> Committer | None:
        """Return the committer that deletes ledger entries."""
        return LedgerCleaner(partial(delete_entries, self.settings()), folder) if self.delivery == "exactly_once" else None

    @property
    def _template(self) -> TopicTemplate:
        return TopicTemplate(self.topic)

    @property
    def _encoding(self) -> MessageEncoding:
        return MessageEncoding(
            self._template,
            self.value_field,
            self.key,
            tuple(self.headers.items()),
            self.time_field,
            self.key_format,
            self.key_prefix,
            self.key_in_value,
            self.changes == "debezium",
        )

    def _check_key_options(self, visible_fields: Schema) -> Iterator[Finding]:
        """Find options of keys and values that have no effect, or leave nothing of the value."""
        if self.key_prefix and self.key_format == "text":
            yield Finding("unused-option", "a key of text has no names of fields", ("key_prefix",), "add key_format: json")
        elif self.key_prefix and not any(name.startswith(self.key_prefix) for name in self.key):
            yield Finding("unused-option", f"no field of the key begins with {self.key_prefix!r}", ("key_prefix",))
        for option, is_set in (("key_format", self.key_format == "json"), ("key_in_value", not self.key_in_value)):
            if is_set and not self.key:
                yield Finding("unused-option", "there are no fields of the key", (option,), "add key: [field]")
        names = [name.removeprefix(self.key_prefix) for name in self.key] if self.key_format == "json" else []
        for at, name in enumerate(names):
            if not name:
                yield Finding("invalid-value", f"without its prefix the field {self.key[at]!r} has no name", ("key", at))
            elif any(f"{name}.".startswith(f"{one}.") or one.startswith(f"{name}.") for one in names[:at]):
                message = f"in the key the field {self.key[at]!r} has the name of another one"
                yield Finding("invalid-value", message, ("key", at), "leave one of them, or key_prefix, out")
        if self.value_field is not None:
            for name, is_set in (("changes", self.changes == "debezium"), ("key_in_value", not self.key_in_value)):
                if is_set:
                    yield Finding("unused-option", "the value is that of one field", (name,), "leave value_field out")
        elif not self.key_in_value and not set(visible_fields.names) - set(self.key):
            yield Finding("unused-option", "all fields are in the key: nothing is left for the value", ("key_in_value",))

    def _check_types(self, visible_fields: Schema) -> Iterator[Finding]:
        time, value = self.time_field, self.value_field
        if time in visible_fields.names and not (
            pa.types.is_timestamp(visible_fields.field(time).type) or pa.types.is_null(visible_fields.field(time).type)
        ):
            type_ = format_type(visible_fields.field(time).type)
            yield Finding("wrong-type", f"field {time!r} is {type_}, a timestamp is needed", ("time_field",))
        if value in visible_fields.names and pa.types.is_nested(visible_fields.field(value).type):
            message = f"field {value!r} is {format_type(visible_fields.field(value).type)}, and is sent as JSON"
            yield Finding("wrong-type", message, ("value_field",), severity="warning")


def _check_fields_exist(named: Iterable[tuple[str, tuple[str | int, ...]]], visible_fields: Schema) -> Iterator[Finding]:
    for name, at in named:
        if name not in visible_fields.names:
            yield unknown_field(name, visible_fields, at)
