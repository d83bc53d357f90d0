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
class Counted:
    """Measures of a step for one split, in addition to its events. Sent to the driver with each split: at most a few kB."""

    sums: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Measure (``matches``) → name (a rule's) → amount; amounts are added up over splits."""
    state: Mapping[str, str | float] = field(default_factory=dict)
    """Current values, such as a version; the last split's value is used."""


@runtime_checkable
class Counting(Protocol):
    """What `ArrowStep.open` may return instead of a function: an operator that also counts, over one split."""

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        """Process a batch and count."""

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        """Process a batch without counting, for events that are also processed by a call."""

    def counts(self) -> Counted:
        """The measures; called once, at the end of the split."""


class Step(Component):
    """One thing done to the events of a stream."""

    stateful: ClassVar[bool] = False
    """True when Spark keeps state between micro-batches for this step, or for one of its parts."""

    ends_state: ClassVar[bool] = False
    """True when Spark lets no step that keeps state follow it."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about this step with these incoming fields: unknown fields, wrong types, bad patterns, which lane and why."""
        return ()

    def fields(self, incoming: Schema) -> Schema:
        """The fields of the output. Never raises: where `check` has errors, the result is a best guess."""
        raise NotImplementedError

    def gives_by(self, path: Sequence[str | int]) -> bool:
        """Whether the output fields may change when the option at this path, which has an error, is corrected."""
        return True

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """The steps that it consists of, in order, for these incoming fields; most consist of themselves."""
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
    """True when it reads text columns of type ``string_view`` too; any other step gets ordinary strings."""

    remembers: ClassVar[bool] = False
    """True when opening takes long and is cached in the process: the step is then opened before workers are forked. It must not
    start threads or hold connections."""

    def spark_reason(self, incoming: Schema) -> str | None:
        """Why these options cannot run on Arrow, or None. A step that can give a reason is a `SparkStep` too."""
        return None

    def multiplies(self) -> bool:
        """Whether one event may become several, which follow each other and have the same ``_offset``."""
        return False

    def notes(self, incoming: Schema) -> Iterable[str]:
        """Lines for `etl explain` on how it runs with these incoming fields."""
        return ()

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Compile once a task. The function keeps ``_offset`` and any other column it does not know; one that counts is
        `Counting`."""
        raise NotImplementedError


class SparkStep(Step):
    """A step that Spark computes, on a DataFrame whose columns are flat (`` `source.ip` `` in backticks)."""

    def needs(self, incoming: Schema) -> frozenset[str] | None:
        """The incoming fields that this step reads, or None for all; other fields are not sent to Spark."""
        return None

    def event_time(self) -> tuple[str, timedelta] | None:
        """The field and lateness of the watermark this step needs, or None."""
        return None

    def idle_after(self) -> timedelta | None:
        """The idle time of its sources after which the step's windows close, or None for never."""
        return None

    def reach(self) -> timedelta:
        """The longest time from the latest event to the end of an open window of this step."""
        return timedelta(0)

    def output_mode(self) -> Literal["append", "update"]:
        """Spark's output mode for a query that ends in this step."""
        return "append"

    def computed(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        """Spark SQL that Spark computes for it, by the path of its option: Spark's error quotes it when a value fails."""
        return {}

    def apply(self, events: DataFrame) -> DataFrame:
        """events → events. The watermark of `event_time` is already set."""
        raise NotImplementedError
