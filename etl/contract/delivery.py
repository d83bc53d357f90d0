"""What a task writes: micro-batches, their tasks, and what becomes of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from etl.contract.steps import Rejects


@dataclass(frozen=True, slots=True)
class BatchId:
    """A micro-batch: ``query`` is the id of the query's checkpoint (a new checkpoint is a new id), ``number`` counts up."""

    query: str
    number: int


NO_BATCH = BatchId("", 0)
"""Where no micro-batch is: steps tried without Spark."""


@dataclass(frozen=True, slots=True)
class Task:
    """Who writes: one sink, in one split of one micro-batch.

    ``split`` is a text safe in file names that names what was read, never who read it. ``folder`` is where the
    sink may stage files for this micro-batch: a folder of its own that exists, local or a URI of `pyarrow.fs`.
    ``schema`` is that of the batches to come, without hidden columns.

    ``(batch.query, sink, batch.number, split)`` is the key of a ledger: a split that is written again after a crash has the
    same four, another split never has. Entries of batches in front of one that was committed are never asked for again.
    """

    pipeline: str
    sink: str
    split: str
    folder: str
    schema: pa.Schema
    batch: BatchId = NO_BATCH
    identity: str = ""
    """What `IDENTITY` of all its events begins with."""
    part: int = 0
    """Which part of its query it runs in: a query with Spark steps has several, whose tasks may run side by side."""
    order: int = 0
    """Its place among the tasks of its part of the micro-batch, from 0: the same when the micro-batch is run again."""
    ordered: bool = False
    """Whether its events come in the order of their offsets, the same each time the split is read. Not so for results of Spark,
    which may be computed in another order, and for dead letters, which come as steps and sinks refuse them."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Output of a task that the driver's `Committer` has yet to make visible: picklable, with what it needs to know."""

    path: str
    bytes: int
    events: int
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a written batch: row numbers inside it.

    ``retryable`` are written again after a wait; ``rejected`` go to the dead letters. All others were accepted.
    """

    retryable: pa.Array | None = None
    rejected: Sequence[Rejects] = ()
    cause: str = ""
    """Why rows are retryable, for the message when attempts run out: host, port, cause."""
    after: float = 0.0
    """Seconds that the other side asks to wait before they are written again; ``retry.max_backoff`` bounds them."""


class Writer(Protocol):
    """A sink's open end inside a task."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Encoded bytes of each event (int64), or None when the sink cannot tell before it writes."""

    def write(self, batch: pa.RecordBatch) -> Result:
        """Take one bounded batch (hidden column ``_offset`` included). OSError means: all of it is retryable."""

    def close(self) -> Staged | None:
        """The split ended: flush, close, say what the driver needs. Called once, on success only."""

    def abort(self) -> None:
        """The split failed: release what is open and remove what was staged."""


class Committer(Protocol):
    """A sink's end in the driver. Its construction recovers what a killed run left behind."""

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Make a micro-batch visible, once: a batch committed before changes nothing. ``staged`` is in delivery order."""

    def tick(self) -> None:
        """Called about once a second between batches: roll what is due."""

    def close(self) -> None:
        """The run ends: finish what can be finished."""
