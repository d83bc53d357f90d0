"""A task's report about one split: counts, staged output, times. Nothing else returns to the driver."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from etl.api import SplitMeasures, Staged

OTHERS = "(others)"
"""The name for the sum of small amounts of a measure."""

NO_SEGMENT = -1
"""The segment number of a receipt that is of no segment: it only advances the event time, or names rows."""

ROWS_SEGMENTS = 1 << 16
"""The least segment number of a task that makes rows for a stateful step of what Spark gives, one for each input and upstream
step: beyond those of segments."""

LONGEST_EXAMPLE = 4096
"""Maximum number of characters of a dead letter's event in a report."""


@dataclass(slots=True)
class Counts:
    """Events at one step of a segment: ``incoming + made = left + filtered + dead``."""

    incoming: int = 0
    left: int = 0
    filtered: int = 0
    dead: int = 0
    made: int = 0
    """Further events, where one event became several."""
    seconds: float = field(default=0.0, compare=False)
    """Time in the step."""

    def add(self, other: Counts) -> None:
        """Sum in place."""
        self.incoming += other.incoming
        self.left += other.left
        self.filtered += other.filtered
        self.dead += other.dead
        self.made += other.made
        self.seconds += other.seconds


@dataclass(slots=True)
class Delivered:
    """Events at one sink: ``incoming = accepted + dead + spooled``, and why its buffer was written how often."""

    incoming: int = 0
    accepted: int = 0
    dead: int = 0
    spooled: int = 0
    retries: int = 0
    flushes: dict[str, int] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)
    """Time in the sink's writes."""

    def add(self, other: Delivered) -> None:
        """Sum in place."""
        self.incoming += other.incoming
        self.accepted += other.accepted
        self.dead += other.dead
        self.spooled += other.spooled
        self.retries += other.retries
        self.seconds += other.seconds
        for reason, times in other.flushes.items():
            self.flushes[reason] = self.flushes.get(reason, 0) + times


@dataclass(slots=True)
class RejectCount:
    """Dead letters of one code at one node: how many, and the first."""

    events: int = 0
    reason: str = ""
    example: str = ""
    """The event's text, at most `LONGEST_EXAMPLE` characters."""

    def add(self, other: RejectCount) -> None:
        """Sum in place; the first stays."""
        if not self.events:
            self.reason, self.example = other.reason, other.example
        self.events += other.events


@dataclass(frozen=True, slots=True)
class Spooled:
    """One sink's events of one split in a file, for the sink's spool.

    ``delivered`` events were accepted by the sink; the file is needed only if the commit of its staged output has to wait.
    """

    path: str
    source: str
    partition: str
    split: str
    identity: str
    schema: bytes
    """Schema of the events without hidden columns, serialized by Arrow."""
    events: int
    """Number of waiting events, without those that the sink rejected."""
    delivered: bool = False
    part: int = 0
    order: int = 0
    ordered: bool = False
    """These as in `Task`."""


@dataclass(slots=True)
class Receipt:
    """One split of one micro-batch, done.

    ``order`` sorts receipts as their events are to be delivered. ``steps`` are the counts of the
    root's steps, in the order of `etl.plan.segments.Branch.walk`; ``sinks`` are those of each occurrence, in this order.
    """

    source: str
    split: str
    order: int
    part: int = 0
    """Which of its query's segments before or between Spark steps it ran, as `etl.plan.frames.segments` counts them."""
    read: Counts = field(default_factory=Counts)
    bytes_read: int = 0
    steps: list[Counts] = field(default_factory=list)
    measures: dict[int, SplitMeasures] = field(default_factory=dict)
    """Further counts of steps, by their index in ``steps``."""
    sinks: list[Delivered] = field(default_factory=list)
    rejected: dict[tuple[str, str], RejectCount] = field(default_factory=dict)
    """Dead letters by node and code."""
    emitted: int = 0
    not_taken: int = 0
    """Events for Spark or a stateful step without an event time, or that the step rejects; they are dead letters."""
    unreported: int = 0
    """Those of them of which another query writes the dead letter."""
    staged: dict[str, list[Staged]] = field(default_factory=dict)
    spooled: dict[str, list[Spooled]] = field(default_factory=dict)
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Stage → the state files (`etl.state.manifest.StateFileEntry`) with the events as rows for its stateful step."""
    state: tuple[Any, ...] = ()
    """The state files that a stateful step wrote."""
    outcome: Any = None
    """The whole micro-batch (`etl.spark.lane.lane_batch.BatchOutcome`), where the task that read it has also run its parts."""
    late: int = 0
    """Events that are too late for the next stateful step."""
    over_limit: int = 0
    """Events that a stateful step dropped because their key had as many as its ``limit``."""
    event_times: dict[int, int] = field(default_factory=dict)
    """Number of an exchange → largest event time, microseconds since the epoch."""
    idle: frozenset[str] = frozenset()
    """Sources that are silent, so that no watermark waits for them."""
    quiet: frozenset[int] = frozenset()
    """Intervals of results that are over without events (`etl.api.WatermarkAdvance.quiet`)."""
    silence: Literal["idle", "ended"] | None = None
    """Why event time advances without events: the sources are idle, or no more events come and all that is open closes."""
    read_at: int | None = None
    """The time of reading of the micro-batch, microseconds since the epoch."""
    began: float = 0.0
    """Start of reading, seconds since the epoch."""
    seconds: float = 0.0
    found: float | None = None
    """Time at which the planner found the events, seconds since the epoch."""

    @property
    def event_time(self) -> int | None:
        """Largest event time of all, microseconds since the epoch."""
        return max(self.event_times.values(), default=None)

    def encode(self) -> bytes:
        """Bytes that travel through Spark, inside one run."""
        return pickle.dumps(self)

    @staticmethod
    def decode(data: bytes) -> Receipt:
        """The receipt that `encode` wrote."""
        receipt = pickle.loads(data)
        assert isinstance(receipt, Receipt)
        return receipt


def encode_all(receipts: Sequence[Receipt]) -> bytes:
    """The receipts of a task as bytes, which travel through Spark, inside one run."""
    return pickle.dumps(list(receipts))


def decode_all(data: bytes) -> list[Receipt]:
    """The receipts that `encode_all` wrote."""
    receipts: list[Receipt] = pickle.loads(data)
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    return receipts
