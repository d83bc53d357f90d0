"""Frames of a plan: what Spark or the state lane computes, from what is read to the last step with state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from etl.api import TIMESTAMP, FrameSource, Schema, Source
from etl.plan.segments import NO_WATERMARK, Branch, Segment, StepNode, Watermark


@dataclass(frozen=True)
class Exchange:
    """What a segment emits for Spark or for a stateful step: the fields, and the watermark that the step needs."""

    schema: Schema
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Read:
    """Splits of sources, run through a segment whose output goes to Spark."""

    sources: Mapping[str, Source]
    segment: Segment
    schema: Schema
    watermark: Watermark | None = None


@dataclass(frozen=True)
class SparkRead:
    """A source that Spark reads."""

    name: str
    source: FrameSource
    schema: Schema
    reports: bool = True
    watermark: Watermark | None = None


@dataclass(frozen=True)
class EventFiles:
    """Events that tasks have written to files, in the middle of a micro-batch."""

    schema: Schema


@dataclass(frozen=True)
class AppliedSparkStep:
    """A Spark step on top of a frame."""

    node: StepNode
    child: Frame


@dataclass(frozen=True)
class Stage:
    """A stateful step on the state lane, and the row-wise steps after it. These emit to later stages; those of the last stage are
    the segment of the query."""

    node: StepNode
    downstream: Branch
    incoming: Schema
    """The fields of its input that it needs, as far as they are known before the run."""
    watermark: Watermark = NO_WATERMARK

    @property
    def exchange(self) -> Exchange:
        """What segments emit for each of its inputs."""
        return Exchange(self.incoming, self.watermark)


@dataclass(frozen=True)
class StageInput:
    """One input of a stage: the sources and the earlier stages whose events arrive there."""

    stage: int
    side: int
    """The side of a join, 0 or 1; 0 for other steps."""
    sources: frozenset[str] = frozenset()
    """The sources whose events arrive without another stage in between."""
    stages: frozenset[int] = frozenset()
    """The stages whose results arrive."""
    between: Frame | None = None
    """The steps before the stage that Spark computes in each micro-batch, over `EventFiles`."""
    label: str = ""
    """Tells inputs of one side apart."""
    reports_times: bool = True
    """Whether this query reports the events without a usable event time among those that Spark hands over."""
    by_field: bool = False
    """Whether the watermark comes from the event times of what arrives, as it does after a source, because the upstream stages
    guarantee nothing about that field."""

    @property
    def name(self) -> str:
        """A name that stays the same while the query has the same stages."""
        return f"{self.stage}.{self.side}{self.label}"

    @property
    def spark_schema(self) -> Schema | None:
        """The fields of the events that Spark gets; None if it computes nothing."""
        frame = self.between
        while isinstance(frame, AppliedSparkStep | Map):
            frame = frame.child
        return frame.schema if isinstance(frame, EventFiles) else None


@dataclass(frozen=True)
class StateGraph:
    """Stateful steps on the state lane, upstream first; their inputs, by number; and the frame that they read."""

    stages: tuple[Stage, ...]
    inputs: tuple[StageInput, ...]
    child: Read | SparkInputs
    """What reads events: a segment that emits to the inputs, or Spark."""


@dataclass(frozen=True)
class SparkInputs:
    """Frames that Spark computes, because it reads a source of the query; each has the rows of one stage."""

    frames: Mapping[int, Frame]
    """Stage → the frame of its rows, in the order of the stages; `etl.api.SIDE` says the side of a join."""


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
    names: tuple[str, ...]
    """The stream or source of each child."""


Frame: TypeAlias = Read | SparkRead | EventFiles | AppliedSparkStep | StateGraph | SparkInputs | Map | Union


def exchange_of(given: StageInput, stage: Exchange) -> Exchange:
    """What reading tasks emit for an input of a stage that gets ``stage``: for it, or for the Spark steps before it."""
    fields, time = given.spark_schema, stage.watermark
    if fields is None or time is None:
        return stage
    if time.arrival:
        return Exchange(fields.append(pa.field(time.field, TIMESTAMP)), time)
    known = time.field in fields.names and pa.types.is_timestamp(fields.field(time.field).type)
    return Exchange(fields, time if known else None)


def frame_sources(frame: Frame | None) -> Iterator[Read | SparkRead]:
    """The sources of a frame, in a fixed order."""
    match frame:
        case None:
            return
        case Read() | SparkRead():
            yield frame
        case AppliedSparkStep(child=child) | Map(child=child) | StateGraph(child=child):
            yield from frame_sources(child)
        case SparkInputs(frames=frames):
            for child in frames.values():
                yield from frame_sources(child)
        case Union(children=children):
            for child in children:
                yield from frame_sources(child)


def segments(frame: Frame | None) -> Iterator[tuple[Segment, bool]]:
    """A frame's segments, upstream first, each with whether it reads splits. Frames are built in this order."""
    match frame:
        case Read(segment=segment):
            yield segment, True
        case AppliedSparkStep(child=child):
            yield from segments(child)
        case StateGraph(child=child, stages=found, inputs=inputs):
            yield from segments(child)
            for one in inputs:
                yield from segments(one.between)
            yield from ((Segment({"": stage.downstream}, {}), False) for stage in found[:-1])
        case Map(branch=branch, child=child):
            yield from segments(child)
            yield Segment({"": branch}, {}), False
        case SparkInputs(frames=frames):
            for child in frames.values():
                yield from segments(child)
        case Union(children=children):
            for child in children:
                yield from segments(child)


def state_graph_of(frame: Frame | None) -> StateGraph | None:
    """The steps on the state lane; None if there are none. Steps that Spark computes may follow them."""
    while isinstance(frame, AppliedSparkStep | Map):
        frame = frame.child
    return frame if isinstance(frame, StateGraph) else None


def stages(frame: Frame | None) -> tuple[Stage, ...]:
    """The stateful steps on the state lane, upstream first."""
    graph = state_graph_of(frame)
    return graph.stages if graph else ()


def spark_nodes(frame: Frame | None) -> Iterator[StepNode]:
    """The Spark steps of a frame, upstream first."""
    match frame:
        case AppliedSparkStep(node=node, child=child):
            yield from spark_nodes(child)
            yield node
        case Map(child=child):
            yield from spark_nodes(child)
        case StateGraph(child=child, inputs=inputs):
            yield from spark_nodes(child)
            for one in inputs:
                yield from spark_nodes(one.between)
        case SparkInputs(frames=frames):
            for child in frames.values():
                yield from spark_nodes(child)
        case Union(children=children):
            for child in children:
                yield from spark_nodes(child)
        case _:
            return
