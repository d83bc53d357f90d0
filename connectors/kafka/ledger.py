"""Ledger of exactly-once writes: an entry for each split, committed in the transaction that wrote the split's events.

Kafka has no table to hold a ledger, but a transaction may commit offsets of a consumer group together with messages (KIP-98),
and the group needs no member. So each entry is a consumer group whose name is a hash of checkpoint, sink, micro-batch and
split. Its single offset is the number of messages.

Unused groups must be removed: one is created for each split and micro-batch. The driver deletes those of the micro-batch
*before* the one that it commits, because that one may have to be written again until Spark's log records it. Groups that
remain after a state folder is deleted, or because deletion is not allowed, expire with ``offsets.retention.minutes`` (seven
days by default). A pipeline killed within a micro-batch may stay down for as long; later, it writes the finished part of that
micro-batch twice. A new state folder is a new checkpoint and has other entries.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from connectors.kafka.clients import admin_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.consumer_groups import fetch_committed
from etl.api import Task

if TYPE_CHECKING:
    from confluent_kafka import Producer

NAME_PREFIX = "sluice"
"""Prefix of the names of groups and transactions, so that rights can be granted by prefix."""


@dataclass(frozen=True)
class LedgerEntry:
    """Entry of one split in one sink."""

    group: str

    @classmethod
    def for_task(cls, task: Task) -> LedgerEntry:
        """Return the entry of a task: its name depends on the checkpoint and on what the task reads."""
        key = json.dumps([task.batch.query, task.sink, task.batch.number, task.split])
        return cls(f"{NAME_PREFIX}.{task.pipeline}.{task.sink}.ledger.{hashlib.sha256(key.encode()).hexdigest()[:32]}")

    def fetch_message_count(self, settings: ClientSettings, topic: str) -> int | None:
        """Return how many messages the split has written; None if it has not been written. Waits for an open transaction to
        end.
        """
        return fetch_committed(settings, self.group, [(topic, 0)]).get((topic, 0))

    def add_to_transaction(self, producer: Producer, topic: str, messages: int, seconds: float) -> None:
        """Add the entry to the producer's transaction. The topic only has to exist: it is the topic of the split's first
        message.
        """
        from confluent_kafka import TopicPartition

        producer.send_offsets_to_transaction([TopicPartition(topic, 0, messages)], _group_metadata(self.group), seconds)


@lru_cache(maxsize=1)
def _group_metadata(group: str) -> object:
    """Return the metadata of a group without members, as the client requires it. Takes 0.6 ms and opens no connection."""
    from confluent_kafka import Consumer

    consumer = Consumer({"group.id": group, "log_level": 0})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def delete_entries(settings: ClientSettings, groups: Sequence[str]) -> None:
    """Request the deletion of entries without waiting for the answer: groups that remain expire."""
    admin_client(settings).raw.delete_consumer_groups(list(groups), request_timeout=settings.timeout_seconds)
