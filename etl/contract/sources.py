"""What a source is: splits of what there is to read, or a receiver, or what Spark reads."""

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
"""Where a source stands: a JSON-able dict that only the source reads."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a micro-batch may reach.

    ``bounded`` says that the run ends when what is there now has been read: a source then takes what it holds
    back while following, such as a last line without its newline.
    """

    max_bytes: int
    max_events: int | None = None
    bounded: bool = False
    until: Offset | None = None
    """An earlier answer of `latest`, from the same run, that this one may not pass."""
    event_bytes: float | None = None
    """Mean size of this query's events so far, for sources that count events and not bytes; None before the first."""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: ``start`` to ``end`` (half open) of one partition of one source.

    ``detail`` is whatever else the source needs to find the data again; it must be picklable and a pure function
    of the offsets it was planned from.
    """

    partition: str
    start: int
    end: int
    detail: Any = None


class Source(Component):
    """Hands out splits of what there is to read, and reads them. Stateless: everything it must remember is in its offset.

    An OSError from `start`, `latest`, `splits`, `read` or `commit` (ConnectionError, TimeoutError …) is temporary: the engine
    says so, waits with growing pauses and asks again. A ComponentError ends the run.
    """

    host_bound: ClassVar[bool] = False
    """True when only one host has what it reads: such a source does not run on a cluster."""

    ordered: ClassVar[bool] = True
    """False when the offsets of a split's events do not grow: they name events, and do not tell their order."""

    probes_here: ClassVar[bool] = False
    """True when `probe` looks at this host only: every run asks it at its start, and warns of what it finds."""

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def fields(self) -> Schema:
        """The visible columns of its events."""
        raise NotImplementedError

    def probe(self) -> Iterable[Finding]:
        """For `etl lint --connect` and `--require-healthy`: reach the system, log in, look whether what the options name is
        there. Changes nothing; takes seconds at most. Empty when there is nothing to reach."""
        return ()

    def reads(self, target: str) -> bool:
        """Whether it would read what a sink writes to ``target``, one of `Sink.writes`."""
        return False

    def exclusive(self) -> Iterable[str]:
        """What it reads and no second source can at the same time, in words, such as ``standard input``."""
        return ()

    @property
    def skips(self) -> str | None:
        """The option, as it is written, that makes a new pipeline begin behind what is there; None when it begins before."""
        return None

    def silence(self, reached: Offset | None) -> str:
        """For the summary of a run that ended and read nothing of it: why, as a clause. ``reached`` is where earlier runs with
        the same state folder stood, None before the first. Asks no other host."""
        if reached is not None:
            return "nothing is new since the last run with this state folder; another --state reads all of it again"
        return f"`{self.skips}` begins behind what is there" if self.skips else "there was nothing to read"

    def start(self) -> Offset:
        """Where a new pipeline begins."""
        raise NotImplementedError

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Where a micro-batch that begins at ``start`` may end now; equal to ``start`` when nothing is new."""
        raise NotImplementedError

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """The work between two offsets, about ``parallelism`` equal parts; a pure function of its arguments and of
        data that does not change any more. Splits are in the order in which their events are to be delivered."""
        raise NotImplementedError

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """The split's events: columns of `fields` and ``_offset``. Repeatable: same split, same events. A batch without rows
        says that time passes: sinks look whether their `batch.timeout` is over."""
        raise NotImplementedError

    def commit(self, ends: Sequence[Offset]) -> None:
        """What each query that reads it has delivered, up to these offsets, is in all sinks: forget, mirror, delete what
        lies before all of them."""

    def ended(self, offset: Offset) -> bool:
        """Whether nothing can ever come behind ``offset``: a following run ends when all its sources have ended."""
        return False


class Receiver(Protocol):
    """What runs beside the driver for a `ReceivingSource`, from before its query to after it."""

    def start(self) -> None:
        """Begin to receive; raises ComponentError when it cannot."""

    def stop(self) -> None:
        """Receive no more. What is on disk stays for the next run."""

    def dropped(self) -> Mapping[str, int]:
        """How many events it could not take, by reason; for the summary of the run, after `stop`."""


class ReceivingSource(Source):
    """A source whose events come only once, over a pipe or socket: a receiver in the driver puts them on disk first."""

    host_bound: ClassVar[bool] = True

    closes: ClassVar[bool] = False
    """True when its input ends by itself, as a pipe does: ``--once`` then waits for that end. Without it ``--once`` reads
    what has been received."""

    def placed(self, folder: str) -> Self:
        """This source, with the folder its receiver fills; exists, and is kept between runs."""
        raise NotImplementedError

    def receiver(self) -> Receiver:
        """The receiver, not yet started."""
        raise NotImplementedError

    def silence(self, reached: Offset | None) -> str:
        """Nobody sent anything."""
        return "its input ended without an event" if self.closes else "nothing came; a run without --once waits for events"


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
