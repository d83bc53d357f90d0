"""Running a segment over a split until every sink has it: anew when one has lost what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from etl.api import Rejects, SplitLostError
from etl.delivery.waiting import Patience
from etl.receipts import Receipt
from etl.segment.runner import SegmentRun


@dataclass
class Anew:
    """Iterate over it for what goes to Spark; the receipt is there afterwards.

    ``begin`` opens the sinks; ``batches`` gives the split's events, each time it is called from the first. The same events
    make the same ones for Spark: those that were handed on before are not handed on again.
    """

    begin: Callable[[], SegmentRun]
    batches: Callable[[], Iterable[pa.RecordBatch | Rejects]]
    patience: Patience
    receipt: Receipt = field(init=False)
    _handed: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                run = self.begin()
                yield from self._behind(run.over(self.batches()))
            except SplitLostError as error:
                self.patience.wait(error)
            else:
                self.patience.over()
                self.receipt = run.receipt
                return

    def finished(self) -> Receipt:
        """Run what hands nothing to Spark."""
        for _ in self:
            raise AssertionError("a segment without Spark behind it emits nothing")
        return self.receipt

    def _behind(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        skip = self._handed
        for batch in batches:
            behind = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - behind.num_rows
            self._handed += behind.num_rows
            if behind.num_rows:
                yield behind
