"""Runs a segment over a split, and again from the split's start when a sink has lost accepted events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from etl.api import Rejects, SplitLostError
from etl.delivery.backoff import Backoff
from etl.receipts import Receipt
from etl.segment.segment_run import SegmentRun


@dataclass
class RestartableSegment:
    """Iterating yields the batches that it emits, each with the number of its exchange; afterwards ``receipt`` is set.

    ``start_run`` opens the sinks; each call of ``batches`` gives the split's events from the first on. The same input gives the
    same output, so events that Spark got from an earlier run of the segment are skipped.
    """

    start_run: Callable[[], SegmentRun]
    batches: Callable[[], Iterable[pa.RecordBatch | Rejects]]
    backoff: Backoff
    rejected: list[tuple[Rejects, str]] = field(default_factory=list)
    """Events that it emitted, or others before it, that the step downstream rejected: at most those of the split."""
    receipt: Receipt = field(init=False)
    _emitted_rows: int = field(default=0, init=False)
    _run: SegmentRun | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        while True:
            try:
                self._run = run = self.start_run()
                for rejects, at in self.rejected:
                    run.reject_emitted(rejects, at)
                yield from self._skip_emitted(run.process(self.batches()))
            except SplitLostError as error:
                self.backoff.wait(error)
            else:
                self.backoff.succeeded()
                self.receipt = run.receipt
                return

    def reject_emitted(self, rejects: Rejects, at: str) -> None:
        """Write events to the dead letters that it has just emitted, and that the step ``at`` rejects."""
        assert self._run is not None
        self.rejected.append((rejects, at))
        self._run.reject_emitted(rejects, at)

    def run_to_end(self) -> Receipt:
        """Run a segment that has no output for Spark, and return its receipt."""
        for _ in self:
            raise AssertionError("a segment without Spark rest it emits nothing")
        return self.receipt

    def _skip_emitted(self, batches: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        skip = self._emitted_rows
        for number, batch in batches:
            rest = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - rest.num_rows
            self._emitted_rows += rest.num_rows
            if rest.num_rows:
                yield number, rest
