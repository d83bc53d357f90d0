"""Creates topics that a pipeline names and the cluster lacks: the option ``create``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from connectors.kafka.clients import Client, admin_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.topics import TopicVanishedError, describe_topics, list_topic_names

log = logging.getLogger("sluice.kafka")

PROPAGATION_SECONDS = 10.0
"""How long brokers may take until all of them know a new topic."""

_POLL_SECONDS = 0.1
"""Pause between two checks whether brokers know a new topic."""
_BROKERS_DEFAULT = -1
"""Value by which the request asks for the brokers' default."""


class TopicCreation(BaseModel):
    """Properties of a topic that is created."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partitions: int | None = Field(
        default=None, ge=1, le=100_000, description="Partitions of a new topic; none means the brokers' `num.partitions`."
    )
    replication: int | None = Field(
        default=None, ge=1, le=1000, description="Copies of each partition; none means `default.replication.factor`."
    )


def create_missing(settings: ClientSettings, names: Sequence[str], creation: TopicCreation) -> None:
    """Create those of the topics that the cluster lacks and wait until brokers know them; existing topics are not changed.

    Raises ComponentError if brokers refuse, and OSError if they do not answer.
    """
    client = admin_client(settings)
    existing = list_topic_names(client)
    missing = [name for name in names if name not in existing]
    for name in missing:
        _create(client, name, creation)
    _wait_until_known(client, missing)
    for name, topic in describe_topics(client, missing).items():
        log.warning("kafka %s: created topic %r with %d partitions", settings.servers, name, topic.partitions)


def _create(client: Client, name: str, creation: TopicCreation) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    requested = NewTopic(name, creation.partitions or _BROKERS_DEFAULT, creation.replication or _BROKERS_DEFAULT)

    def ask(seconds: float) -> None:
        try:
            client.raw.create_topics([requested], request_timeout=seconds, operation_timeout=seconds)[name].result()
        except KafkaException as raised:
            if raised.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another process was first, or an answer was lost
                raise

    client.call(ask)


def _wait_until_known(client: Client, names: Sequence[str]) -> None:
    until = time.monotonic() + PROPAGATION_SECONDS
    while len(describe_topics(client, names)) < len(names):
        if time.monotonic() > until:
            raise TopicVanishedError(
                f"kafka {client.settings.servers}: brokers do not know the new topics {', '.join(names)} yet"
            )
        time.sleep(_POLL_SECONDS)
