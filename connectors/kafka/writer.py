"""The writer that delivers at least once: messages are acknowledged when `write` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.kafka.batch_sender import BatchSender, create_producer, min_batch_bytes
from connectors.kafka.clients import Client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import MESSAGE_ERRORS, describe_error, error_kind, to_exception
from connectors.kafka.message_encoding import MessageEncoding
from connectors.kafka.sendable_events import SendableEvents, reject_unsendable
from etl.api import Rejects, Result, Staged

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


@dataclass(frozen=True)
class KafkaWriter:
    """Sends each batch and waits until all of it is acknowledged. Memory: one encoded batch."""

    encoding: MessageEncoding
    settings: ClientSettings
    conf: tuple[tuple[str, str], ...]

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return bytes of value, key and headers of each event."""
        return self.encoding.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send a batch. Rows not acknowledged in time are retryable; rows that brokers reject become dead letters."""
        sendable = reject_unsendable(batch, self.encoding, self.settings)
        if not sendable.batch.num_rows:
            return Result(rejected=sendable.rejected)
        size = min_batch_bytes(one.max_bytes for one in sendable.limits.values())
        try:
            failed = BatchSender(_cached_producer(self.settings, self.conf, size)).send(
                self.encoding.encode(sendable.batch, sendable.topics)
            )
        except OSError:
            _cached_producer.cache_clear()
            raise
        return self._result(sendable, failed)

    def close(self) -> Staged | None:
        """Return nothing: no message is pending."""
        return None

    def abort(self) -> None:
        """Do nothing: messages already sent stay and are sent again (at least once)."""

    def _result(self, sendable: SendableEvents, failed: Mapping[int, KafkaError]) -> Result:
        failed_messages = {row: error for row, error in failed.items() if self._is_rejected(error)}
        later = {row: error for row, error in failed.items() if row not in failed_messages}
        refused = next((error for error in later.values() if error_kind(error) != "cannot-connect"), None)
        if refused is not None:
            raise to_exception(self.settings.servers, refused)
        rejected = [*sendable.rejected, *([_to_rejects(sendable.batch, failed_messages)] if failed_messages else [])]
        if not later:
            return Result(rejected=rejected)
        cause = describe_error(self.settings.servers, next(iter(later.values())))
        return Result(sendable.rows.take(pa.array(sorted(later), pa.int64())), rejected, cause)

    def _is_rejected(self, error: KafkaError) -> bool:
        """Return whether an error is the fault of a single message; so is an unknown topic that an event names."""
        return error.name() in MESSAGE_ERRORS or (error_kind(error) == "unknown-topic" and not self.encoding.topic.is_fixed)


def _to_rejects(batch: pa.RecordBatch, errors: Mapping[int, KafkaError]) -> Rejects:
    rows = sorted(errors)
    reasons = pa.array([errors[row].str() for row in rows], pa.string())
    return Rejects(batch.take(pa.array(rows, pa.int64())), "refused", reasons)


@lru_cache(maxsize=8)
def _cached_producer(settings: ClientSettings, conf: tuple[tuple[str, str], ...], batch_bytes: int) -> Client:
    """Return the producer of this process for these settings."""
    return create_producer(settings, batch_bytes, **dict(conf))
