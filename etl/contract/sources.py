"""The base classes of sources: those read as splits, those with a receiver, and those that Spark reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import pyarrow as pa

from etl.contract.components import Component
from etl.contract.errors import Finding
from etl.contract.steps import Rejects
from etl.events import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offset = dict[str, Any]
"""How far a source has been read: a JSON object that only the source interprets."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of a micro-batch.

    ``bounded``: the run ends when all present input has been read. A source then also reads what it otherwise holds back, such as
    a last line without a newline.
    """

    max_bytes: int
    max_events: int | None = None
    bounded: bool = False
    until: Offset | None = None
    """An earlier result of `latest` in the same run, which must not be exceeded."""
    event_bytes: float | None = None
    """Mean size of this query's events so far, for sources that count events and not bytes; None before the first."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What exists after an offset, about: events, bytes, or both; None for what is not known without reading."""

    events: int | None = None
    bytes: int | None = None
    notifications: int | None = None
    """Messages of a queue that announce input, and that it still holds; None without such a queue."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known to exist."""
        return not self.events and not self.bytes


@dataclass(frozen=True, slots=True)
class PublishedEvents:
    """What a sink of a pipeline writes: its targets, as `Source.reads` knows them, and the fields of its events."""

    pipeline: str
    targets: Sequence[str]
    fields: Schema


@dataclass(frozen=True, slots=True)
class Split:
    """The input of one task: ``start`` to ``end`` (exclusive) of one partition of one source.

    ``detail`` is whatever else the source needs to find the data again; it must be picklable and a pure function
    of the offsets it was planned from.
    """

    partition: str
    start: int
    end: int
    detail: Any = None


class Source(Component):
    """Plans splits of its input and reads them. It has no state: everything it needs later is in its offsets.

    An OSError from `start`, `latest`, `splits`, `read` or `commit` (ConnectionError, TimeoutError …) is temporary: the engine
    logs a notice and retries with growing pauses. A ComponentError ends the run.
    """

    ordered: ClassVar[bool] = True
    """False when the offsets of a split's events do not grow: they identify events, but do not order them."""

    @property
    def probes_here(self) -> bool:
        """True when `probe` uses this host only: each run calls it at its start, and shows its findings as warnings. The finding
        ``missing-input``, of an input that the options name and that does not exist, ends the first run with ``--once``."""
        return False

    @property
    def host_bound(self) -> bool:
        """True when its input exists on one host only: such a source does not run on a cluster."""
        return False

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def fields(self) -> Schema:
        """The visible columns of its events."""
        raise NotImplementedError

    def probe(self) -> Iterable[Finding]:
        """Check, for `etl lint --connect` and `--require-healthy`, that the system is reachable, the login is accepted and the
        named objects exist. Changes nothing and takes at most seconds. Empty without an outside system."""
        return ()

    def reads(self, target: str) -> bool:
        """Whether it reads what a sink writes to ``target``, one of `Sink.writes`."""
        return False

    def check_published(self, published: Sequence[PublishedEvents]) -> Iterable[Finding]:
        """For `etl lint`, of a source that reads what pipelines of this machine publish: findings, given what the sinks of all
        pipelines write that are checked with it or are in the same folder."""
        return ()

    def exclusive(self) -> Iterable[str]:
        """Names of inputs that no second source can read at the same time, such as ``standard input``."""
        return ()

    @property
    def skips(self) -> str | None:
        """The option, as written in the file, that makes a new pipeline skip present input; None when it reads all."""
        return None

    def explain_no_events(self, committed: Offset | None) -> str:
        """Why a run that has ended read nothing, as a clause for the run's summary; without connecting to another host.

        ``committed`` is the offset that earlier runs with the same state folder have committed, None before the first.
        """
        if committed is not None:
            return "nothing is new since the last run with this state folder; another --state reads all of it again"
        return f"`{self.skips}` begins after what exists" if self.skips else "there was nothing to read"

    def reading_sample(self, path: str) -> Self | None:
        """For tests of pipelines: this source, reading the sample in a file to its end; None if samples are lines of text."""
        return None

    @property
    def has_receiver(self) -> bool:
        """Whether its `receiver` runs in the driver."""
        return False

    def with_folder(self, folder: str) -> Self:
        """This source with a folder in the pipeline's state, which is kept between runs and exists if there is a receiver."""
        return self

    def receiver(self) -> Receiver:
        """What receives in the driver while its queries run, not yet started. Called where `has_receiver` is true."""
        raise NotImplementedError

    def start(self) -> Offset:
        """The first offset of a new pipeline."""
        raise NotImplementedError

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """The end offset of a micro-batch that begins at ``start``; equal to ``start`` when there is no new input."""
        raise NotImplementedError

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """The splits between two offsets: about ``parallelism`` of equal size, in delivery order. A pure function of its
        arguments and of data that does not change any more."""
        raise NotImplementedError

    def size(self, split: Split) -> int:
        """About how many events or bytes a split has, or more: splits of few are read by one task."""
        return split.end - split.start

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read the split's events: columns of `fields` and ``_offset``. The same split always gives the same events. A batch
        without rows lets sinks check their `batch.timeout`."""
        raise NotImplementedError

    def commit(self, ends: Sequence[Offset]) -> None:
        """All sinks have the events before these offsets, one for each query that reads the source: input before all of them
        may be deleted or acknowledged."""

    def backlog(self, after: Offset) -> Backlog | None:
        """For monitoring, every few seconds: what exists now after an offset; None if that is not known. Whatever it raises is
        ignored."""
        return None

    def ended(self, offset: Offset) -> bool:
        """Whether no input can follow ``offset``: a following run ends when all its sources have ended."""
        return False


class Receiver(Protocol):
    """Receives the events of a `ReceivingSource`, or what tells another source about new input, in the driver: from before the
    start of its query until after its end."""

    def start(self) -> None:
        """Start receiving. Raises ComponentError when it cannot."""

    def stop(self) -> None:
        """Stop receiving. Events on disk stay for the next run."""

    def dropped(self) -> Mapping[str, int]:
        """Reason → number of events that it dropped; for the run's summary, after `stop`."""


class ReceivingSource(Source):
    """A source whose events come only once, over a pipe or socket: a receiver in the driver stores them on disk first."""

    closes: ClassVar[bool] = False
    """True when its input ends by itself, as a pipe does: ``--once`` then waits for that end. Without it ``--once`` reads
    what has been received."""

    @property
    def host_bound(self) -> bool:
        """True: the host that it sends to, or whose pipe it is, receives."""
        return True

    @property
    def has_receiver(self) -> bool:
        """True."""
        return True

    def with_folder(self, folder: str) -> Self:
        """This source with the folder of its receiver's events, which exists and is kept between runs."""
        raise NotImplementedError

    def receiver(self) -> Receiver:
        """The receiver, not yet started."""
        raise NotImplementedError

    def explain_no_events(self, committed: Offset | None) -> str:
        """The reason when no event was received."""
        return (
            "its input ended without an event" if self.closes else "no event was received; a run without --once waits for events"
        )


class FrameSource(Component):
    """A source that Spark itself reads: its events enter as a DataFrame."""

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def fields(self) -> Schema:
        """The visible columns of its events, flat."""
        raise NotImplementedError

    @property
    def streaming(self) -> bool:
        """False when the source ends by itself and is read once as a whole."""
        raise NotImplementedError

    def load(self, session: SparkSession) -> DataFrame:
        """The source's DataFrame with nested columns, streaming or not as `streaming` says."""
        raise NotImplementedError
