"""A sink's buffer inside a task: bounded batches, retries, and what was refused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import IDENTITY, ComponentError, Rejects, Result, Sink, SplitLostError, Staged, Writer
from etl.columns.texts import owned
from etl.delivery.identities import Identities
from etl.delivery.waiting import Patience
from etl.receipts import Delivered

Clock = Callable[[], float]


class NotTakenError(ComponentError):
    """A sink did not take events in as many tries as it has. ``briefly`` says so where nothing has to be done about it."""

    def __init__(self, text: str, briefly: str = "") -> None:
        super().__init__(text)
        self.briefly = briefly or text


def said_by(sink: str, error: ComponentError) -> ComponentError:
    """The error with the name of the sink that ends the run."""
    return ComponentError(f"sink {sink!r}: {error}")


@dataclass
class Outlet:
    """Feeds one `Writer` batches no larger than ``sink.batch`` allows, in order, and tries temporary failures again.

    ``reject`` takes what the sink refuses for good. Memory is bounded by one batch limit and one incoming batch. With
    ``attempts`` it raises NotTakenError when they are used up, without it tries for ever, or until ``patience`` ends.
    """

    name: str
    sink: Sink
    writer: Writer
    reject: Callable[[Rejects], None]
    identities: Identities = field(default_factory=lambda: Identities(""))
    attempts: int | None = None
    patience: Patience = field(default_factory=lambda: Patience("sink"))
    clock: Clock = time.monotonic
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
        if self.sink.identified and IDENTITY not in batch.schema.names:
            batch = self.identities.added(batch)
        if not self._limited:
            self._write(batch, "as_it_comes")
            return
        for piece, size in self._pieces(batch):
            self._add(piece, size)
        self.tick()

    def tick(self) -> None:
        """Time has passed, perhaps without events for this sink."""
        if self._waiting and self.clock() - self._since >= self.sink.batch.timeout.total_seconds():
            self._flush("timeout")

    def close(self) -> Staged | None:
        """Write what is left and close the writer."""
        self._flush("shutdown" if self._waiting and self.patience.ending() else "end_of_batch")
        try:
            return self.writer.close()
        except OSError as error:
            raise self._lost(error) from error
        except ComponentError as error:
            raise said_by(self.name, error) from error

    def abort(self) -> None:
        """The split failed."""
        self.writer.abort()

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The batch cut where a limit is reached, each piece with its encoded bytes."""
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

        batch, sizes = self._not_too_large(batch, max_bytes)
        ends = np.cumsum(sizes.to_numpy())
        start, room, places = 0, max_bytes - self._bytes, max_events - self._events
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            at = min(int(np.searchsorted(ends, before + room, side="right")), start + places, batch.num_rows)
            if at > start:
                yield batch.slice(start, at - start), int(ends[at - 1]) - before
            start, room, places = at, max_bytes, max_events

    def _not_too_large(self, batch: pa.RecordBatch, max_bytes: int) -> tuple[pa.RecordBatch, pa.Array]:
        """The events that fit, and their sizes; the others are refused."""
        sizes = self._sizes(batch)
        fits = pc.less_equal(sizes, max_bytes)
        if not fits.false_count:
            return batch, sizes
        large = pc.invert(fits)
        reasons = pc.binary_join_element_wise(
            pc.cast(sizes.filter(large), pa.string()), f"bytes encoded, more than batch.max_bytes ({max_bytes})", " "
        )
        self._refuse(Rejects(batch.filter(large), "event-too-large", reasons))
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
        for tries in itertools.count(1):
            result = self._try(batch)
            left = 0 if result.retryable is None else len(result.retryable)
            self.delivered.taken += batch.num_rows - left - sum(r.events.num_rows for r in result.rejected)
            for rejects in result.rejected:
                self._refuse(rejects)
            if not left:
                break
            batch = owned(batch).take(result.retryable)
            if tries == self.attempts:
                raise self._not_taken(batch.num_rows, tries, result.cause)
            self.patience.wait(result.cause, result.after)
            self.delivered.retries += 1
        self.patience.over()

    def _lost(self, error: OSError) -> Exception:
        """What to raise when the writer has lost the split: it begins anew, unless tries are counted."""
        text = f"sink {self.name!r}: {error}"
        if self.attempts is None:
            return SplitLostError(text)
        return NotTakenError(f"{text}; nothing is lost: the next run begins the split again", str(error))

    def _not_taken(self, events: int, tries: int, cause: str) -> NotTakenError:
        return NotTakenError(
            f"sink {self.name!r} did not take {events} events in {tries} attempts: {cause}; "
            "nothing is lost: the next run begins with them again",
            cause,
        )

    def _try(self, batch: pa.RecordBatch) -> Result:
        try:
            return self.writer.write(batch)
        except SplitLostError as error:
            raise self._lost(error) from error
        except ComponentError as error:
            raise said_by(self.name, error) from error
        except OSError as error:
            return Result(retryable=pa.array(range(batch.num_rows), pa.int64()), cause=str(error) or type(error).__name__)

    def _refuse(self, rejects: Rejects) -> None:
        self.delivered.dead += rejects.events.num_rows
        self.reject(rejects)
