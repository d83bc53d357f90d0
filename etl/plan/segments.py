"""Segments of a plan: trees of row-wise steps, and the sinks that get their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

import pyarrow as pa

from etl.api import ArrowStep, PlanError, Schema, Sink, Step, visible

OptionPath: TypeAlias = tuple[str | int, ...]
"""The keys that lead to an option inside its component."""


@dataclass(frozen=True)
class StepNode:
    """A step of a segment. ``id`` is ``stream[index] type``, the same in each query that runs the step."""

    id: str
    step: Step
    incoming: Schema
    outgoing: Schema
    _: KW_ONLY
    location: tuple[int, int] | None = None
    """Line and column of the step in the pipeline file."""
    options: Mapping[OptionPath, tuple[int, int]] = field(default_factory=dict, compare=False)
    """Line and column of its options there."""
    reports: bool = True
    """Whether this query reports the step's counts and rejects."""


class StepPlanError(PlanError):
    """A step cannot run where it is in the pipeline."""

    def __init__(self, node: StepNode, reason: str, hint: str | None = None) -> None:
        super().__init__(f"{node.id}: {reason}")
        self.node = node
        self.reason = reason
        self.hint = hint

    def __reduce__(self) -> tuple[type[StepPlanError], tuple[StepNode, str, str | None]]:
        return StepPlanError, (self.node, self.reason, self.hint)


def check_actual_types(node: StepNode, actual: Schema) -> None:
    """Raise StepPlanError for fields that a step refuses, now that the types are there which were unknown before the run."""
    if not any(pa.types.is_null(field.type) for field in node.incoming):
        return
    for finding in node.step.check(visible(actual)):
        if finding.severity == "error":
            raise StepPlanError(node, finding.message, finding.hint)


@dataclass(frozen=True)
class Branch:
    """A sequence of Arrow steps, and what gets its output: sinks, further branches, a union of branches, or Spark (``emits``)."""

    steps: tuple[StepNode, ...]
    outgoing: Schema
    sinks: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    _: KW_ONLY
    emits: bool = False
    to: int = 0
    """If it emits: the number of its exchange, an index into `StateGraph.inputs`."""
    reports_times: bool = True
    """If it emits: whether this query reports the events without a usable event time."""
    into: str | None = None
    """The union that gets all of its events."""
    gathers: str | None = None
    """The union whose events are its input, from all branches together. It follows the last of these branches."""

    @property
    def incoming(self) -> Schema:
        """The fields of the events that enter it."""
        return self.steps[0].incoming if self.steps else self.outgoing

    def walk(self) -> Iterator[Branch]:
        """This branch and all below it, top down."""
        yield self
        for branch in self.branches:
            yield from branch.walk()


@dataclass(frozen=True)
class Output:
    """A sink and the fields that reach it, merged over its inputs."""

    name: str
    sink: Sink
    schema: Schema


@dataclass(frozen=True)
class Watermark:
    """Event time of a stateful query: its field, the lateness allowed, and the idle time after which windows close."""

    field: str
    late_seconds: float
    idle_seconds: float | None = None
    max_delay_seconds: float = 0
    """Longest time from an event to the results that it is part of (`etl.contract.steps.EventTimeStep.max_delay`)."""
    arrival: bool = False
    """True when the field is the time of reading, which the reader adds."""
    intervals: tuple[tuple[int, bool], ...] = ()
    """Intervals of results in microseconds; these are also due when no events come
    (`etl.contract.steps.EventTimeStep.intervals`)."""


NO_WATERMARK = Watermark("", 0)
"""The watermark of a step in a plan that is not complete."""


@dataclass(frozen=True)
class Segment:
    """A tree of row-wise steps for each source, and the sinks its branches deliver to."""

    roots: Mapping[str, Branch]
    outputs: Mapping[str, Output]
    counts_source: Mapping[str, bool] = field(default_factory=dict)
    """Source → whether this query reports the events read from it."""


def runs_on_arrow(step: Step, incoming: Schema) -> bool:
    """Whether a step with these incoming fields runs on Arrow, inside a segment."""
    return isinstance(step, ArrowStep) and step.spark_reason(incoming) is None
