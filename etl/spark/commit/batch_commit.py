"""The end of a micro-batch in the driver: commit its output to every sink, exactly once, and add up its receipts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etl.api import BatchId
from etl.delivery.driver_calls import DriverCalls
from etl.delivery.spool import SinkSpool
from etl.plan.frames import segments
from etl.plan.query_plan import Plan, QueryPlan
from etl.receipts import ROWS_SEGMENTS, Receipt
from etl.spark import pace
from etl.spark.commit.sink_committer import SinkCommitter
from etl.spark.commit.spool_drain import SpoolDrain
from etl.spark.query_context import QueryContext
from etl.spark.reports.totals import Totals
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_json, read_numbers, write_json

if TYPE_CHECKING:
    from pathlib import Path


class SinkCommitters:
    """The `SinkCommitter` of each sink of a run. Construction repairs the state of a killed run."""

    def __init__(self, plan: Plan, state: StateFolder, calls: DriverCalls) -> None:
        """``calls``: where calls of sinks are recorded while they run."""
        outputs = {name: out for query in plan.queries for name, out in query.segment.outputs.items()}
        outputs[plan.dead_letters.name] = plan.dead_letters
        self._ends = {name: SinkCommitter(output, state, calls) for name, output in outputs.items()}
        self._dead = self._ends[plan.dead_letters.name]
        self._pipeline = plan.pipeline
        self._spools = state.spools

    def commit(self, batch: BatchId, receipts: Sequence[Receipt]) -> dict[str, int]:
        """Commit the staged output of the tasks in the order of their input; repeating it changes nothing.

        Returns for each sink the number of accepted events that wait until its spool is delivered.
        """
        ordered = sorted(receipts, key=lambda receipt: receipt.order)
        waiting = {}
        for name, end in self._ends.items():
            staged = [item for receipt in ordered for item in receipt.staged.get(name, ())]
            waiting[name] = end.commit(batch, staged, [item for r in ordered for item in r.spooled.get(name, ())])
        return waiting

    @contextmanager
    def run_drains(self, staging: Path, totals: Totals) -> Iterator[list[SpoolDrain]]:
        """Run a drain for each spool while the body runs."""
        ends = [end for end in self._ends.values() if end.output.sink.on_failure == "spool" or not end.spool.is_empty]
        drains = [SpoolDrain(self._pipeline, end, self._dead, staging, totals) for end in ends]
        for drain in drains:
            drain.start()
        try:
            yield drains
        finally:
            for drain in drains:
                drain.stop()

    def count_spooled(self) -> dict[str, int]:
        """Sink → number of events in its spool, without empty ones."""
        return {name: events for name, end in self._ends.items() if (events := end.spool.pending_events)}

    def orphaned_spools(self) -> list[str]:
        """Messages about spools of sinks that the pipeline no longer has."""
        folders = sorted(self._spools.iterdir()) if self._spools.is_dir() else []
        spools = [SinkSpool(folder) for folder in folders if folder.name not in self._ends]
        return [
            f"{spool.pending_events} events wait in {spool.folder} for a sink that this pipeline no longer has; they stay there"
            for spool in spools
            if not spool.is_empty
        ]

    def tick(self) -> None:
        """Let all committers do their periodic work."""
        for end in self._ends.values():
            end.tick()

    def close(self) -> None:
        """Close all committers at the end of the run, also after one that fails."""
        with ExitStack() as stack:
            for end in reversed(self._ends.values()):
                stack.callback(end.close)


@dataclass
class BatchCompletion:
    """Completes the micro-batches of a query after their tasks have run."""

    query: QueryPlan
    context: QueryContext
    commits: SinkCommitters
    totals: Totals

    def complete(
        self, batch: BatchId, receipts: Sequence[Receipt], before: Sequence[Receipt] = (), event_time: int | None = None
    ) -> None:
        """Commit, count, save the event time, remove the staging folder.

        ``receipts`` are those of the last segment; ``before`` those of segments before it that are not in files;
        ``event_time`` is the largest one that no receipt has.
        """
        folder = self.context.state.staging(self.context.run_id, self.context.query, batch.number)
        heads = [*_stored_receipts(folder / "receipts"), *before]
        waiting = self.commits.commit(batch, [*heads, *receipts])
        read: list[Receipt] = []
        for number, (segment, reads) in enumerate(segments(self.query.frame)):
            mine = [receipt for receipt in heads if receipt.part == number]
            read += mine if reads else []
            self.totals.add(self.query.name, segment, mine, emits=reads, results=False)
        self.totals.add_rejected([receipt for receipt in heads if receipt.part >= ROWS_SEGMENTS])
        self.totals.add(self.query.name, self.query.segment, receipts, emits=False)
        self.totals.put_back(waiting)
        self._time_batch([*heads, *receipts])
        self._save_planning_state(receipts if self.query.frame is None else read, event_time)
        shutil.rmtree(folder, ignore_errors=True)

    def _time_batch(self, receipts: Sequence[Receipt]) -> None:
        totals, now = self.totals, time.time()
        totals.batches += 1
        if any(receipt.read.incoming for receipt in receipts):
            totals.began = min([*(receipt.began for receipt in receipts), totals.began or now])
            totals.ended = now
        totals.lag_seconds = now - min((r.found for r in receipts if r.found is not None), default=now)

    def _save_planning_state(self, receipts: Sequence[Receipt], event_time: int | None) -> None:
        """Save what the planner needs for the next micro-batch: speed, event time, remaining limit."""
        home = self.context.state.query(self.context.query)
        if learned := pace.learn_speed(read_numbers(home / "pace.json"), receipts, time.time()):
            write_json(home / "pace.json", learned)
        times = [time for time in (event_time, *(r.event_time for r in receipts)) if time is not None]
        if times:
            known = read_numbers(home / "clock.json")
            latest = max([*times, known.get("event_time", min(times))])
            write_json(home / "clock.json", {"event_time": latest})
            self.totals.event_time = latest
        if self.context.limited:
            left = read_json(home / "limit.json") - sum(r.read.incoming for r in receipts)
            write_json(home / "limit.json", max(0, left))


def _stored_receipts(folder: Path) -> list[Receipt]:
    """Receipts of tasks whose output went to Spark: they are in files."""
    if not folder.is_dir():
        return []
    return [Receipt.decode(path.read_bytes()) for path in sorted(folder.iterdir())]
