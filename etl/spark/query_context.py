"""What a task knows: the run it belongs to, its part of the work, its micro-batch, and where it leaves things."""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import NO_BATCH, BatchId, Split
from etl.delivery.backoff import Backoff, StopFile
from etl.plan.model import Output
from etl.spark.state import StateFolder


@dataclass(frozen=True, kw_only=True)
class QueryContext:
    """What the tasks of one query must know of the run."""

    pipeline: str
    query: str
    run_id: str
    state: StateFolder
    dead_letters: Output
    parallelism: int
    max_batch_bytes: int
    once: bool
    """Whether the run reads what is there at its start, and no more."""
    drain: bool = False
    limited: bool = False
    """Whether ``limit.json`` of the query says how many more events this run may read."""
    readers: Mapping[str, int] = field(default_factory=dict)
    """How many reads of all queries share each source."""
    whole_batch: BatchId = NO_BATCH
    """The micro-batch where Spark gives none: a source that is read once as a whole."""

    def backoff(self, source: str) -> Backoff:
        """For a source that may be down."""
        return Backoff(f"source {source!r}", StopFile(self.state.stopping))


@dataclass(frozen=True)
class Part:
    """One task: a split of a source, or (no split) a tick of the clock."""

    order: int
    source: str
    split: Split | None
    tick: int | None = None
    found: float | None = None
    """When the planner saw the events, seconds since the epoch."""

    @property
    def name(self) -> str:
        """A text safe in file names that names what is read."""
        assert self.split is not None
        partition = hashlib.sha256(self.split.partition.encode()).hexdigest()[:16]
        return f"{self.source}-{partition}-{self.split.start:020d}-{self.split.end:020d}"


def current_batch(query: QueryContext) -> BatchId:
    """The micro-batch that this task belongs to, as the driver's commit calls it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    query_id = task.getLocalProperty("sql.streaming.queryId") if task else None
    if task is None or query_id is None:
        return query.whole_batch
    return BatchId(query_id, int(task.getLocalProperty("streaming.sql.batchId") or 0))


def made(folder: Path) -> Path:
    """The folder, created where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def report(staging: Path, error: BaseException) -> None:
    """Leave the error where the driver finds it whole: Spark would bury it."""
    text = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    try:
        name = f"{os.getpid()}-{time.time_ns()}.json"
        (made(staging / "errors") / name).write_text(json.dumps(text))
    except OSError:  # a full disk is what we may be reporting: Spark's own text must do
        pass
