"""The totals of a run, summed over receipts. Invariant: ``in = out + filtered + dead + spooled``."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from etl.api import SplitMeasures
from etl.plan.segments import Branch, Segment
from etl.receipts import Counts, Delivered, Receipt, RejectCount
from etl.spark.reports.step_measures import StepMeasures, TableInUse

MAX_LOGGED_NAMES = 100
"""Maximum number of names of a step's measure in a log line; the metrics file has all."""


@dataclass(slots=True)
class SinkTotals(Delivered):
    """Numbers of events of one sink.

    ``incoming`` events entered the branches that lead to it. Steps on these branches added ``made`` events (such as `unnest`),
    removed ``filtered`` and rejected some of ``dead``, the sink the others. The sink accepted ``accepted``. ``spooled`` are
    events added to the spool minus those delivered from it; negative if it held events of an earlier run.
    """

    made: int = 0
    filtered: int = 0

    @property
    def is_balanced(self) -> bool:
        """Whether every event is accounted for."""
        return self.incoming + self.made == self.accepted + self.filtered + self.dead + self.spooled


class SourceLag(NamedTuple):
    """How far a source was behind at the last measurement."""

    events: int | None
    """Events that existed and were not delivered; None if that is not known."""
    complete: float
    """All events that existed at this time are delivered; seconds since the epoch."""
    bytes: int | None = None
    """Bytes that existed and were not delivered; None if that is not known."""
    notifications: int | None = None
    """Messages of the source's queue about new input that it still holds; None without a queue."""

    def seconds(self, now: float) -> float:
        """The age of the oldest events that are not delivered, or more; 0 if there are none."""
        return round(max(0.0, now - self.complete), 3) if self.events or self.bytes else 0.0


