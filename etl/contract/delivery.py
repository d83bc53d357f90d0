"""Delivery to a sink: micro-batches, tasks, writers, committers and their results."""

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
"""The id outside of a micro-batch: steps that run without Spark."""


@dataclass(frozen=True, slots=True)
class Task:
    """Writing one split of one micro-batch to one sink.

    ``split`` is a name, safe in file names, for the input that was read; it does not depend on the process that reads. ``folder``
    is an existing folder for the sink's staged files of this micro-batch: a local path or a URI of `pyarrow.fs`. ``schema`` is
    that of the batches, without hidden columns.

    ``(batch.query, sink, batch.number, split)`` is a key for ledgers: a split that is written again after a crash has the same
    key, and no other split has it. Entries of micro-batches before the last committed one are not needed any more.
    """

    pipeline: str
    sink: str
    split: str
    folder: str
    schema: pa.Schema
    batch: BatchId = NO_BATCH
    identity: str = ""
    """Prefix of `IDENTITY` of all its events."""
    part: int = 0
    """Number of the segment in its query; a query with Spark steps has several, whose tasks may run in parallel."""
    order: int = 0
    """Index among the tasks of its segment and micro-batch, from 0; the same when the micro-batch runs again."""
    ordered: bool = False
    """Whether its events are in the order of their offsets, the same each time the split is read. False for results of Spark,
    whose order may differ, and for dead letters, which come from several steps and sinks."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Output of a task that the driver's `Committer` makes visible later. Picklable; ``detail`` is for the committer."""

    path: str
    bytes: int
    events: int
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of writing a batch.

    ``retryable`` are numbers of rows that are written again after a backoff; ``rejected`` rows go to the dead letters. The sink
    has accepted all other rows.
    """

    retryable: pa.Array | None = None
    rejected: Sequence[Rejects] = ()
    cause: str = ""
    """Why rows are retryable, for messages: host, port, cause."""
    after: float = 0.0
    """Minimum seconds before the retry, as the server asks for; at most ``retry.max_backoff`` is used."""


class Writer(Protocol):
    """Writes one split to a sink, inside a task."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Encoded bytes of each event (int64), or None when they are unknown before writing."""

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write one bounded batch, which has the hidden column ``_offset``. An OSError means that all of it is retryable."""

    def close(self) -> Staged | None:
        """Flush and close at the end of the split, and return what the committer needs. Called once, on success only."""

    def abort(self) -> None:
        """The split failed: close everything and remove staged output."""


class Committer(Protocol):
    """Commits the micro-batches of a sink, in the driver. Its construction repairs the state of a killed run."""

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Make a micro-batch visible; committing it again changes nothing. ``staged`` is in delivery order."""

    def tick(self) -> None:
        """Periodic work, such as rolling files. Called about once a second between micro-batches."""

    def close(self) -> None:
        """The end of the run: finish pending work."""
