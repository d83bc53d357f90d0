"""The `mqtt` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.mqtt.connection_options import BrokerOptions, check_topic
from connectors.mqtt.message_encoding import MessageEncoding
from connectors.mqtt.packets import (
    CONTENT_TYPE,
    EXPIRY,
    MAX_TEXT_BYTES,
    USER_PROPERTY,
    encode_property,
    encode_text,
)
from connectors.mqtt.probe import probe_broker
from connectors.mqtt.writer import MqttWriter
from connectors.shared.text_template import TextTemplate, check_fields, check_templates
from etl.api import Batching, Duration, FieldName, Finding, Guarantee, Schema, Sink, Task, visible

_MAX_EXPIRY_SECONDS = 0xFFFFFFFF


class MqttSink(BrokerOptions, Sink):
    """Publish events to topics of an MQTT broker (3.1.1 or 5.0), one message an event.

    The payload is the event as JSON, or with ``payload_field`` one field, text or bytes (null: an empty payload, which with
    ``retain`` removes what the broker retains). A field name in braces in ``topic`` is replaced by the field's value, whose
    ``/`` are levels.

    At least once with ``qos`` 1 and 2: an event counts as written when the broker has acknowledged it; events in flight when a
    process is killed or a connection is lost are published again. Exactly once is not possible, not with ``qos: 2`` either: that
    makes a message exactly once between this client and the broker, but not between a run and the next one. With ``qos: 0`` there
    is no guarantee: a split ends when the broker has read its messages, which says nothing of what the broker does with them.
    With MQTT 3.1.1 a broker acknowledges also messages that the user may not publish, and drops them.

    Events of a split keep their order, also in retries of a connection that is not lost. Up to as many messages are in flight as
    the broker accepts (MQTT 5: its receive maximum, 20 with Mosquitto's ``max_inflight_messages``; with 3.1.1 1000, and 20 with
    ``qos: 2``). Parallelism:
    splits, each with a connection, which a process keeps for its next split.

    Dead letters: ``null-topic``, ``bad-topic`` (with ``+``, ``#`` or NUL, or longer than 65,535 bytes), ``properties-too-long``
    (a user property beyond 65,535 bytes), ``event-too-large`` (beyond the broker's maximum packet size) and ``mqtt-rejected``
    (the broker refuses the message: not authorized, a bad topic). A topic without fields for which the user is not authorized, a
    refused login or a certificate with another name ends the run without loss. While no broker answers, the sink retries.

    ```yaml
    type: mqtt
    servers: ["localhost:1883"]
    topic: alerts/{host.name}
    qos: 1
    ```
    """

    type: Literal["mqtt"] = "mqtt"
    topic: str = Field(
        description="The topic to publish to; `{field}` is replaced.", min_length=1, examples=["alerts", "site/{site.id}/alerts"]
    )
    payload_field: FieldName | None = Field(
        default=None, description="Field whose text or bytes are the payload; without it the event as JSON.", examples=["message"]
    )
    qos: Literal[0, 1, 2] = Field(default=1, description="Quality of service of the messages.")
    retain: bool = Field(default=False, description="Whether the broker retains the last message of each topic.")
    expiry: Duration | None = Field(
        default=None,
        description="After this time the broker no longer delivers a message (MQTT 5).",
        ge=timedelta(seconds=1),
        le=timedelta(seconds=_MAX_EXPIRY_SECONDS),
        examples=["1h"],
    )
    content_type: str | None = Field(
        default=None, description="Content type of the payload (MQTT 5).", min_length=1, examples=["application/json"]
    )
    user_properties: dict[FieldName, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Fields that become user properties (MQTT 5): field → name; a null field gives none.",
        examples=[{"trace.id": "trace-id"}],
    )
    batch: Batching = Field(
        default=Batching(max_events=20_000, max_bytes=8 << 20), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def guaranteed(self) -> Guarantee:
        """Return none with QoS 0."""
        return "at least once" if self.qos else "none"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check addresses, the topic, and that fields exist."""
        yield from self.check_connection_options()
        known = visible(incoming)
        yield from check_templates({("topic",): self.topic}, known)
        yield from check_fields([(("payload_field",), self.payload_field)], known)
        yield from check_fields([(("user_properties", name), name) for name in self.user_properties], known)
        yield from self._check_topic()
        yield from self._check_properties()

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Connect and disconnect."""
        return probe_broker(self.settings())

    def writes(self) -> Iterable[str]:
        """Return the topic at each broker; a field stands for its values."""
        topic = "".join(self._template.pieces)
        return [f"mqtt://{server}/{topic}" for server in self.servers]

    def open(self, task: Task) -> MqttWriter:
        """Return a writer, which connects with the first batch."""
        return MqttWriter(self.settings(), self._encoding())

    @property
    def _template(self) -> TextTemplate:
        return TextTemplate.parse(self.topic)

    def _encoding(self) -> MessageEncoding:
        common = b""
        if self.content_type is not None:
            common += encode_property(CONTENT_TYPE, self.content_type)
        if self.expiry is not None:
            common += encode_property(EXPIRY, int(self.expiry.total_seconds()))
        heads = tuple((field, bytes([USER_PROPERTY]) + encode_text(name)) for field, name in self.user_properties.items())
        return MessageEncoding(self._template, self.payload_field, self.qos, self.retain, self.version == "5", common, heads)

    def _check_topic(self) -> Iterator[Finding]:
        literal = "".join(self._template.pieces[::2])
        problem = check_topic(literal or "x")
        if not problem and set("+#") & set(literal):
            problem = "has a + or a #, which only filters of subscriptions may have"
        if problem:
            yield Finding("bad-topic", f"the topic {self.topic!r} {problem}", ("topic",))

    def _check_properties(self) -> Iterator[Finding]:
        if self.version == "3.1.1":
            for name in ("expiry", "content_type", "user_properties"):
                if getattr(self, name):
                    message = f"{name} is of MQTT 5, and messages of 3.1.1 do not have it"
                    yield Finding("unused-option", message, (name,), "write version: '5'")
        texts = [(("content_type",), self.content_type or "")]
        for path, text in [*texts, *((("user_properties", field), name) for field, name in self.user_properties.items())]:
            if len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES or "\0" in text:
                yield Finding("too-long", f"a text of MQTT has at most {MAX_TEXT_BYTES:,} bytes, and no NUL character", path)
