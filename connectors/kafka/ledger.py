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
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.kafka.clients import admin_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.consumer_groups import fetch_committed
from etl.api import BatchId, Staged, Task, replace_file

if TYPE_CHECKING:
    from confluent_kafka import Producer

log = logging.getLogger("sluice.kafka")

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


@dataclass
class LedgerCleaner:
    """Committer that deletes entries no longer needed. ``folder`` stores which entries are to be deleted."""

    settings: ClientSettings
    folder: str
    _pending: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with suppress(
            FileNotFoundError, ValueError, TypeError, AttributeError
        ):  # a damaged file only means that some entries expire instead of being deleted
            self._pending = {query: (number, names) for query, (number, names) in json.loads(self._path.read_text()).items()}

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Store the entries of this micro-batch, and delete those of the one before."""
        number, groups = self._pending.get(batch.query, (batch.number, []))
        mine = [one.detail for one in staged]
        if batch.number > number:
            self._delete(groups)
        elif groups:
            mine = list(dict.fromkeys([*groups, *mine]))
        if mine or groups:
            self._pending[batch.query] = (batch.number, mine)
            self._save()

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Leave the last entries: the last micro-batch may be written again."""

    def _delete(self, groups: list[str]) -> None:
        """Request the deletion without waiting for the answer: groups that remain expire."""
        if groups:
            admin_client(self.settings).raw.delete_consumer_groups(groups, request_timeout=self.settings.timeout_seconds)

    def _save(self) -> None:
        replace_file(self._path, json.dumps(self._pending).encode(), sync_folder=False)

    @property
    def _path(self) -> Path:
        return Path(self.folder) / "ledger.json"
