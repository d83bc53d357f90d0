"""A branch of a segment, compiled: steps with their counts, and what lies behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, ArrowStep, Counting, Outcome, with_columns
from etl.columns.texts import owned
from etl.delivery.detour import Detour
from etl.delivery.outlet import Outlet
from etl.plan.model import Branch, StepNode
from etl.receipts import Counts

if TYPE_CHECKING:
    from etl.segment.runner import SegmentRun


class Compiled:
    """A compiled branch: called with a batch, it runs its steps and everything below."""

    def __init__(self, branch: Branch, run: SegmentRun) -> None:
        self._run = run
        self._steps = [_Step(node, run) for node in branch.steps]
        self._outlets = [run.outlet(name) for name in branch.sinks]
        self._below = [Compiled(below, run) for below in branch.branches]
        self._emits = branch.emits
        behind: list[Outlet | Detour | Compiled] = [*self._outlets, *self._below]
        self._leaves_views = not branch.emits and all(one.takes_views for one in behind)
        self.takes_views: bool = self._steps[0].takes_views if self._steps else self._leaves_views

    def __call__(self, batch: pa.RecordBatch) -> None:
        for step in self._steps:
            if not batch.num_rows:
                return
            batch = step(batch)
        if not batch.num_rows:
            return
        plain = batch if self._leaves_views else owned(batch)
        for outlet in self._outlets:
            outlet.take(batch if outlet.takes_views else plain)
        for below in self._below:
            below(batch if below.takes_views else plain)
        if self._emits:
            self._run.emit(plain)

    def passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What a few events look like behind every step on the way to Spark, if no filter dropped them."""
        yield batch
        for step in self._steps:
            outcome = step.look(batch)
            rejected = sum(rejects.events.num_rows for rejects in outcome.rejects)
            filtered = outcome.events.num_rows + rejected < batch.num_rows
            batch = batch if filtered else outcome.events
            yield batch
        for below in self._below:
            yield from below.passing(batch)


@dataclass
class _Step:
    """A compiled step with its counts."""

    node: StepNode
    owner: SegmentRun
    takes_views: bool = field(init=False)
    counts: Counts = field(init=False)
    _open: Callable[[pa.RecordBatch], Outcome] = field(init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.node.step, ArrowStep)
        self.takes_views = self.node.step.takes_views
        self._multiplies = self.node.step.multiplies()
        self._open = self.node.step.open(self.node.incoming)
        self.counts = self.owner.counts(self._open)

    def look(self, batch: pa.RecordBatch) -> Outcome:
        """What the step makes of events that come, or came, another time."""
        look = self._open.look if isinstance(self._open, Counting) else self._open
        return look(batch if self.takes_views else owned(batch))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch if self.takes_views else owned(batch)
        outcome, made = self._multiplied(batch) if self._multiplies else (self._open(batch), 0)
        counts, dead = self.counts, 0
        for rejects in outcome.rejects:
            dead += rejects.events.num_rows
            if self.node.reports:
                self.owner.reject(rejects, self.node.id)
        counts.came += batch.num_rows
        counts.left += outcome.events.num_rows
        counts.dead += dead
        counts.made += made
        counts.filtered += batch.num_rows + made - outcome.events.num_rows - dead
        return outcome.events

    def _multiplied(self, batch: pa.RecordBatch) -> tuple[Outcome, int]:
        """What became of the events, and how many were made of others. Those that were made of one before are told apart by
        the numbers of their rows, meanwhile."""
        offsets = batch.column(OFFSET)
        if not _repeats(offsets):
            outcome = self._open(batch)
            return outcome, _repeats(outcome.events.column(OFFSET))
        outcome = self._open(with_columns(batch, {OFFSET: pa.array(range(batch.num_rows), pa.int64())}))
        rejects = [replace(one, events=_placed(one.events, offsets)) for one in outcome.rejects]
        return Outcome(_placed(outcome.events, offsets), rejects), _repeats(outcome.events.column(OFFSET))


def _placed(events: pa.RecordBatch, offsets: pa.Array) -> pa.RecordBatch:
    """Events whose offsets are numbers of rows, with the offsets of these rows."""
    return with_columns(events, {OFFSET: offsets.take(events.column(OFFSET))})


def _repeats(offsets: pa.Array) -> int:
    """How many events have the offset of the one before them: they were made of the same."""
    return int(pc.sum(pc.equal(offsets.slice(1), offsets.slice(0, max(len(offsets) - 1, 0))), min_count=0).as_py())
