"""The messages of an offset range, in batches, by a consumer that belongs to no group.

Offsets have gaps (compaction, marks of transactions), so the range ends where a message or the end of the partition
says that nothing before its end is left to come. Memory: what librdkafka holds ready (`READY_KIB` for a partition), and
one batch, which is asked for by the size of the messages before it: about `BATCH_BYTES`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from connectors.kafka import topics
from connectors.kafka.access import Settings
from connectors.kafka.clients import Client, made
from connectors.kafka.failures import kind_of, told
from connectors.kafka.reach import OnLoss
from connectors.kafka.topics import Partition
from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import Message

MOST_MESSAGES = 20_000
"""Messages of a batch."""

BATCH_BYTES = 4 << 20
"""Bytes of a batch, about."""

FIRST_MESSAGES = 2_000
"""Messages of the first batch, whose size is not known."""

READY_KIB = 32 << 10
READY_MESSAGES = 40_000
"""What a consumer fetches ahead."""

WAIT_SECONDS = 0.1
"""How long a batch may take to fill."""

_PASSING = ("cannot-connect", "unknown-topic")
"""Errors that are waited for; a broker that has just started knows no topic."""

log = logging.getLogger("sluice.kafka")


class LostError(Exception):
    """Messages of a range are no longer there; the next that is there, None when there is none."""

    def __init__(self, text: str, next_: int | None) -> None:
        super().__init__(text)
        self.next = next_


@dataclass
class Range:
    """From an offset on, up to another, of one partition."""

    partition: Partition
    at: int
    end: int
    is_committed: bool
    settings: Settings
    on_loss: OnLoss
    losses: list[LostError] = field(default_factory=list)
    """What was lost and passed over."""

    def messages(self) -> Iterator[list[Message]]:
        """Its messages, in order. An OSError is temporary."""
        with _consumer(self.settings, self.is_committed) as client:
            while self.at < self.end:
                try:
                    yield from self._read(client)
                except LostError as lost:
                    self._pass_over(lost)

    def _read(self, client: Client) -> Iterator[list[Message]]:
        from confluent_kafka import TopicPartition

        client.the.assign([TopicPartition(*self.partition, self.at)])
        most, heard = FIRST_MESSAGES, time.monotonic()
        while self.at < self.end:
            found = client.the.consume(min(most, self.end - self.at), WAIT_SECONDS)
            messages = self._sound(client, found)
            if messages:
                self.at, heard = max(self.at, _offset(messages[-1]) + 1), time.monotonic()
                most = _next_size(messages)
                yield messages if self.at <= self.end else [one for one in messages if _offset(one) < self.end]
            elif time.monotonic() - heard > self.settings.seconds:
                self._explain(client)
            elif not found and client.heard.is_hopeless() and (worst := client.heard.worst()):
                raise client.failure(worst)

    def _sound(self, client: Client, found: list[Message]) -> list[Message]:
        """The messages among what came, and what the others say."""
        errors = [one for one in found if one.error() is not None]
        if not errors:
            return found
        for one in errors:
            error = one.error()
            assert error is not None
            if error.name() == "_PARTITION_EOF":
                self.at = max(self.at, min(one.offset() or 0, self.end))
            elif error.name() == "_AUTO_OFFSET_RESET":
                self._find_loss(told(self.settings.servers, error))
            elif kind_of(error) not in _PASSING:
                raise client.failure(error)
        return [one for one in found if one.error() is None]

    def _find_loss(self, said: str) -> None:
        """Raise LostError when messages are gone."""
        try:
            first = topics.begins(self.settings, [self.partition])[self.partition]
            last = topics.ends(self.settings, [self.partition], self.is_committed)[self.partition]
        except topics.VanishedError:
            raise LostError(said, None) from None
        if first > self.at:
            raise LostError(said, first if first < self.end else None)
        if last < self.end:
            raise LostError(f"{said}; the partition ends at {last:,}", None)

    def _explain(self, client: Client) -> None:
        name = "/".join(map(str, self.partition))
        self._find_loss(f"{name} ends before {self.end:,}")
        cause = client.heard.worst()
        why = told(self.settings.servers, cause) if cause else f"kafka {self.settings.servers}: no answer"
        raise TimeoutError(f"{why}: {name} gave nothing from {self.at:,} on for {self.settings.seconds:.0f} s")

    def _pass_over(self, lost: LostError) -> None:
        next_ = self.end if lost.next is None else lost.next
        name = "/".join(map(str, self.partition))
        text = f"messages {self.at:,} to {next_ - 1:,} of {name} are gone: {lost}"
        if self.on_loss == "fail":
            raise ComponentError(f"{text}; on_data_loss: earliest goes on with the first message there is")
        log.warning("%s", text)
        self.losses.append(lost)
        self.at = next_


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _next_size(messages: list[Message]) -> int:
    """How many messages the next batch is to have: by the size of some of these."""
    some = messages[:: 1 + len(messages) // 64]
    mean = sum(len(one.value() or b"") + len(one.key() or b"") for one in some) // len(some)
    return min(MOST_MESSAGES, BATCH_BYTES // max(mean, 1) + 1)


@contextmanager
def _consumer(settings: Settings, is_committed: bool) -> Iterator[Client]:
    """One that nobody uses; one that failed is not used again."""
    idle = _idle(settings, is_committed)
    client = idle.pop() if idle else _made(settings, is_committed)
    try:
        yield client
    except (OSError, ComponentError):
        client.the.close()
        raise
    except BaseException:
        client.the.unassign()
        raise
    client.the.unassign()
    client.heard.forget()
    idle.append(client)


@cache
def _idle(settings: Settings, is_committed: bool) -> list[Client]:
    """The consumers of this process."""
    return []


def _made(settings: Settings, is_committed: bool) -> Client:
    conf = {
        "isolation_level": "read_committed" if is_committed else "read_uncommitted",
        "fetch_queue_backoff_ms": 2,  # a second by default, each time that enough is ready
        "fetch_wait_max_ms": 20,  # there is something to read, or the end to be told of
        "queued_min_messages": READY_MESSAGES,
        "queued_max_messages_kbytes": READY_KIB,
    }
    ours = {"group_id": "sluice", "enable_auto_commit": "false", "enable_partition_eof": "true", "auto_offset_reset": "error"}
    return made("Consumer", settings, **conf, **ours)
