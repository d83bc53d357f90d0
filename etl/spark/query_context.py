"""What the tasks of a query know of the run: options, folders, micro-batch, and the split that a task reads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import NO_BATCH, BatchId, Split
from etl.delivery.backoff import Backoff, StopFile
from etl.plan.segments import Output
from etl.spark.planner_clock import PlannerClock
from etl.spark.state.folder import StateFolder


@dataclass(frozen=True, kw_only=True)
class QueryContext:
    """The values of a run that the tasks of one query need."""

    pipeline: str
    query: str
    run_id: str
    state: StateFolder
    dead_letters: Output
    parallelism: int
    max_batch_bytes: int
    max_ahead_seconds: float | None = None
    """How far event times may be ahead of the time of reading."""
    max_call_seconds: float = math.inf
    """How long a call of a source may take when micro-batches are planned."""
    durable: bool = True
    """Whether the state of stateful steps survives a power failure."""
    once: bool
    """Whether the run ends after reading the events that exist at its start."""
    drain: bool = False
    limited: bool = False
    """Whether the run has a limit of events; the query's ``limit.json`` holds the rest of it."""
    readers: Mapping[str, int] = field(default_factory=dict)
    """Source → number of reads, in all queries."""
    clock: PlannerClock | None = None
    """The clock by which micro-batches are planned; None for that of the machine."""
    has_clock: bool = False
    """Whether a clock of the query plans the micro-batches without events (`etl.spark.clock_planner`), as the planners of its
    sources cannot: Spark reads some of these itself."""
    whole_batch: BatchId = NO_BATCH
    """The micro-batch for a source that Spark reads once as a whole."""

    @property
    def clock_file(self) -> Path:
        """The file with the largest event time that is committed."""
        return self.state.query(self.query) / "clock.json"

    def backoff(self, source: str) -> Backoff:
        """A new backoff for a source."""
        return Backoff(f"source {source!r}", StopFile(self.state.stopping))


@dataclass(frozen=True)
class SplitTask:
    """One task: a split of a source, or (without split) an advance of the event time to ``tick`` (microseconds), or a micro-batch
    without events because intervals of results are over (``quiet``, microseconds)."""

    order: int
    source: str
    split: Split | None
    tick: int | None = None
    found: float | None = None
    """When the planner found the events, or that there are none, seconds since the epoch; in the offset, so a micro-batch that
    runs again has it. None at the end of all events."""
    ends: bool = False
    """Whether the event time advances because no more events come; otherwise because the sources are idle."""
    idle: frozenset[str] = frozenset()
    """Sources that are silent while others are read; in the offset, too."""
    quiet: frozenset[int] = frozenset()
    """Such intervals; in the offset, too."""
    joined: tuple[SplitTask, ...] | None = None
    """The other splits of the micro-batch, which this task reads as well; None if other tasks read them."""
    tasks: int = 1
    """Number of tasks that read the micro-batch."""

    @property
    def name(self) -> str:
        """A name for the task's input that is safe in file names."""
        assert self.split is not None
        partition = hashlib.sha256(self.split.partition.encode()).hexdigest()[:16]
        return f"{self.source}-{partition}-{self.split.start:020d}-{self.split.end:020d}"


def current_batch(query: QueryContext) -> BatchId:
    """The micro-batch of the running task, as the driver commits it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    query_id = task.getLocalProperty("sql.streaming.queryId") if task else None
    if task is None or query_id is None:
        return query.whole_batch
    return BatchId(query_id, int(task.getLocalProperty("streaming.sql.batchId") or 0))


def ensure_folder(folder: Path) -> Path:
    """Create the folder if it is missing, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def store_error(staging: Path, error: BaseException) -> None:
    """Store an error in a file for the driver, because Spark reports only its text among other lines."""
    text = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    try:
        name = f"{os.getpid()}-{time.time_ns()}.json"
        (ensure_folder(staging / "errors") / name).write_text(json.dumps(text))
    except OSError:  # a full disk is what we may be reporting: Spark's own text must do
        pass
