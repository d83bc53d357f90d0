"""A sink's buffer inside a task: bounded batches, retries, and what was refused."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ComponentError, Rejects, Result, Sink, Staged, Writer
from etl.delivery.identities import Identities
from etl.receipts import Delivered
from etl.scanner.texts import owned

Clock = Callable[[], float]


@dataclass
class Outlet:
    """Feeds one `Writer` batches no larger than ``sink.batch`` allows, in order, and tries temporary failures again.

    ``reject`` takes what the sink refuses for good. Memory is bounded by one batch limit and one incoming batch.
    """

    name: str
    sink: Sink
    writer: Writer
    reject: Callable[[Rejects], None]
    identities: Identities = field(default_factory=lambda: Identities(""))
    clock: Clock = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    delivered: Delivered = field(default_factory=Delivered)
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _events: int = 0
    _bytes: int = 0
    _since: float = 0.0

    @property
    def takes_views(self) -> bool:
        """Whether batches may come with views: where the sink takes them, and no limit cuts batches up."""
        return self.sink.takes_views and not self._limited

    @property
    def _limited(self) -> bool:
        return self.sink.batch.max_events is not None or self.sink.batch.max_bytes is not None

    def take(self, batch: pa.RecordBatch) -> None:
        """Buffer a batch and write what is due."""
        self.delivered.came += batch.num_rows
        if self.sink.identified:
            batch = self.identities.added(batch)
        if not self._limited:
            self._write(batch, "as_it_comes")
            return
        for piece, size in self._pieces(batch):
            self._add(piece, size)
        if self._waiting and self.clock() - self._since >= self.sink.batch.timeout.total_seconds():
            self._flush("timeout")

    def close(self) -> Staged | None:
        """Write what is left and close the writer."""
        self._flush("end_of_batch")
        return self.writer.close()

    def abort(self) -> None:
        """The split failed."""
        self.writer.abort()

    def _pieces(self, batch: pa.RecordBatch) -> list[tuple[pa.RecordBatch, int]]:
        """The batch cut where a limit is reached, each piece with its encoded bytes."""
        limits = self.sink.batch
        if limits.max_bytes is None:
            assert limits.max_events is not None
            first = limits.max_events - self._events
            cuts = [0, *range(first, batch.num_rows, limits.max_events), batch.num_rows]
            return [(batch.slice(a, b - a), 0) for a, b in itertools.pairwise(cuts) if b > a]
        return self._pieces_by_size(batch, limits.max_bytes, limits.max_events)

    def _pieces_by_size(self, batch: pa.RecordBatch, max_bytes: int, max_events: int | None) -> list[tuple[pa.RecordBatch, int]]:
        sizes = self._sizes(batch)
        fits = pc.less_equal(sizes, max_bytes)
        if fits.false_count:
            large = pc.invert(fits)
            reasons = pc.binary_join_element_wise(
                pc.cast(sizes.filter(large), pa.string()), f"bytes encoded, more than batch.max_bytes ({max_bytes})", " "
            )
            self._refuse(Rejects(batch.filter(large), "event-too-large", reasons))
            batch, sizes = batch.filter(fits), sizes.filter(fits)
        pieces, start, size, events = [], 0, self._bytes, self._events
        for at, each in enumerate(sizes.to_pylist()):  # limits depend on every event before: no vector form
            if size + each > max_bytes or (max_events is not None and events >= max_events):
                pieces.append((batch.slice(start, at - start), sum_of(sizes, start, at)))
                start, size, events = at, 0, 0
            size, events = size + each, events + 1
        pieces.append((batch.slice(start), sum_of(sizes, start, batch.num_rows)))
        return pieces

    def _sizes(self, batch: pa.RecordBatch) -> pa.Array:
        sizes = self.writer.sizes(batch)
        if sizes is None:
            each = -(-batch.nbytes // max(1, batch.num_rows))
            sizes = pa.array([each] * batch.num_rows, pa.int64())
        return sizes

    def _add(self, piece: pa.RecordBatch, size: int) -> None:
        limits = self.sink.batch
        if self._events and limits.max_bytes is not None and self._bytes + size > limits.max_bytes:
            self._flush("bytes")
        if self._events and limits.max_events is not None and self._events + piece.num_rows > limits.max_events:
            self._flush("count")
        if not piece.num_rows:
            return
        if not self._waiting:
            self._since = self.clock()
        self._waiting.append(piece)
        self._events += piece.num_rows
        self._bytes += size
        if limits.max_events is not None and self._events >= limits.max_events:
            self._flush("count")

    def _flush(self, reason: str) -> None:
        if not self._waiting:
            return
        batch = pa.concat_batches(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        self._waiting, self._events, self._bytes = [], 0, 0
        self._write(batch, reason)

    def _write(self, batch: pa.RecordBatch, reason: str) -> None:
        self.delivered.flushes[reason] = self.delivered.flushes.get(reason, 0) + 1
        retry = self.sink.retry
        for attempt in range(retry.attempts):
            if attempt:
                longest = min(retry.initial_backoff.total_seconds() * 2 ** (attempt - 1), retry.max_backoff.total_seconds())
                self.sleep(random.uniform(0, longest))
                self.delivered.retries += 1
            result = self._try(batch)
            left = 0 if result.retryable is None else len(result.retryable)
            self.delivered.taken += batch.num_rows - left - sum(r.events.num_rows for r in result.rejected)
            for rejects in result.rejected:
                self._refuse(rejects)
            if not left:
                return
            batch = owned(batch).take(result.retryable)
        raise ComponentError(
            f"sink {self.name!r} did not take {batch.num_rows} events in {retry.attempts} attempts: {result.cause}; "
            "nothing is lost: the next run begins with them again"
        )

    def _try(self, batch: pa.RecordBatch) -> Result:
        try:
            return self.writer.write(batch)
        except OSError as error:
            return Result(retryable=pa.array(range(batch.num_rows), pa.int64()), cause=str(error))

    def _refuse(self, rejects: Rejects) -> None:
        self.delivered.dead += rejects.events.num_rows
        self.reject(rejects)


def sum_of(sizes: pa.Array, start: int, end: int) -> int:
    """Bytes of the events from ``start`` to ``end``."""
    return pc.sum(sizes.slice(start, end - start)).as_py() or 0
