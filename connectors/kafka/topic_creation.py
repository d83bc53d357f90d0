"""Creating topics that a pipeline names and its cluster does not have: the option ``create``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client, admin
from connectors.kafka.topics import VanishedError, described, names_of

log = logging.getLogger("sluice.kafka")

PROPAGATION_SECONDS = 10.0
"""How long all brokers may take to know a new topic."""

_POLL_SECONDS = 0.1
_BROKERS_DEFAULT = -1


class TopicCreation(BaseModel):
    """What a missing topic is created with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partitions: int | None = Field(
        default=None, ge=1, le=100_000, description="Partitions of a new topic; none means the brokers' `num.partitions`."
    )
    replication: int | None = Field(
        default=None, ge=1, le=1000, description="Copies of each partition; none means `default.replication.factor`."
    )


def create_missing(settings: Settings, names: Sequence[str], creation: TopicCreation) -> None:
    """Create those of the topics that the cluster does not have, and wait until brokers know them; others stay as they are.

    Raises ComponentError where brokers refuse, an OSError where they do not answer."""
    client = admin(settings)
    there = names_of(client)
    missing = [name for name in names if name not in there]
    for name in missing:
        _create(client, name, creation)
    _wait(client, missing)
    for name, topic in described(client, missing).items():
        log.warning("kafka %s: created topic %r with %d partitions", settings.servers, name, topic.partitions)


def _create(client: Client, name: str, creation: TopicCreation) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    wanted = NewTopic(name, creation.partitions or _BROKERS_DEFAULT, creation.replication or _BROKERS_DEFAULT)

    def ask(seconds: float) -> None:
        try:
            client.the.create_topics([wanted], request_timeout=seconds, operation_timeout=seconds)[name].result()
        except KafkaException as raised:
            if raised.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another process was first, or an answer was lost
                raise

    client.asked(ask)


def _wait(client: Client, names: Sequence[str]) -> None:
    until = time.monotonic() + PROPAGATION_SECONDS
    while len(described(client, names)) < len(names):
        if time.monotonic() > until:
            raise VanishedError(f"kafka {client.settings.servers}: brokers do not know the new topics {', '.join(names)} yet")
        time.sleep(_POLL_SECONDS)
