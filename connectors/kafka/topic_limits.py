"""Limits of a topic: the largest message, and whether a message needs a key.

They are fetched before the first message and then once a minute. So an event that the topic would refuse is rejected alone,
the same way on every attempt, and does not fail a batch of valid events.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, NamedTuple

from connectors.kafka.clients import Client, admin_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import error_kind
from connectors.kafka.topics import TopicVanishedError, list_topic_names, missing_topic_message
from etl.api import ComponentError

DEFAULT_MAX_BYTES = 1_000_000
"""Largest message if the topic's configuration cannot be read: librdkafka's default, which is below that of brokers."""

BATCH_OVERHEAD_BYTES = 256
"""Bytes that a batch of one message adds, not counting the lengths of headers."""


_CACHE_SECONDS = 60.0


class TopicLimits(NamedTuple):
    """Limits of one topic."""

    max_bytes: int
    """Maximum bytes of value, key and headers."""
    needs_key: bool = False
    """Whether the topic is compacted: brokers refuse a message without a key."""
    exists: bool = True


def fetch_topic_limits(settings: ClientSettings, topic: str) -> TopicLimits:
    """Return the limits of a topic, cached for a minute. An OSError is temporary."""
    return _cached_limits(settings, topic, int(time.monotonic() / _CACHE_SECONDS))


@lru_cache(maxsize=4096)
def _cached_limits(settings: ClientSettings, topic: str, minute: int) -> TopicLimits:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    client = admin_client(settings)
    client_max_bytes = int(dict(settings.properties).get("message.max.bytes", 1 << 30))

    def ask(seconds: float) -> TopicLimits:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            found = client.raw.describe_configs([resource], request_timeout=seconds)[resource].result()
        except KafkaException as raised:
            return _limits_without_config(client, topic, raised, client_max_bytes)
        return TopicLimits(
            min(client_max_bytes, int(found["max.message.bytes"].value) - BATCH_OVERHEAD_BYTES),
            "compact" in found["cleanup.policy"].value,
        )

    return client.call(ask)


def require_topic(settings: ClientSettings, topic: str) -> None:
    """Raise ComponentError if a topic does not exist and the cluster does not create topics."""
    if not fetch_topic_limits(settings, topic).exists:
        _cached_limits.cache_clear()
        if topic in list_topic_names(admin_client(settings)):
            raise TopicVanishedError(f"kafka {settings.servers}: not all brokers know topic {topic!r} yet")
        raise ComponentError(missing_topic_message(settings, topic))


def _limits_without_config(client: Client, topic: str, raised: Any, client_max_bytes: int) -> TopicLimits:
    kind = error_kind(raised.args[0])
    if kind == "not-allowed":
        return TopicLimits(min(client_max_bytes, DEFAULT_MAX_BYTES))
    if kind != "unknown-topic":
        raise raised
    return TopicLimits(min(client_max_bytes, DEFAULT_MAX_BYTES), exists=_is_auto_created(client, topic))


def _is_auto_created(client: Client, topic: str) -> bool:
    """Return whether the cluster creates the topic on request (``auto.create.topics.enable``)."""
    found = client.raw.list_topics(topic, timeout=5).topics[topic]
    return found.error is None or found.error.name() == "LEADER_NOT_AVAILABLE"
