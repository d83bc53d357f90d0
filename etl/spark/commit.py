"""After the tasks of a micro-batch: make their output visible in every sink, once, and add up what they did."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from etl.api import BatchId, Committer
from etl.plan.model import Output, Plan, QueryPlan, segments
from etl.receipts import Receipt
from etl.spark import pace
from etl.spark.splits import Job, made
from etl.spark.state import State, read_json, write_json
from etl.spark.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class _Shared:
    """One sink's committer; queries take turns."""

    committer: Committer | None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Commits:
    """The committers of all sinks of a run. Construction recovers what a killed run left behind."""

    def __init__(self, plan: Plan, state: State) -> None:
        outputs = {name: out for query in plan.queries for name, out in query.segment.outputs.items()}
        outputs[plan.dead_letters.name] = plan.dead_letters
        self._sinks = {name: _Shared(_committer(output, state)) for name, output in outputs.items()}

    def commit(self, batch: BatchId, receipts: Sequence[Receipt]) -> None:
        """Deliver what the tasks staged, in the order of what they read; a batch delivered before changes nothing."""
        ordered = sorted(receipts, key=lambda receipt: receipt.order)
        for name, shared in self._sinks.items():
            if shared.committer is not None:
                staged = [item for receipt in ordered for item in receipt.staged.get(name, ())]
                with shared.lock:
                    shared.committer.commit(batch, staged)

    def tick(self) -> None:
        """Let sinks roll what is due."""
        for shared in self._sinks.values():
            if shared.committer is not None and shared.lock.acquire(blocking=False):
                try:
                    shared.committer.tick()
                finally:
                    shared.lock.release()

    def close(self) -> None:
        """The run ends."""
        for shared in self._sinks.values():
            if shared.committer is not None:
                with shared.lock:
                    shared.committer.close()


def _committer(output: Output, state: State) -> Committer | None:
    return output.sink.committer(str(made(state.sink(output.name))))


@dataclass
class Batches:
    """What a query does when a micro-batch's tasks have run."""

    query: QueryPlan
    job: Job
    commits: Commits
    totals: Totals

    def done(self, batch: BatchId, receipts: Sequence[Receipt]) -> None:
        """Commit, count, remember the event time, forget the staging folder."""
        folder = self.job.state.staging(self.job.run, self.job.query, batch.number)
        heads = _put_aside(folder / "receipts")
        self.commits.commit(batch, [*heads, *receipts])
        read: list[Receipt] = []
        for number, (segment, reads) in enumerate(segments(self.query.frame)):
            mine = [receipt for receipt in heads if receipt.part == number]
            read += mine if reads else []
            self.totals.add(self.query.name, segment, mine, emits=reads, results=False)
        self.totals.add(self.query.name, self.query.segment, receipts, emits=False)
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
        home = self.job.state.query(self.job.query)
        if learned := pace.learned(read_json(home / "pace.json") or {}, receipts, time.time()):
            write_json(home / "pace.json", learned)
        times = [r.event_time for r in receipts if r.event_time is not None]
        if times:
            known = read_json(home / "clock.json") or {}
            latest = max([*times, known.get("event_time", min(times))])
            write_json(home / "clock.json", {"event_time": latest})
            self.totals.event_time = latest
        if self.job.limited:
            left = read_json(home / "limit.json") - sum(r.read.came for r in receipts)
            write_json(home / "limit.json", max(0, left))


def _put_aside(folder: Path) -> list[Receipt]:
    """Receipts of tasks whose rows went to Spark."""
    if not folder.is_dir():
        return []
    return [Receipt.decode(path.read_bytes()) for path in sorted(folder.iterdir())]
