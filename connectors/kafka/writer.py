"""The writer that delivers at least once: every write is on the brokers when it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client
from connectors.kafka.encoding import Encoding
from connectors.kafka.failures import UNWANTED, failure, kind_of, told
from connectors.kafka.sending import Sending, producer, smallest
from connectors.kafka.sorting import Sorted, sorted_out
from etl.api import Rejects, Result, Staged

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


@dataclass(frozen=True)
class KafkaWriter:
    """Sends each batch and waits until all of it is acknowledged. Memory: one batch, encoded."""

    encoding: Encoding
    settings: Settings
    conf: tuple[tuple[str, str], ...]

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Value, key and headers."""
        return self.encoding.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Rows that could not be brought to the brokers in time are retryable; what these do not want is rejected."""
        left = sorted_out(batch, self.encoding, self.settings)
        if not left.batch.num_rows:
            return Result(rejected=left.rejected)
        size = smallest(one.max_bytes for one in left.limits.values())
        try:
            failed = Sending(_kept(self.settings, self.conf, size)).sent(self.encoding.messages(left.batch, left.topics))
        except OSError:
            _kept.cache_clear()
            raise
        return self._result(left, failed)

    def close(self) -> Staged | None:
        """Nothing waits."""
        return None

    def abort(self) -> None:
        """What was sent stays, and is sent again: that is what at least once means."""

    def _result(self, left: Sorted, failed: Mapping[int, KafkaError]) -> Result:
        unwanted = {row: error for row, error in failed.items() if self._is_unwanted(error)}
        later = {row: error for row, error in failed.items() if row not in unwanted}
        refused = next((error for error in later.values() if kind_of(error) != "cannot-connect"), None)
        if refused is not None:
            raise failure(self.settings.servers, refused)
        rejected = [*left.rejected, *([_rejects(left.batch, unwanted)] if unwanted else [])]
        if not later:
            return Result(rejected=rejected)
        cause = told(self.settings.servers, next(iter(later.values())))
        return Result(left.rows.take(pa.array(sorted(later), pa.int64())), rejected, cause)

    def _is_unwanted(self, error: KafkaError) -> bool:
        """Of a topic that an event names, that it is unknown is the event's fault."""
        return error.name() in UNWANTED or (kind_of(error) == "unknown-topic" and not self.encoding.topic.is_fixed)


def _rejects(batch: pa.RecordBatch, errors: Mapping[int, KafkaError]) -> Rejects:
    rows = sorted(errors)
    reasons = pa.array([errors[row].str() for row in rows], pa.string())
    return Rejects(batch.take(pa.array(rows, pa.int64())), "refused", reasons)


@lru_cache(maxsize=8)
def _kept(settings: Settings, conf: tuple[tuple[str, str], ...], batch_bytes: int) -> Client:
    """A producer of this process."""
    return producer(settings, batch_bytes, **dict(conf))
