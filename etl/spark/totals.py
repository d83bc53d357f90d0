"""What a run has done so far, summed over receipts; the balance ``in = out + filtered + dead + spooled`` is kept here."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etl.api import Counted
from etl.plan.model import Branch, Segment
from etl.receipts import Counts, Delivered, Receipt, Rejected
from etl.spark.step_measures import StepMeasures, TableInUse

MOST_TOLD = 100
"""Names of a step's measure in a log line; the file of metrics has all."""


@dataclass
class SinkTotals:
    """One sink over the run: of ``came`` events on the ways to it, and ``made`` of them there, ``taken`` arrived."""

    came: int = 0
    made: int = 0
    filtered: int = 0
    dead: int = 0
    taken: int = 0
    spooled: int = 0
    """Waiting in the spool; negative when more came out of it than went in, from an earlier run."""
    retries: int = 0
    flushes: dict[str, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether every event that set out is accounted for."""
        return self.came + self.made == self.taken + self.filtered + self.dead + self.spooled


@dataclass
class Totals:
    """A run's sums. Queries add to it from their own threads."""

    read: dict[str, Counts] = field(default_factory=dict)
    bytes: int = 0
    steps: dict[str, Counts] = field(default_factory=dict)
    measured: dict[str, StepMeasures] = field(default_factory=dict)
    """What steps told beside, such as the matches of each rule."""
    tables: dict[str, TableInUse] = field(default_factory=dict)
    sinks: dict[str, SinkTotals] = field(default_factory=dict)
    dead: int = 0
    rejected: dict[tuple[str, str], Rejected] = field(default_factory=dict)
    """Dead letters by where and code, with the first of each."""
    to_spark: dict[str, Counts] = field(default_factory=dict)
    """Per query with a Spark part: what its reading segments made of the events."""
    results: dict[str, int] = field(default_factory=dict)
    """Per query with a Spark part: events that came out of it."""
    late: dict[str, int] = field(default_factory=dict)
    """Per query: events that came after their window had closed, dropped by Spark."""
    dropped: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Per source with a receiver: events that the receiver could not take, by reason. They are in no other number."""
    batches: int = 0
    event_time: int | None = None
    lag_seconds: float = 0.0
    """From seeing new events to having delivered them, in the last micro-batch."""
    began: float | None = None
    """When the first split began to be read, seconds since the epoch."""
    ended: float | None = None
    """When the last micro-batch was delivered."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, query: str, segment: Segment, receipts: Sequence[Receipt], emits: bool, results: bool = True) -> None:
        """Add one segment's receipts of a micro-batch; ``results`` says that what came to it came out of Spark for good."""
        with self._lock:
            for receipt in receipts:
                self._add(query, segment, receipt, emits, results)

    def drained(self, sink: str, delivered: Delivered, events: int) -> None:
        """So many events left a sink's spool, and became this."""
        with self._lock:
            total = self.sinks.setdefault(sink, SinkTotals())
            total.spooled -= events
            self._written(total, delivered)

    def put_back(self, waiting: Mapping[str, int]) -> None:
        """So many events a sink, counted as taken, wait in its spool after all."""
        with self._lock:
            for sink, events in waiting.items():
                if events:
                    self.sinks[sink].taken -= events
                    self.sinks[sink].spooled += events

    @property
    def seconds(self) -> float:
        """From the first byte read to the last event delivered: the run without its start-up."""
        return self.ended - self.began if self.began is not None and self.ended is not None else 0.0

    def as_numbers(self) -> dict[str, Any]:
        """The sums as plain values, for a log that machines read."""
        sinks = {
            name: {
                "in": s.came,
                "made": s.made,
                "out": s.taken,
                "filtered": s.filtered,
                "dead": s.dead,
                "spooled": s.spooled,
                "retries": s.retries,
                "flushes": s.flushes,
            }
            for name, s in self.sinks.items()
        }
        read = sum(counts.came for counts in self.read.values())
        return {
            "events": read,
            "bytes": self.bytes,
            "dead": self.dead,
            "rejected": [
                {"at": at, "code": code, "events": one.events, "reason": one.reason, "example": one.example}
                for (at, code), one in self.rejected.items()
            ],
            "batches": self.batches,
            "sinks": sinks,
            "late": self.late,
            "steps": {name: one.as_numbers(MOST_TOLD) for name, one in self.measured.items()},
            "tables": {name: one.as_numbers(time.time()) for name, one in self.tables.items()},
            "dropped": {name: dict(reasons) for name, reasons in self.dropped.items() if reasons},
        }

    def _add(self, query: str, segment: Segment, receipt: Receipt, emits: bool, results: bool) -> None:
        for where, rejected in receipt.rejected.items():
            self.rejected.setdefault(where, Rejected()).add(rejected)
        root = receipt.source if receipt.source in segment.roots else ""
        counted = segment.counts_source.get(root, False)
        if counted:
            self.read.setdefault(receipt.source, Counts()).add(receipt.read)
            self.bytes += receipt.bytes_read
            self.dead += receipt.read.dead
        if not root and results:
            self.results[query] = self.results.get(query, 0) + receipt.read.came
        walk = _Walk(receipt)
        self._branch(segment.roots[root], walk, Counts(receipt.read.came, 0, 0, receipt.read.dead))
        if emits:
            spark = self.to_spark.setdefault(query, Counts())
            spark.add(walk.emitted)
            spark.dead += receipt.untimed
            spark.left -= receipt.untimed
            self.dead += receipt.untimed

    def _branch(self, branch: Branch, walk: _Walk, above: Counts) -> None:
        """``above``: came = events that set out on this way, filtered and dead = lost on it so far, made = added."""
        above = walk.entered[branch.gathers] if branch.gathers else above
        lost = Counts(above.came, 0, above.filtered, above.dead, above.made)
        for node in branch.steps:
            counts = walk.step()
            lost.filtered += counts.filtered
            lost.dead += counts.dead
            lost.made += counts.made
            if node.reports:
                self.steps.setdefault(node.id, Counts()).add(counts)
                if walk.counted is not None:
                    self.measured.setdefault(node.id, StepMeasures()).add(walk.counted)
                self.dead += counts.dead
        for name in branch.sinks:
            self._sink(name, walk.sink(), lost)
        if branch.into:
            walk.entered[branch.into].add(lost)
        for below in branch.branches:
            self._branch(below, walk, lost)
        if branch.emits:
            left = lost.came + lost.made - lost.filtered - lost.dead
            walk.emitted.add(replace(lost, left=left))

    def _sink(self, name: str, delivered: Delivered, lost: Counts) -> None:
        total = self.sinks.setdefault(name, SinkTotals())
        total.came += lost.came
        total.made += lost.made
        total.filtered += lost.filtered
        total.dead += lost.dead
        total.spooled += delivered.spooled
        self._written(total, delivered)

    def _written(self, total: SinkTotals, delivered: Delivered) -> None:
        total.taken += delivered.taken
        total.dead += delivered.dead
        total.retries += delivered.retries
        self.dead += delivered.dead
        for reason, times in delivered.flushes.items():
            total.flushes[reason] = total.flushes.get(reason, 0) + times


class _Walk:
    """A receipt's counters, handed out in the order in which the runner made them."""

    def __init__(self, receipt: Receipt) -> None:
        self._steps = enumerate(receipt.steps)
        self._counted = receipt.counted
        self._sinks = iter(receipt.sinks)
        self.emitted = Counts()
        self.entered: defaultdict[str, Counts] = defaultdict(Counts)
        """By union, what its branches made of the events that set out on the way to it."""
        self.counted: Counted | None = None
        """What the step told beside."""

    def step(self) -> Counts:
        place, counts = next(self._steps)
        self.counted = self._counted.get(place)
        return counts

    def sink(self) -> Delivered:
        return next(self._sinks)
