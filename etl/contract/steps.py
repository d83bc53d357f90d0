"""What a step is, and what it makes of a batch of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import pyarrow as pa

from etl.contract.components import Component
from etl.contract.errors import Finding
from etl.contract.tables import LookupTable
from etl.events import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Rejects:
    """Events that a source, step or sink could not take, each with its reason.

    ``events`` keeps the columns the component was given (a source may give a single ``message`` column beside
    ``_offset``); ``reasons`` is one text for all or a string array of the same length.
    """

    events: pa.RecordBatch
    code: str
    reasons: str | pa.StringArray


class Outcome(NamedTuple):
    """What a step made of a batch. Events neither kept nor rejected were filtered."""

    events: pa.RecordBatch
    rejects: Sequence[Rejects] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a step tells of one split beside its events. It travels to the driver with each split: no more than a few kB."""

    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Measure (``matches``) → name (a rule's) → amount; amounts are added up over splits."""
    state: Mapping[str, str | float] = field(default_factory=dict)
    """What holds now, such as a version; the last split's counts."""


@runtime_checkable
class Counting(Protocol):
    """What `ArrowStep.open` may return instead of a plain function: it counts, too, over one split."""

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        """Events, counted."""

    def look(self, batch: pa.RecordBatch) -> Outcome:
        """The same for events that come, or came, another time: nothing is counted."""

    def counts(self) -> Counted:
        """Asked once, when the split is done."""


class Step(Component):
    """One thing done to the events of a stream."""

    stateful: ClassVar[bool] = False
    """True when Spark keeps state between micro-batches for this step, or for one of its parts."""

    ends_state: ClassVar[bool] = False
    """True when Spark lets no step that keeps state follow it."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about this step in front of these fields: unknown fields, wrong types, bad patterns, which lane and why."""
        return ()

    def fields(self, incoming: Schema) -> Schema:
        """The fields of the events that leave. Total: where `check` has errors it gives its best guess."""
        raise NotImplementedError

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """The steps that it is made of, one behind the other, in front of these fields; most are made of themselves."""
        return (self,)

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        """The tables of the file that it looks into, by the path of the option that names each."""
        return {}

    def with_tables(self, tables: Mapping[str, LookupTable], folder: str | None = None) -> Self:
        """This step, with the tables that it names and, in a run, the folder that keeps them between runs."""
        return self


class ArrowStep(Step):
    """A row-wise step on record batches, run inside the task that read them."""

    takes_views: ClassVar[bool] = False
    """True when it reads text columns of type ``string_view`` too; any other step gets ordinary strings."""

    remembers: ClassVar[bool] = False
    """True when opening takes long and a process that has opened an equal step once does so at once: it is then opened before
    workers are forked. It may start no thread and hold no connection."""

    def spark_reason(self, incoming: Schema) -> str | None:
        """Why these options cannot run on Arrow, or None. A step that can give a reason is a `SparkStep` too."""
        return None

    def multiplies(self) -> bool:
        """Whether one event may leave as several: one behind the other, with the same ``_offset``."""
        return False

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What `etl explain` says of how it runs in front of these fields, a line each."""
        return ()

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Compile once a task. The function keeps ``_offset`` and any other column it does not know; one that counts is
        `Counting`."""
        raise NotImplementedError


class SparkStep(Step):
    """A step that Spark computes, on a DataFrame whose columns are flat (`` `source.ip` `` in backticks)."""

    def needs(self, incoming: Schema) -> frozenset[str] | None:
        """The incoming fields this step looks at, or None for all: the others are not handed to Spark."""
        return None

    def event_time(self) -> tuple[str, timedelta] | None:
        """The field and lateness of the watermark this step needs, or None."""
        return None

    def idle_after(self) -> timedelta | None:
        """After how much silence of its sources the step's windows are closed, or None for never."""
        return None

    def reach(self) -> timedelta:
        """How far past its latest event an open window of this step may end."""
        return timedelta(0)

    def output_mode(self) -> Literal["append", "update"]:
        """Spark's output mode for a query that ends in this step."""
        return "append"

    def apply(self, events: DataFrame) -> DataFrame:
        """events → events. The watermark of `event_time` is already set."""
        raise NotImplementedError
