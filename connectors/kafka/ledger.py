"""What was written exactly once: an entry for each split that wrote, committed by the transaction that wrote it.

Kafka has no table to keep a ledger in, but a transaction may commit offsets of a consumer group together with messages
(KIP-98), and a group needs no member for it. So an entry is a group of its own, whose name is a hash of the ledger key:
checkpoint, sink, micro-batch, and the split's name, which says what was read. Its one offset counts the messages.

Groups pile up if nobody removes them: one for each split and micro-batch. The driver deletes those of the micro-batch
*before* the one that it commits, for that one may have to be written again until Spark's own log holds it. What is left
when a state folder is deleted, or when the deletion is not allowed, expires with ``offsets.retention.minutes`` (seven days
by default). That is also how long a pipeline that was killed within a micro-batch may stay down: after it, what that
micro-batch had written already is written twice. A new state folder is a new checkpoint, whose entries are others.
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

from connectors.kafka.access import Settings
from connectors.kafka.clients import admin
from connectors.kafka.groups import committed
from etl.api import BatchId, Staged, Task, replace_file

if TYPE_CHECKING:
    from confluent_kafka import Producer

log = logging.getLogger("sluice.kafka")

PREFIX = "sluice"
"""What the names of groups and transactions begin with, for rights that go by prefix."""


@dataclass(frozen=True)
class Entry:
    """Of one split, in one sink."""

    group: str

    @classmethod
    def of(cls, task: Task) -> Entry:
        """By what was read, and by which checkpoint."""
        key = json.dumps([task.batch.query, task.sink, task.batch.number, task.split])
        return cls(f"{PREFIX}.{task.pipeline}.{task.sink}.ledger.{hashlib.sha256(key.encode()).hexdigest()[:32]}")

    def written(self, settings: Settings, topic: str) -> int | None:
        """How many messages the split has written; None when it has not. Waits for a transaction that is being decided."""
        return committed(settings, self.group, [(topic, 0)]).get((topic, 0))

    def put(self, producer: Producer, topic: str, messages: int, seconds: float) -> None:
        """Make it part of the transaction. The topic only has to exist: it is that of the split's first message."""
        from confluent_kafka import TopicPartition

        producer.send_offsets_to_transaction([TopicPartition(topic, 0, messages)], _membership(self.group), seconds)


@lru_cache(maxsize=1)
def _membership(group: str) -> object:
    """What the client wants to know of a group: that it has no members. It connects to nobody for it, in 0.6 ms."""
    from confluent_kafka import Consumer

    consumer = Consumer({"group.id": group, "log_level": 0})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


@dataclass
class Ledgers:
    """The committer: deletes entries that are never asked for again. ``folder`` keeps which wait for it."""

    settings: Settings
    folder: str
    _waiting: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with suppress(FileNotFoundError, ValueError, TypeError, AttributeError):  # damaged: entries stay in the topic, no more
            self._waiting = {query: (number, names) for query, (number, names) in json.loads(self._path.read_text()).items()}

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Remember this micro-batch's entries, and delete those of the one before."""
        number, groups = self._waiting.get(batch.query, (batch.number, []))
        mine = [one.detail for one in staged]
        if batch.number > number:
            self._delete(groups)
        elif groups:
            mine = list(dict.fromkeys([*groups, *mine]))
        if mine or groups:
            self._waiting[batch.query] = (batch.number, mine)
            self._save()

    def tick(self) -> None:
        """Nothing is due."""

    def close(self) -> None:
        """The last entries stay: the last micro-batch may be written again."""

    def _delete(self, groups: list[str]) -> None:
        """Without waiting for the answer: what stays expires."""
        if groups:
            admin(self.settings).the.delete_consumer_groups(groups, request_timeout=self.settings.seconds)

    def _save(self) -> None:
        replace_file(self._path, json.dumps(self._waiting).encode(), sync_folder=False)

    @property
    def _path(self) -> Path:
        return Path(self.folder) / "ledger.json"
