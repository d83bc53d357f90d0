"""A branch of a segment, ready to run: its opened steps with their counts, its sinks and the branches below."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import CHANGE, OFFSET, ArrowStep, CountingOperator, Outcome, with_columns
from etl.columns.texts import materialize
from etl.contract.changelogs import with_whole_pairs
from etl.delivery.sink_writer import SinkWriter
from etl.delivery.spooling_writer import SpoolingSinkWriter
from etl.plan.segments import Branch, StepNode
from etl.receipts import Counts
from etl.segment.union import BranchUnion, in_order

if TYPE_CHECKING:
    from etl.segment.segment_run import SegmentRun


class CompiledBranch:
    """A branch whose steps and sinks are open. A call runs a batch through its steps, then to sinks, branches below and Spark."""

    def __init__(
        self, branch: Branch, run: SegmentRun, unions: dict[str, BranchUnion] | None = None, united: bool = False
    ) -> None:
        """``unite``: the events come from several branches, and perhaps not in the order in which they were read."""
        unions = {} if unions is None else unions
        united = united or branch.gathers is not None
        self._run = run
        self._steps = [_Step(node, run) for node in branch.steps]
        self._sink_writers = [(run.open_sink_writer(name), united and not run.accepts_any_order(name)) for name in branch.sinks]
        self._into = unions.setdefault(branch.into, BranchUnion()) if branch.into else None
        parts = [(part, CompiledBranch(part, run, unions, united)) for part in branch.branches]
        self._branches = [compiled for part, compiled in parts if not part.gathers]
        self._unions = [unions[part.gathers] for part, _ in parts if part.gathers]
        for part, compiled in parts:
            if part.gathers:
                unions[part.gathers].connect(compiled, part.incoming)
        self._emits, self._to, self._reports_times = branch.emits, branch.to, branch.reports_times
        writers = [writer for writer, _ in self._sink_writers]
        children: list[SinkWriter | SpoolingSinkWriter | CompiledBranch] = [*writers, *self._branches]
        self._leaves_views = not branch.emits and all(one.takes_views for one in children)
        self.takes_views: bool = self._steps[0].takes_views if self._steps else self._leaves_views

    def __call__(self, batch: pa.RecordBatch) -> None:
        for step in self._steps:
            if not batch.num_rows:
                return
            batch = step(batch)
        if not batch.num_rows:
            return
        if self._steps and CHANGE in batch.schema.names:
            batch = with_whole_pairs(batch)
        plain = batch if self._leaves_views else materialize(batch)
        for sink_writer, sorts in self._sink_writers:
            events = batch if sink_writer.takes_views else plain
            if self._run.taps is not None:
                self._run.taps.take(f"sink {sink_writer.name}", events)
            sink_writer.write(in_order(events) if sorts else events)
        for below in self._branches:
            below(batch if below.takes_views else plain)
        for union in self._unions:
            union.flush()
        if self._into is not None:
            self._into(batch)
        if self._emits:
            self._run.emit(plain, self._to, self._reports_times)

    def preview_unfiltered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch as it is before and after each step on the way to Spark; filters and rejections are undone.

        Events that a parser drops are missing after it: they lack its fields.
        """
        yield batch
        for step in self._steps:
            if not batch.num_rows:
                return
            outcome = step.preview(batch)
            rejected = sum(rejects.events.num_rows for rejects in outcome.rejects)
            filtered = outcome.events.num_rows + rejected < batch.num_rows
            batch = batch if filtered and outcome.events.schema.names == batch.schema.names else outcome.events
            yield batch
        for below in self._branches:
            yield from below.preview_unfiltered(batch)
        if self._into is not None:
            yield from self._into.preview_unfiltered(batch)


@dataclass
class _Step:
    """An opened step with its counts."""

    node: StepNode
    owner: SegmentRun
    takes_views: bool = field(init=False)
    counts: Counts = field(init=False)
    _open: Callable[[pa.RecordBatch], Outcome] = field(init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.node.step, ArrowStep)
        self.takes_views = self.node.step.takes_views
        self._may_multiply_events = self.node.step.may_multiply_events()
        self._open = self.node.step.open(self.node.incoming)
        self.counts = self.owner.counts(self._open)

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        """Run the step without changing its counters, for events that it also gets in the regular way."""
        self.owner.scope.enter_step(f"{self.node.id}\0preview")
        run = self._open.preview if isinstance(self._open, CountingOperator) else self._open
        return run(batch if self.takes_views else materialize(batch))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        began = time.perf_counter()
        self.owner.scope.enter_step(self.node.id)
        batch = batch if self.takes_views else materialize(batch)
        outcome, made = self._run_multiplying(batch) if self._may_multiply_events else (self._open(batch), 0)
        counts, dead = self.counts, 0
        counts.seconds += time.perf_counter() - began
        for rejects in outcome.rejects:
            dead += rejects.events.num_rows
            if self.node.reports:
                self.owner.reject(rejects, self.node.id)
        counts.incoming += batch.num_rows
        counts.left += outcome.events.num_rows
        counts.dead += dead
        counts.made += made
        counts.filtered += batch.num_rows + made - outcome.events.num_rows - dead
        if self.owner.taps is not None and self.node.reports:
            self.owner.taps.take(self.node.id, outcome.events)
        return outcome.events

    def _run_multiplying(self, batch: pa.RecordBatch) -> tuple[Outcome, int]:
        """Run a step that may make several events of one; also returns how many it added.

        Added events have the offset of their original. Where offsets repeat already, row numbers replace them for the step.
        """
        offsets = batch.column(OFFSET)
        if not _repeats(offsets):
            outcome = self._open(batch)
            return outcome, _repeats(outcome.events.column(OFFSET))
        outcome = self._open(with_columns(batch, {OFFSET: pa.array(range(batch.num_rows), pa.int64())}))
        rejects = [replace(one, events=_with_row_offsets(one.events, offsets)) for one in outcome.rejects]
        return Outcome(_with_row_offsets(outcome.events, offsets), rejects), _repeats(outcome.events.column(OFFSET))


def _with_row_offsets(events: pa.RecordBatch, offsets: pa.Array) -> pa.RecordBatch:
    """Replace row numbers in ``_offset`` by the offsets of these rows."""
    return with_columns(events, {OFFSET: offsets.take(events.column(OFFSET))})


def _repeats(offsets: pa.Array) -> int:
    """How many events have the same offset as the event before them: a step made them of the same event."""
    return int(pc.sum(pc.equal(offsets.slice(1), offsets.slice(0, max(len(offsets) - 1, 0))), min_count=0).as_py())
