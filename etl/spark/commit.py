"""After the tasks of a micro-batch: make their output visible in every sink, once, and add up what they did."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etl.api import BatchId
from etl.delivery.spool import SinkSpool
from etl.plan.model import Plan, QueryPlan, segments
from etl.receipts import Receipt
from etl.spark import pace
from etl.spark.drain import Drain
from etl.spark.query_context import QueryContext
from etl.spark.sink_end import SinkEnd
from etl.spark.state import StateFolder, read_json, read_numbers, write_json
from etl.spark.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path


class Commits:
    """The driver's end of all sinks of a run. Construction recovers what a killed run left behind."""

    def __init__(self, plan: Plan, state: StateFolder) -> None:
        outputs = {name: out for query in plan.queries for name, out in query.segment.outputs.items()}
        outputs[plan.dead_letters.name] = plan.dead_letters
        self._ends = {name: SinkEnd(output, state) for name, output in outputs.items()}
        self._dead = self._ends[plan.dead_letters.name]
        self._pipeline = plan.pipeline
        self._spools = state.spools

    def commit(self, batch: BatchId, receipts: Sequence[Receipt]) -> dict[str, int]:
        """Deliver what the tasks staged, in the order of what they read; a batch delivered before changes nothing. Returns
        for each sink the events that it took and that wait nevertheless."""
        ordered = sorted(receipts, key=lambda receipt: receipt.order)
        waiting = {}
        for name, end in self._ends.items():
            staged = [item for receipt in ordered for item in receipt.staged.get(name, ())]
            waiting[name] = end.commit(batch, staged, [item for r in ordered for item in r.spooled.get(name, ())])
        return waiting

    @contextmanager
    def draining(self, staging: Path, totals: Totals) -> Iterator[list[Drain]]:
        """Empty the spools while the body runs."""
        ends = [end for end in self._ends.values() if end.output.sink.on_failure == "spool" or not end.spool.is_empty]
        drains = [Drain(self._pipeline, end, self._dead, staging, totals) for end in ends]
        for drain in drains:
            drain.start()
        try:
            yield drains
        finally:
            for drain in drains:
                drain.stop()

    def waiting(self) -> dict[str, int]:
        """Sink → events that wait in its spool, where there are any."""
        return {name: events for name, end in self._ends.items() if (events := end.spool.pending_events)}

    def left_behind(self) -> list[str]:
        """What waits for sinks that the pipeline no longer has."""
        folders = sorted(self._spools.iterdir()) if self._spools.is_dir() else []
        spools = [SinkSpool(folder) for folder in folders if folder.name not in self._ends]
        return [
            f"{spool.pending_events} events wait in {spool.folder} for a sink that this pipeline no longer has; they stay there"
            for spool in spools
            if not spool.is_empty
        ]

    def tick(self) -> None:
        """Let sinks roll what is due."""
        for end in self._ends.values():
            end.tick()

    def close(self) -> None:
        """The run ends."""
        for end in self._ends.values():
            end.close()


@dataclass
class Batches:
    """What a query does when a micro-batch's tasks have run."""

    query: QueryPlan
    context: QueryContext
    commits: Commits
    totals: Totals

    def done(self, batch: BatchId, receipts: Sequence[Receipt]) -> None:
        """Commit, count, remember the event time, forget the staging folder."""
        folder = self.context.state.staging(self.context.run_id, self.context.query, batch.number)
        heads = _put_aside(folder / "receipts")
        waiting = self.commits.commit(batch, [*heads, *receipts])
        read: list[Receipt] = []
        for number, (segment, reads) in enumerate(segments(self.query.frame)):
            mine = [receipt for receipt in heads if receipt.part == number]
            read += mine if reads else []
            self.totals.add(self.query.name, segment, mine, emits=reads, results=False)
        self.totals.add(self.query.name, self.query.segment, receipts, emits=False)
        self.totals.put_back(waiting)
        self._time([*heads, *receipts])
        self._remember(receipts if self.query.frame is None else read)
        shutil.rmtree(folder, ignore_errors=True)

    def _time(self, receipts: Sequence[Receipt]) -> None:
        totals, now = self.totals, time.time()
        totals.batches += 1
        if any(receipt.read.came for receipt in receipts):
            totals.began = min([*(receipt.began for receipt in receipts), totals.began or now])
            totals.ended = now
        totals.lag_seconds = now - min((r.found for r in receipts if r.found is not None), default=now)

    def _remember(self, receipts: Sequence[Receipt]) -> None:
        """What the planning process wants to know before the next micro-batch."""
        home = self.context.state.query(self.context.query)
        if learned := pace.learned(read_numbers(home / "pace.json"), receipts, time.time()):
            write_json(home / "pace.json", learned)
        times = [r.event_time for r in receipts if r.event_time is not None]
        if times:
            known = read_numbers(home / "clock.json")
            latest = max([*times, known.get("event_time", min(times))])
            write_json(home / "clock.json", {"event_time": latest})
            self.totals.event_time = latest
        if self.context.limited:
            left = read_json(home / "limit.json") - sum(r.read.came for r in receipts)
            write_json(home / "limit.json", max(0, left))


def _put_aside(folder: Path) -> list[Receipt]:
    """Receipts of tasks whose rows went to Spark."""
    if not folder.is_dir():
        return []
    return [Receipt.decode(path.read_bytes()) for path in sorted(folder.iterdir())]
