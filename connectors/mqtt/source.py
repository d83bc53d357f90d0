"""The `mqtt` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.mqtt.connection_options import BrokerOptions, check_filter
from connectors.mqtt.packets import MAX_TEXT_BYTES
from connectors.shared.journal.batches import read_blocks
from connectors.shared.journal.options import AcknowledgedJournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.source import JournalSource
from etl.api import Duration, Finding, Rejects, Schema, Size

if TYPE_CHECKING:
    from connectors.mqtt.receiver import MqttReceiver

_MAX_EXPIRY_SECONDS = 0xFFFFFFFF


class MqttSource(BrokerOptions, JournalSource):
    """Subscribe to topics of an MQTT broker (3.1.1 or 5.0), one event a message.

    ``message`` is the payload: as text (bytes that are not UTF-8 become U+FFFD), or as bytes with ``format: binary``.
    ``mqtt.topic``, ``mqtt.qos`` and ``mqtt.retain`` are the message's; with MQTT 5 also ``mqtt.content_type``,
    ``mqtt.response_topic``, ``mqtt.correlation_data`` (hexadecimal) and ``mqtt.user_properties`` (a JSON object; a name that
    occurs several times has a list). ``log.source.address`` and ``log.source.port`` are the broker, ``event.created`` is the
    time of arrival.

    A message is acknowledged to the broker when it is in a journal on disk (``journal.fsync``), after one sync for all that
    wait; from the journal on, events are delivered exactly once. What that means by ``qos``, which is the most that the
    subscription asks for (a message has the QoS of its publisher if that is less):

    | qos | lost | twice |
    |---|---|---|
    | 0 | messages on their way when the connection or the process ends, and all while the pipeline is down | never |
    | 1 | nothing that the broker has accepted | messages whose acknowledgement was lost: the broker sends them again |
    | 2 | nothing that the broker has accepted | never: packet identifiers are in the journal and in a file beside it |

    The broker keeps the subscriptions and messages of the session while the pipeline is down (``session_expiry``), as far as its
    own limits allow: Mosquitto drops messages beyond ``max_queued_messages`` (1000 of a session), and those that it has only in
    memory when it is killed. The session belongs to ``client_id``; without it the state folder has a client identifier of its
    own, so that another state folder begins a new session. While the journal or the disk is full, nothing is acknowledged and
    the broker waits; with QoS 0 brokers drop messages then.

    Several pipelines share the messages of ``$share/group/filter``, each of them gets a part. Filters may have the wildcards
    ``+`` (a level) and ``#`` (all further levels). A topic that is removed from ``topics`` is unsubscribed. Retained messages
    are read when a subscription begins (with MQTT 3.1.1 at each start and reconnection).

    A message longer than ``max_message_bytes`` is a dead letter (``message-too-long``, with its first 64 KiB). A refused login or
    subscription ends the run when it starts; later, and while no broker answers, the source retries with growing pauses. Order:
    as the broker sends. Parallelism: parts of the journal; one connection reads. The client is ours: the clients of Python send
    PUBREC before the application has the message, so that a killed process loses messages of QoS 2.

    ```yaml
    type: mqtt
    servers: ["localhost:1883"]
    topics: ["site/+/sensors/#"]
    qos: 2
    ```
    """

    type: Literal["mqtt"] = "mqtt"
    topics: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        description="Filters of topics; `+` is any level, `#` all further ones, `$share/group/…` shares messages with others.",
        min_length=1,
        examples=[["site/+/sensors/#"], ["$share/sluice/logs/#"]],
    )
    qos: Literal[0, 1, 2] = Field(default=1, description="Highest quality of service with which the broker sends messages.")
    format: Literal["text", "binary"] = Field(default="text", description="Whether `message` is text or bytes.")
    client_id: str | None = Field(
        default=None,
        description="Client identifier, by which the broker knows the session; without it one that the state folder has.",
        min_length=1,
        examples=["sluice-plant-7"],
    )
    clean_start: bool = Field(
        default=False,
        description="Begin each run with a new session: what was published since the last run is not read.",
    )
    session_expiry: Duration = Field(
        default=timedelta(days=7),
        description="How long the broker keeps the session while the pipeline is down (MQTT 5; with 3.1.1 the broker decides).",
        ge=timedelta(0),
        le=timedelta(seconds=_MAX_EXPIRY_SECONDS),
        examples=["12h"],
    )
    retained: bool = Field(default=True, description="Whether messages that the broker retains are read.")
    receive_maximum: int = Field(
        default=65_535,
        description="How many messages with QoS 1 and 2 may be in flight before they are acknowledged (MQTT 5; with 3.1.1 the "
        "broker decides).",
        ge=1,
        le=65_535,
    )
    max_message_bytes: Size = Field(
        default=1 << 20, description="A longer message is a dead letter.", ge=1, le=64 << 20, examples=["256KiB"]
    )
    journal: AcknowledgedJournalOptions = Field(
        default=AcknowledgedJournalOptions(), description="How events are stored until they are delivered."
    )

    def check(self) -> Iterable[Finding]:
        """Check addresses, credentials and filters of topics."""
        yield from self.check_connection_options()
        for number, topic in enumerate(self.topics):
            if problem := check_filter(topic):
                yield Finding("bad-topic", f"the filter {topic!r} {problem}", ("topics", number))
            elif topic in self.topics[:number]:
                yield Finding("duplicate-topic", f"the filter {topic!r} is given twice", ("topics", number), "remove one of them")
        if self.client_id is not None and len(self.client_id.encode()) > MAX_TEXT_BYTES:
            yield Finding("too-long", f"client_id has more than {MAX_TEXT_BYTES:,} bytes, the limit of MQTT", ("client_id",))
        if self.version == "3.1.1":
            for name in ("session_expiry", "receive_maximum"):
                if name in self.model_fields_set:
                    message = f"{name} is of MQTT 5: with 3.1.1 the broker decides"
                    yield Finding("unused-option", message, (name,), "write version: '5'", severity="warning")

    def exclusive(self) -> Iterable[str]:
        """Return the client at each broker: a second connection with its identifier ends the first one."""
        return [f"the session {self.client_id!r} at mqtt://{server}" for server in self.servers] if self.client_id else []

    def probe(self) -> Iterable[Finding]:
        """Connect with another client identifier, and disconnect."""
        from connectors.mqtt.probe import probe_broker

        return probe_broker(self.settings())

    def reads(self, target: str) -> bool:
        """Return whether a filter includes the topic of a sink at one of the brokers."""
        return any(
            target.startswith(f"mqtt://{server}/") and includes(topic, target.removeprefix(f"mqtt://{server}/"))
            for server in self.servers
            for topic in self.topics
        )

    def receiver(self) -> MqttReceiver:
        """Return the receiver, not yet started."""
        from connectors.mqtt.receiver import MqttReceiver, ReceiverOptions

        options = ReceiverOptions(
            self.settings(),
            self.client_id,
            self.topics,
            self.qos,
            self.clean_start,
            int(self.session_expiry.total_seconds()),
            self.receive_maximum,
            self.max_message_bytes,
            self.retained,
            self.journal,
        )
        return MqttReceiver(options, self._folder)

    def fields(self) -> Schema:
        """Return the payload, what came with it, the broker, and the time of arrival."""
        from connectors.mqtt.publishes import fields_of

        return fields_of(self._message_type)

    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        from connectors.mqtt.publishes import REASONS, publish_batches

        make = publish_batches(self.format == "binary")
        return read_blocks(journal, record, start, end, self.fields(), make, REASONS)

    @property
    def _message_type(self) -> pa.DataType:
        return pa.binary() if self.format == "binary" else pa.string()


def includes(filter_: str, topic: str) -> bool:
    """Return whether a filter, which may be that of a shared subscription, includes a topic (MQTT 5.0, section 4.7)."""
    if filter_.startswith("$share/"):
        filter_ = filter_.split("/", 2)[2]
    if topic.startswith("$") and filter_[:1] in ("+", "#"):
        return False
    levels, filter_levels = topic.split("/"), filter_.split("/")
    for at, level in enumerate(filter_levels):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels) == len(filter_levels)