@dataclass
class Totals:
    """The totals of a run; queries add to them from several threads."""

    read: dict[str, Counts] = field(default_factory=dict)
    bytes: int = 0
    steps: dict[str, Counts] = field(default_factory=dict)
    measured: dict[str, StepMeasures] = field(default_factory=dict)
    """Step → its measures, such as the matches of each rule."""
    tables: dict[str, TableInUse] = field(default_factory=dict)
    sinks: dict[str, SinkTotals] = field(default_factory=dict)
    dead: int = 0
    rejected: dict[tuple[str, str], RejectCount] = field(default_factory=dict)
    """Dead letters by origin and code, with an example of each."""
    to_spark: dict[str, Counts] = field(default_factory=dict)
    """Query with Spark steps → counts of its reading segments."""
    results: dict[str, int] = field(default_factory=dict)
    """Query with Spark steps → events in Spark's results."""
    late: dict[str, int] = field(default_factory=dict)
    """Query → events dropped because their window was closed."""
    over_limit: dict[str, int] = field(default_factory=dict)
    """Query → events dropped because their key had as many as the `limit` of a step."""
    dropped: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Source with a receiver → events that the receiver dropped, by reason. No other total includes them."""
    lags: dict[tuple[str, str], SourceLag] = field(default_factory=dict)
    """Source and query → how far it is behind, for sources that know it."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Query → the event time (microseconds) before which it expects no more events."""
    batches: int = 0
    event_time: int | None = None
    lag_seconds: float = 0.0
    """Seconds from finding new events to their delivery, in the last micro-batch."""
    began: float | None = None
    """Start of reading the first split, seconds since the epoch."""
    ended: float | None = None
    """Delivery of the last micro-batch, seconds since the epoch."""
    created: float = field(default_factory=time.time)
    """When the counters were 0, seconds since the epoch."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, query: str, segment: Segment, receipts: Sequence[Receipt], emits: bool, results: bool = True) -> None:
        """Add one segment's receipts of a micro-batch; ``results``: its input counts as Spark's results."""
        with self._lock:
            for receipt in receipts:
                self._add(query, segment, receipt, emits, results)

    def add_rejected(self, receipts: Sequence[Receipt]) -> None:
        """Count events that no segment gave, and that a stateful step rejected."""
        with self._lock:
            for receipt in receipts:
                self._add_rejected(receipt)

    def add_dropped(self, query: str, late: int, over_limit: int) -> None:
        """Count events that stateful steps of a query dropped."""
        with self._lock:
            self.late[query] = self.late.get(query, 0) + late
            self.over_limit[query] = self.over_limit.get(query, 0) + over_limit

    def add_drained(self, sink: str, delivered: Delivered, events: int) -> None:
        """Count ``events`` that left a sink's spool, with the result of their delivery."""
        with self._lock:
            self._add_sink(sink, replace(delivered, spooled=-events), Counts())

    def put_back(self, waiting: Mapping[str, int]) -> None:
        """Correct the counts of sinks: these events, counted as delivered, wait in the spool."""
        with self._lock:
            for sink, events in waiting.items():
                if events:
                    self.sinks[sink].accepted -= events
                    self.sinks[sink].spooled += events

    @property
    def seconds(self) -> float:
        """Seconds from the first read to the last delivery: the run without its start-up."""
        return self.ended - self.began if self.began is not None and self.ended is not None else 0.0

    def as_numbers(self) -> dict[str, Any]:
        """The totals as plain values, for JSON."""
        sinks = {
            name: {
                "in": s.incoming,
                "made": s.made,
                "out": s.accepted,
                "filtered": s.filtered,
                "dead": s.dead,
                "spooled": s.spooled,
                "retries": s.retries,
                "flushes": s.flushes,
            }
            for name, s in self.sinks.items()
        }
        read = sum(counts.incoming for counts in self.read.values())
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
            "over_limit": self.over_limit,
            "steps": {name: one.as_numbers(MAX_LOGGED_NAMES) for name, one in self.measured.items()},
            "tables": {name: one.as_numbers(time.time()) for name, one in self.tables.items()},
            "dropped": {name: dict(reasons) for name, reasons in self.dropped.items() if reasons},
        }

    def _add(self, query: str, segment: Segment, receipt: Receipt, emits: bool, results: bool) -> None:
        self._add_rejected(receipt)
        root = receipt.source if receipt.source in segment.roots else ""
        counted = segment.counts_source.get(root, False)
        if counted:
            self.read.setdefault(receipt.source, Counts()).add(receipt.read)
            self.bytes += receipt.bytes_read
            self.dead += receipt.read.dead
        elif not root:
            self.dead += receipt.read.dead  # results of a step that could not be computed
        if not root and results:
            self.results[query] = self.results.get(query, 0) + receipt.read.incoming
        counters = _CounterReader(receipt)
        self._add_branch(segment.roots[root], counters, Counts(receipt.read.incoming, 0, 0, receipt.read.dead))
        if emits:
            spark = self.to_spark.setdefault(query, Counts())
            spark.add(counters.emitted)
            spark.dead += receipt.not_taken
            spark.left -= receipt.not_taken

    def _add_rejected(self, receipt: Receipt) -> None:
        for where, rejected in receipt.rejected.items():
            self.rejected.setdefault(where, RejectCount()).add(rejected)
        self.dead += receipt.not_taken - receipt.unreported

    def _add_branch(self, branch: Branch, counters: _CounterReader, entered: Counts) -> None:
        """Add the counts of a branch; ``entered`` counts the path to it: events at its start, filtered, dead and added ones."""
        entered = counters.entered[branch.gathers] if branch.gathers else entered
        path = Counts(entered.incoming, 0, entered.filtered, entered.dead, entered.made)
        for node in branch.steps:
            counts = counters.step()
            path.filtered += counts.filtered
            path.dead += counts.dead
            path.made += counts.made
            if node.reports:
                self.steps.setdefault(node.id, Counts()).add(counts)
                if counters.measures is not None:
                    self.measured.setdefault(node.id, StepMeasures()).add(counters.measures)
                self.dead += counts.dead
        for name in branch.sinks:
            self._add_sink(name, counters.sink(), path)
        if branch.into:
            counters.entered[branch.into].add(path)
        for below in branch.branches:
            self._add_branch(below, counters, path)
        if branch.emits:
            left = path.incoming + path.made - path.filtered - path.dead
            counters.emitted.add(replace(path, left=left))

    def _add_sink(self, name: str, delivered: Delivered, path: Counts) -> None:
        """``path`` counts the path to the sink, as in `_add_branch`; the sink's own incoming events are what is left of it."""
        total = self.sinks.setdefault(name, SinkTotals())
        total.add(replace(delivered, incoming=path.incoming, dead=delivered.dead + path.dead))
        total.made += path.made
        total.filtered += path.filtered
        self.dead += delivered.dead


class _CounterReader:
    """A receipt's counters in the order in which `SegmentRun` created them."""

    def __init__(self, receipt: Receipt) -> None:
        self._steps = enumerate(receipt.steps)
        self._measures = receipt.measures
        self._sinks = iter(receipt.sinks)
        self.emitted = Counts()
        self.entered: defaultdict[str, Counts] = defaultdict(Counts)
        """Union → the counts of the paths that lead to it."""
        self.measures: SplitMeasures | None = None
        """The measures of the current step."""

    def step(self) -> Counts:
        index, counts = next(self._steps)
        self.measures = self._measures.get(index)
        return counts

    def sink(self) -> Delivered:
        return next(self._sinks)
