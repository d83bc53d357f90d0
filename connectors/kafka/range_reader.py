"""Reads the messages of an offset range in batches, with a consumer that belongs to no group.

Offsets have gaps (compaction, transaction markers), so the end of the range is reached when a message or the end of the
partition shows that no earlier offset follows. Memory: librdkafka's prefetch queue (`PREFETCH_KIB` a partition) and one batch
of about `BATCH_BYTES`, whose number of messages follows from the size of the messages before it.
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
from connectors.kafka.batch_planner import OnLoss
from connectors.kafka.clients import Client, create_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import describe_error, error_kind
from connectors.kafka.topics import Partition
from etl.api import ComponentError

if TYPE_CHECKING:
    from confluent_kafka import Message

MAX_BATCH_MESSAGES = 20_000
"""Maximum number of messages of a batch."""

BATCH_BYTES = 4 << 20
"""Bytes of a batch, about."""

FIRST_BATCH_MESSAGES = 2_000
"""Number of messages of the first batch, when their size is not known."""

PREFETCH_KIB = 32 << 10
PREFETCH_MESSAGES = 40_000
"""What a consumer fetches ahead of the reader, in messages and in KiB (`PREFETCH_KIB`)."""

BATCH_WAIT_SECONDS = 0.1
"""How long the consumer may wait to fill a batch."""

_TEMPORARY_ERRORS = ("cannot-connect", "unknown-topic")
"""Kinds of errors that pass: a broker that has just started knows no topic."""

log = logging.getLogger("sluice.kafka")


class DataLostError(Exception):
    """Messages of a range no longer exist. ``next`` is the next offset that exists, None if there is none."""

    def __init__(self, text: str, next_: int | None) -> None:
        super().__init__(text)
        self.next = next_


@dataclass
class RangeReader:
    """Reads a range of one partition, from ``at`` (inclusive) to ``end`` (exclusive)."""

    partition: Partition
    at: int
    end: int
    is_committed: bool
    settings: ClientSettings
    on_loss: OnLoss
    losses: list[DataLostError] = field(default_factory=list)
    """Losses that were skipped."""

    def messages(self) -> Iterator[list[Message]]:
        """Yield the messages of the range in order, in batches. An OSError is temporary."""
        with _borrow_consumer(self.settings, self.is_committed) as client:
            while self.at < self.end:
                try:
                    yield from self._read(client)
                except DataLostError as lost:
                    self._skip_loss(lost)

    def _read(self, client: Client) -> Iterator[list[Message]]:
        from confluent_kafka import TopicPartition

        client.raw.assign([TopicPartition(*self.partition, self.at)])
        max_messages, last_message_at = FIRST_BATCH_MESSAGES, time.monotonic()
        while self.at < self.end:
            found = client.raw.consume(min(max_messages, self.end - self.at), BATCH_WAIT_SECONDS)
            messages = self._handle_errors(client, found)
            if messages:
                self.at, last_message_at = max(self.at, _offset(messages[-1]) + 1), time.monotonic()
                max_messages = _next_size(messages)
                yield messages if self.at <= self.end else [one for one in messages if _offset(one) < self.end]
            elif time.monotonic() - last_message_at > self.settings.timeout_seconds:
                self._raise_timeout(client)
            elif (
                not found
                and client.connection_errors.is_permanent()
                and (most_likely_cause := client.connection_errors.most_likely_cause())
            ):
                raise client.to_exception(most_likely_cause)

    def _handle_errors(self, client: Client, found: list[Message]) -> list[Message]:
        """Return the messages without error; raise or act on those that carry one."""
        errors = [one for one in found if one.error() is not None]
        if not errors:
            return found
        for one in errors:
            error = one.error()
            assert error is not None
            if error.name() == "_PARTITION_EOF":
                self.at = max(self.at, min(one.offset() or 0, self.end))
            elif error.name() == "_AUTO_OFFSET_RESET":
                self._check_for_loss(describe_error(self.settings.servers, error))
            elif error_kind(error) not in _TEMPORARY_ERRORS:
                raise client.to_exception(error)
        return [one for one in found if one.error() is None]

    def _check_for_loss(self, description: str) -> None:
        """Raise DataLostError if messages of the range no longer exist."""
        try:
            first = topics.fetch_begin_offsets(self.settings, [self.partition])[self.partition]
            last = topics.fetch_end_offsets(self.settings, [self.partition], self.is_committed)[self.partition]
        except topics.TopicVanishedError:
            raise DataLostError(description, None) from None
        if first > self.at:
            raise DataLostError(description, first if first < self.end else None)
        if last < self.end:
            raise DataLostError(f"{description}; the partition ends at {last:,}", None)

    def _raise_timeout(self, client: Client) -> None:
        name = "/".join(map(str, self.partition))
        self._check_for_loss(f"{name} ends before {self.end:,}")
        cause = client.connection_errors.most_likely_cause()
        why = describe_error(self.settings.servers, cause) if cause else f"kafka {self.settings.servers}: no answer"
        raise TimeoutError(f"{why}: {name} delivered nothing from offset {self.at:,} for {self.settings.timeout_seconds:.0f} s")

    def _skip_loss(self, lost: DataLostError) -> None:
        next_ = self.end if lost.next is None else lost.next
        name = "/".join(map(str, self.partition))
        text = f"messages {self.at:,} to {next_ - 1:,} of {name} no longer exist: {lost}"
        if self.on_loss == "fail":
            raise ComponentError(f"{text}; on_data_loss: earliest continues with the first message that exists")
        log.warning("%s", text)
        self.losses.append(lost)
        self.at = next_


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _next_size(messages: list[Message]) -> int:
    """Return how many messages the next batch is to have, from the mean size of a sample of these."""
    some = messages[:: 1 + len(messages) // 64]
    mean = sum(len(one.value() or b"") + len(one.key() or b"") for one in some) // len(some)
    return min(MAX_BATCH_MESSAGES, BATCH_BYTES // max(mean, 1) + 1)


@contextmanager
def _borrow_consumer(settings: ClientSettings, is_committed: bool) -> Iterator[Client]:
    """Yield an idle consumer, or a new one; a consumer that failed is closed."""
    idle = _idle_consumers(settings, is_committed)
    client = idle.pop() if idle else _create_consumer(settings, is_committed)
    try:
        yield client
    except (OSError, ComponentError):
        client.raw.close()
        raise
    except BaseException:
        client.raw.unassign()
        raise
    client.raw.unassign()
    client.connection_errors.clear()
    idle.append(client)


@cache
def _idle_consumers(settings: ClientSettings, is_committed: bool) -> list[Client]:
    """The idle consumers of this process."""
    return []


def _create_consumer(settings: ClientSettings, is_committed: bool) -> Client:
    conf = {
        "isolation_level": "read_committed" if is_committed else "read_uncommitted",
        "fetch_queue_backoff_ms": 2,  # default 1000: the pause after the prefetch queue was full
        "fetch_wait_max_ms": 20,  # the range has messages, or the consumer has to report its end: never wait long
        "queued_min_messages": PREFETCH_MESSAGES,
        "queued_max_messages_kbytes": PREFETCH_KIB,
    }
    ours = {"group_id": "sluice", "enable_auto_commit": "false", "enable_partition_eof": "true", "auto_offset_reset": "error"}
    return create_client("Consumer", settings, **conf, **ours)
