"""The base classes of steps, and their results."""

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
    """Events that a source, step or sink rejects, each with a reason.

    ``events`` keeps the columns the component was given (a source may give a single ``message`` column beside
    ``_offset``); ``reasons`` is one text for all or a string array of the same length.
    """

    events: pa.RecordBatch
    code: str
    reasons: str | pa.StringArray


class Outcome(NamedTuple):
    """A step's result for a batch. Events that are neither in ``events`` nor rejected were filtered."""

    events: pa.RecordBatch
    rejects: Sequence[Rejects] = ()


@dataclass(frozen=True, slots=True)
class SplitMeasures:
    """What a step measured during one split. Sent to the driver with each split: at most a few kB."""

    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Measure, such as ``matches`` → name, such as a rule's → amount; the driver adds up the amounts of all splits."""
    state: Mapping[str, str | float] = field(default_factory=dict)
    """Current values, such as a version; of several splits the driver uses the last one's."""


@runtime_checkable
class CountingOperator(Protocol):
    """A function of batches that also counts, over one split; `ArrowStep.open` may return one."""

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        """Process a batch and count."""

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        """Process a batch without counting, because a call also processes its events."""

    def measures(self) -> SplitMeasures:
        """Return what was counted; called once, at the end of the split."""


class Step(Component):
    """One operation on the events of a stream."""

    stateful: ClassVar[bool] = False
    """True if Spark keeps state between micro-batches for this step, or for one of the steps that it consists of."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Find problems of this step with these incoming fields: unknown fields, wrong types, bad patterns, a slow lane."""
        return ()

    def fields(self, incoming: Schema) -> Schema:
        """Return the fields of the output. Never raises: if `check` finds errors, the result is a best guess."""
        raise NotImplementedError

    def takes_changes(self) -> bool:
        """Return whether the step is right for events that add, replace or remove rows of a result (`etl.contract.changelogs`):
        what it makes of an event depends on the event's fields only, or it undoes what it made of a row that is removed."""
        return False

    def keeps_values(self, name: str) -> bool:
        """Return whether the events that it passes on have the value that this field had before."""
        return False

    def fields_depend_on(self, path: Sequence[str | int]) -> bool:
        """Whether the output fields may change when the option at this path, which has an error, is corrected."""
        return True

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """Return the steps that it is executed as, in order, for these incoming fields; most steps are one."""
        return (self,)

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        """Path of an option → the look-up table that it names."""
        return {}

    def with_tables(self, tables: Mapping[str, LookupTable], folder: str | None = None) -> Self:
        """This step with the tables that it names and, in a run, the folder of their files."""
        return self


class ArrowStep(Step):
    """A row-wise step on record batches, run inside the task that read them."""

    takes_views: ClassVar[bool] = False
    """True if it also accepts text columns of type ``string_view``; other steps get ordinary strings."""

    opens_before_fork: ClassVar[bool] = False
    """True if the step is opened before workers are forked, because opening takes long and its result is cached in the process.
    Opening must not start threads or hold connections."""

    def spark_reason(self, incoming: Schema) -> str | None:
        """Return why these options cannot run on Arrow, or None. A step that can return a reason is also a `SparkStep`, or
        `parts` has one before it that computes what it then reads."""
        return None

    def may_multiply_events(self) -> bool:
        """Return whether one event may become several, which follow each other and have the same ``_offset``."""
        return False

    def notes(self, incoming: Schema) -> Iterable[str]:
        """Return lines for `etl explain` about how it runs with these incoming fields."""
        return ()

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Return the function that processes batches; called once a task. It keeps ``_offset`` and other columns that it does not
        know. A function that counts is a `CountingOperator`."""
        raise NotImplementedError


class EventTimeStep(Step):
    """A step that may need an event time: the base of those that remember events, and of those that Spark computes."""

    def needs(self, incoming: Schema) -> frozenset[str] | None:
        """The incoming fields that this step reads, or None for all; the reading task hands on no others."""
        return None

    def event_time(self) -> tuple[str, timedelta] | None:
        """The field and lateness of the watermark this step needs, or None."""
        return None

    def idle_after(self) -> timedelta | None:
        """The idle time of its sources after which the step's windows close, or None for never."""
        return None

    def max_delay(self) -> timedelta:
        """Return the longest time from an event to the results that it is part of, such as the length of a window."""
        return timedelta(0)

    def intervals(self) -> Mapping[timedelta, bool]:
        """Return the intervals at which it gives results, also when no events come: each once in a silence, or again and again
        where the value is true."""
        return {}


class SparkStep(EventTimeStep):
    """A step that Spark computes, on a DataFrame whose columns are flat (`` `source.ip` `` in backticks)."""

    def output_mode(self) -> Literal["append", "update"]:
        """Spark's output mode for a query that ends in this step."""
        return "append"

    def reason(self, incoming: Schema) -> str | None:
        """Return why Spark computes it, for ``etl explain``, if that is not in its nature."""
        return None

    def spark_expressions(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        """Return the Spark SQL expressions in its options, by path, to find the option of an error that quotes one."""
        return {}

    def apply(self, events: DataFrame) -> DataFrame:
        """Return the DataFrame of the output. The watermark of `event_time` is already set."""
        raise NotImplementedError
