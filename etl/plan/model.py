"""What the planner makes of a pipeline: queries, their segments and Spark's part, as pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from etl.api import ArrowStep, FrameSource, Schema, Sink, Source, SparkStep, Step


@dataclass(frozen=True)
class StepNode:
    """One step at one place of a segment. ``id`` is ``stream[index] type``: the same in every query it runs in."""

    id: str
    step: Step
    incoming: Schema
    outgoing: Schema
    location: tuple[int, int] | None = None
    """Line and column of the step in the pipeline file."""
    reports: bool = True
    """Whether its counts and rejects are reported by this query."""


@dataclass(frozen=True)
class Branch:
    """A run of Arrow steps and what hangs at its end: sinks, further branches, or the way to Spark."""

    steps: tuple[StepNode, ...]
    outgoing: Schema
    sinks: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    emits: bool = False

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
    """Event time of a stateful query: the field, how late events may be, and after how much silence windows close.."""

    field: str
    late_seconds: float
    idle_seconds: float | None = None
    reach_seconds: float = 0
    """How far past its latest event the furthest open window ends."""
    arrival: bool = False
    """True when the field is the time of reading, added by the reader itself."""


@dataclass(frozen=True)
class Segment:
    """A tree of row-wise steps for each source, and the sinks its branches deliver to."""

    roots: Mapping[str, Branch]
    outputs: Mapping[str, Output]
    counts_source: Mapping[str, bool] = field(default_factory=dict)
    """Per source: whether this query reports what was read of it."""


@dataclass(frozen=True)
class Read:
    """Splits of our own sources, run through a segment that emits its events to Spark."""

    sources: Mapping[str, Source]
    segment: Segment
    schema: Schema
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Native:
    """A source that Spark reads."""

    name: str
    source: FrameSource
    schema: Schema
    reports: bool = True


@dataclass(frozen=True)
class Apply:
    """A Spark step on top of a frame."""

    node: StepNode
    child: Frame


@dataclass(frozen=True)
class Map:
    """Arrow steps without a Spark form, between two Spark steps, on record batches of the frame's partitions."""

    branch: Branch
    child: Frame


@dataclass(frozen=True)
class Union:
    """Frames merged by field name."""

    children: tuple[Frame, ...]
    schema: Schema


Frame: TypeAlias = Read | Native | Apply | Map | Union


@dataclass(frozen=True)
class QueryPlan:
    """One streaming query: either splits → segment → receipts, or a frame of Spark's → segment → receipts.

    Without ``frame`` the whole work is done by the tasks that read. With it, ``segment`` has one root, ``""``,
    that runs over the frame's partitions in ``foreachBatch``.
    """

    name: str
    sources: Mapping[str, Source]
    segment: Segment
    frame: Frame | None = None
    output_mode: str = "append"

    @property
    def parts(self) -> int:
        """How many segments run in front of and between its Spark steps."""
        return sum(1 for _ in segments(self.frame))

    @property
    def stateful(self) -> bool:
        """Whether Spark keeps state for it."""
        return any(isinstance(n.step, SparkStep) and n.step.stateful for n in spark_nodes(self.frame))

    @property
    def streaming(self) -> bool:
        """False when it only reads a source that ends by itself, once."""
        natives = [leaf for leaf in leaves(self.frame) if isinstance(leaf, Native)]
        return (
            self.frame is None
            or any(isinstance(leaf, Read) for leaf in leaves(self.frame))
            or any(n.source.streaming for n in natives)
        )


@dataclass(frozen=True)
class Plan:
    """All queries of a pipeline, in the order in which they report."""

    pipeline: str
    queries: tuple[QueryPlan, ...]
    dead_letters: Output

    def sources(self) -> Mapping[str, Source]:
        """All sources of ours, by name."""
        return {name: source for query in self.queries for name, source in query.sources.items()}


def leaves(frame: Frame | None) -> Iterator[Read | Native]:
    """Where a frame's events come from, in a fixed order."""
    match frame:
        case None:
            return
        case Read() | Native():
            yield frame
        case Apply(child=child) | Map(child=child):
            yield from leaves(child)
        case Union(children=children):
            for child in children:
                yield from leaves(child)


def segments(frame: Frame | None) -> Iterator[tuple[Segment, bool]]:
    """A frame's segments and whether each reads splits, upstream first: the order in which it is built."""
    match frame:
        case Read(segment=segment):
            yield segment, True
        case Apply(child=child):
            yield from segments(child)
        case Map(branch=branch, child=child):
            yield from segments(child)
            yield Segment({"": branch}, {}), False
        case Union(children=children):
            for child in children:
                yield from segments(child)


def spark_nodes(frame: Frame | None) -> Iterator[StepNode]:
    """The Spark steps of a frame, upstream first."""
    match frame:
        case Apply(node=node, child=child):
            yield from spark_nodes(child)
            yield node
        case Map(child=child):
            yield from spark_nodes(child)
        case Union(children=children):
            for child in children:
                yield from spark_nodes(child)
        case _:
            return


def runs_on_arrow(step: Step, incoming: Schema) -> bool:
    """Whether a step runs inside a segment in front of these fields."""
    return isinstance(step, ArrowStep) and step.spark_reason(incoming) is None
