"""A sink's writer inside a task: it buffers events into batches, retries failed writes and forwards rejected events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import IDENTITY, ComponentError, Rejects, Result, Sink, SplitLostError, Staged, Writer
from etl.columns.texts import materialize
from etl.delivery.backoff import Backoff
from etl.delivery.identities import EventIdentities
from etl.receipts import Delivered
from etl.system_errors import with_advice

Clock = Callable[[], float]


class DeliveryFailedError(ComponentError):
    """A sink failed in all attempts that it has. ``summary`` is the cause without advice, for a log line."""

    def __init__(self, text: str, summary: str = "") -> None:
        super().__init__(text)
        self.summary = summary or text


def with_sink_name(sink: str, error: ComponentError) -> ComponentError:
    """The same error, prefixed with the sink's name."""
    return ComponentError(f"sink {sink!r}: {error}")


@dataclass
class SinkWriter:
    """Gives one `Writer` batches within the limits of ``sink.batch``, in order, and retries temporary failures.

    ``reject`` takes the events that the sink rejects for good. Memory: one batch limit and one incoming batch. With
    ``attempts`` it raises DeliveryFailedError after that number; without, it retries until the run stops.
    """

    name: str
    sink: Sink
    writer: Writer
    reject: Callable[[Rejects], None]
    identities: EventIdentities = field(default_factory=lambda: EventIdentities(""))
    attempts: int | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff("sink"))
    clock: Clock = time.monotonic
    delivered: Delivered = field(default_factory=Delivered)
    _buffer: list[pa.RecordBatch] = field(default_factory=list)
    _events: int = 0
    _bytes: int = 0
    _buffered_since: float = 0.0

    @property
    def takes_views(self) -> bool:
        """Whether batches may have string views: the sink accepts them, and no limit makes this writer slice batches."""
        return self.sink.takes_views and not self._has_limit

    @property
    def _has_limit(self) -> bool:
        return self.sink.batch.max_events is not None or self.sink.batch.max_bytes is not None

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer a batch, and write to the sink when a limit is reached."""
        self.delivered.incoming += batch.num_rows
        if self.sink.identified and IDENTITY not in batch.schema.names:
            batch = self.identities.add_to(batch)
        if not self._has_limit:
            self._write_batch(batch, "as_it_comes")
            return
        for piece, size in self._pieces(batch):
            self._add(piece, size)
        self.tick()

    def tick(self) -> None:
        """Write the buffer if its timeout has passed. Called after each batch of the split, also without events for this sink."""
        if (
            self._buffer
            and not self.sink.repeats_batches()
            and self.clock() - self._buffered_since >= self.sink.batch.timeout.total_seconds()
        ):
            self._flush("timeout")

    def close(self) -> Staged | None:
        """Write the rest of the buffer and close the writer."""
        self._flush("shutdown" if self._buffer and self.backoff.is_stopping() else "end_of_batch")
        try:
            with self._measure_time():
                return self.writer.close()
        except OSError as error:
            raise self._split_lost(error) from error
        except ComponentError as error:
            raise with_sink_name(self.name, error) from error

    def abort(self) -> None:
        """Discard what was written: the split failed."""
        self.writer.abort()

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Slices of the batch, each up to the next limit, with their encoded bytes."""
        limits = self.sink.batch
        if limits.max_bytes is None:
            assert limits.max_events is not None
            first = limits.max_events - self._events
            cuts = [0, *range(first, batch.num_rows, limits.max_events), batch.num_rows]
            yield from ((batch.slice(a, b - a), 0) for a, b in itertools.pairwise(cuts) if b > a)
        else:
            yield from self._pieces_by_size(batch, limits.max_bytes, limits.max_events or batch.num_rows + self._events)

    def _pieces_by_size(self, batch: pa.RecordBatch, max_bytes: int, max_events: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        import numpy as np

        batch, sizes = self._without_oversized(batch, max_bytes)
        ends = np.cumsum(sizes.to_numpy())
        start, room, event_room = 0, max_bytes - self._bytes, max_events - self._events
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            at = min(int(np.searchsorted(ends, before + room, side="right")), start + event_room, batch.num_rows)
            if at > start:
                yield batch.slice(start, at - start), int(ends[at - 1]) - before
            start, room, event_room = at, max_bytes, max_events

    def _without_oversized(self, batch: pa.RecordBatch, max_bytes: int) -> tuple[pa.RecordBatch, pa.Array]:
        """The events of at most ``max_bytes``, and their sizes; the others are rejected."""
        sizes = self._sizes(batch)
        fits = pc.less_equal(sizes, max_bytes)
        if not fits.false_count:
            return batch, sizes
        large = pc.invert(fits)
        reasons = pc.binary_join_element_wise(
            pc.cast(sizes.filter(large), pa.string()), f"bytes encoded, more than batch.max_bytes ({max_bytes})", " "
        )
        self._reject(Rejects(batch.filter(large), "event-too-large", reasons))
        return batch.filter(fits), sizes.filter(fits)

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
        if not self._buffer:
            self._buffered_since = self.clock()
        self._buffer.append(piece)
        self._events += piece.num_rows
        self._bytes += size
        if limits.max_events is not None and self._events >= limits.max_events:
            self._flush("count")

    def _flush(self, reason: str) -> None:
        if not self._buffer:
            return
        batch = pa.concat_batches(self._buffer) if len(self._buffer) > 1 else self._buffer[0]
        self._buffer, self._events, self._bytes = [], 0, 0
        self._write_batch(batch, reason)

    def _write_batch(self, batch: pa.RecordBatch, reason: str) -> None:
        self.delivered.flushes[reason] = self.delivered.flushes.get(reason, 0) + 1
        for tries in itertools.count(1):
            result = self._try(batch)
            left = 0 if result.retryable is None else len(result.retryable)
            self.delivered.accepted += batch.num_rows - left - sum(r.events.num_rows for r in result.rejected)
            for rejects in result.rejected:
                self._reject(rejects)
            if not left:
                break
            batch = materialize(batch).take(result.retryable)
            if tries == self.attempts:
                raise self._attempts_used_up(batch.num_rows, tries, result.cause)
            self.backoff.wait(result.cause, result.after)
            self.delivered.retries += 1
        self.backoff.succeeded()

    def _split_lost(self, error: OSError) -> Exception:
        """The error for a writer that lost what it wrote: the split is run again, unless attempts are limited."""
        text = f"sink {self.name!r}: {with_advice(error)}"
        if self.attempts is None:
            return SplitLostError(text)
        return DeliveryFailedError(f"{text}; nothing is lost: the next run begins the split again", str(error))

    def _attempts_used_up(self, events: int, tries: int, cause: str) -> DeliveryFailedError:
        return DeliveryFailedError(
            f"sink {self.name!r} did not take {events} events in {tries} attempts: {cause}; "
            "nothing is lost: the next run begins with them again",
            cause,
        )

    def _try(self, batch: pa.RecordBatch) -> Result:
        try:
            with self._measure_time():
                return self.writer.write(batch)
        except SplitLostError as error:
            raise self._split_lost(error) from error
        except ComponentError as error:
            raise with_sink_name(self.name, error) from error
        except OSError as error:
            return Result(retryable=pa.array(range(batch.num_rows), pa.int64()), cause=with_advice(error) or type(error).__name__)

    @contextmanager
    def _measure_time(self) -> Iterator[None]:
        """Add the time of the body to that in the sink's writes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.delivered.seconds += time.perf_counter() - began

    def _reject(self, rejects: Rejects) -> None:
        self.delivered.dead += rejects.events.num_rows
        self.reject(rejects)
