"""What a topic takes: how large a message may be, and whether it needs a key.

Asked before the first message, and each minute: so an event that the topic refuses is known by itself, the
same whenever it is written, and no batch of good ones fails with it.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, NamedTuple

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client, admin
from connectors.kafka.failures import kind_of
from connectors.kafka.topics import VanishedError, missing, names_of
from etl.api import ComponentError

USUAL_BYTES = 1_000_000
"""Largest message where the topic's configuration may not be read: librdkafka's own default, below that of brokers."""

OVERHEAD = 256
"""Bytes that a batch of one message may have around it, its headers' lengths aside."""


_FRESH_SECONDS = 60.0


class Limits(NamedTuple):
    """Of one topic."""

    max_bytes: int
    """Most bytes of value, key and headers."""
    needs_key: bool = False
    """True when it is compacted: a message without a key is refused."""
    exists: bool = True


def limits(settings: Settings, topic: str) -> Limits:
    """What the topic takes. An OSError is temporary."""
    return _limits(settings, topic, int(time.monotonic() / _FRESH_SECONDS))


@lru_cache(maxsize=4096)
def _limits(settings: Settings, topic: str, minute: int) -> Limits:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    client = admin(settings)
    own = int(dict(settings.properties).get("message.max.bytes", 1 << 30))

    def ask(seconds: float) -> Limits:
        wanted = ConfigResource(ResourceType.TOPIC, topic)
        try:
            found = client.the.describe_configs([wanted], request_timeout=seconds)[wanted].result()
        except KafkaException as raised:
            return _without_answer(client, topic, raised, own)
        return Limits(min(own, int(found["max.message.bytes"].value) - OVERHEAD), "compact" in found["cleanup.policy"].value)

    return client.asked(ask)


def fixed_topic(settings: Settings, topic: str) -> None:
    """Raises ComponentError when a topic does not exist and the cluster does not make it."""
    if not limits(settings, topic).exists:
        _limits.cache_clear()
        if topic in names_of(admin(settings)):
            raise VanishedError(f"kafka {settings.servers}: not all brokers know topic {topic!r} yet")
        raise ComponentError(missing(settings, topic))


def _without_answer(client: Client, topic: str, raised: Any, own: int) -> Limits:
    kind = kind_of(raised.args[0])
    if kind == "not-allowed":
        return Limits(min(own, USUAL_BYTES))
    if kind != "unknown-topic":
        raise raised
    return Limits(min(own, USUAL_BYTES), exists=_is_made(client, topic))


def _is_made(client: Client, topic: str) -> bool:
    """Whether the cluster makes the topic when it is asked for: it does where ``auto.create.topics.enable`` is on."""
    found = client.the.list_topics(topic, timeout=5).topics[topic]
    return found.error is None or found.error.name() == "LEADER_NOT_AVAILABLE"
