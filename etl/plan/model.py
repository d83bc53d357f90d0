"""The plan of a pipeline as pure data: queries, their segments and the frames that Spark computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from etl.api import ArrowStep, FrameSource, Schema, Sink, Source, SparkStep, Step

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
    """The number of the handover that its output is, if it emits: that of the input in `StateGraph.inputs`."""
    into: str | None = None
    """The union of branches that gets all of its events."""
    gathers: str | None = None
    """The union whose events it gets, from all branches at once. It follows the last of these branches."""

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
    reach_seconds: float = 0
    """Longest time from the latest event to the end of an open window."""
    arrival: bool = False
    """True when the field is the time of reading, which the reader adds."""


NO_WATERMARK = Watermark("", 0)
"""Of a step in a plan that is not complete."""


@dataclass(frozen=True)
class Handover:
    """What a segment hands over to Spark or to a stateful step: fields, and the event time that it needs."""

    schema: Schema
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Segment:
    """A tree of row-wise steps for each source, and the sinks its branches deliver to."""

    roots: Mapping[str, Branch]
    outputs: Mapping[str, Output]
    counts_source: Mapping[str, bool] = field(default_factory=dict)
    """Source → whether this query reports the events read from it."""


@dataclass(frozen=True)
class Read:
    """Splits of sources, run through a segment whose output goes to Spark."""

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
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Apply:
    """A Spark step on top of a frame."""

    node: StepNode
    child: Frame


@dataclass(frozen=True)
class Stage:
    """A stateful step on the state lane, and the steps behind it. These emit to stages behind; those of the last stage are the
    segment of the query."""

    node: StepNode
    behind: Branch
    incoming: Schema
    """The fields that it is given, as far as they are known before the run: those that it needs."""
    watermark: Watermark = NO_WATERMARK

    @property
    def handover(self) -> Handover:
        """What its inputs are."""
        return Handover(self.incoming, self.watermark)


@dataclass(frozen=True)
class StageInput:
    """What gets to a stage from one side: from several sources or from several stages in front."""

    stage: int
    side: int
    """Of a join; 0 of other steps."""
    sources: frozenset[str] = frozenset()
    """The sources whose events get there without another stage in between."""
    stages: frozenset[int] = frozenset()
    """The stages whose results get there."""

    @property
    def name(self) -> str:
        """A name that stays the same while the query has the same stages."""
        return f"{self.stage}.{self.side}"


@dataclass(frozen=True)
class StateGraph:
    """Stateful steps on the state lane, upstream first; their inputs, by number; and what reads in front of them."""

    stages: tuple[Stage, ...]
    inputs: tuple[StageInput, ...]
    child: Frame
    """A read whose segment emits to the inputs, or a frame that Spark computes, whose rows are for the first stage."""


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


Frame: TypeAlias = Read | Native | Apply | StateGraph | Map | Union


@dataclass(frozen=True)
class QueryPlan:
    """One streaming query: splits → segment → receipts, or frame → segment → receipts.

    Without ``frame``, the tasks that read do all the work. With it, ``segment`` has one root, ``""``, which runs over the frame's
    partitions in ``foreachBatch``.
    """

    name: str
    sources: Mapping[str, Source]
    segment: Segment
    frame: Frame | None = None
    output_mode: str = "append"

    @property
    def parts(self) -> int:
        """Number of segments before and between its Spark steps."""
        return sum(1 for _ in segments(self.frame))

    @property
    def on_state_lane(self) -> bool:
        """Whether its stateful steps run on the state lane."""
        return bool(stages(self.frame))

    @property
    def stateful(self) -> bool:
        """Whether Spark keeps state for it."""
        return any(isinstance(n.step, SparkStep) and n.step.stateful for n in spark_nodes(self.frame))

    @property
    def streaming(self) -> bool:
        """False when all it reads is a source that ends, read once."""
        natives = [leaf for leaf in frame_sources(self.frame) if isinstance(leaf, Native)]
        return (
            self.frame is None
            or any(isinstance(leaf, Read) for leaf in frame_sources(self.frame))
            or any(n.source.streaming for n in natives)
        )


@dataclass(frozen=True)
class Plan:
    """All queries of a pipeline, in the order of their reports."""

    pipeline: str
    queries: tuple[QueryPlan, ...]
    dead_letters: Output

    def sources(self) -> Mapping[str, Source]:
        """All sources that are read as splits, by name."""
        return {name: source for query in self.queries for name, source in query.sources.items()}


def frame_sources(frame: Frame | None) -> Iterator[Read | Native]:
    """The sources of a frame, in a fixed order."""
    match frame:
        case None:
            return
        case Read() | Native():
            yield frame
        case Apply(child=child) | Map(child=child) | StateGraph(child=child):
            yield from frame_sources(child)
        case Union(children=children):
            for child in children:
                yield from frame_sources(child)


def segments(frame: Frame | None) -> Iterator[tuple[Segment, bool]]:
    """A frame's segments, upstream first, each with whether it reads splits. Frames are built in this order."""
    match frame:
        case Read(segment=segment):
            yield segment, True
        case Apply(child=child):
            yield from segments(child)
        case StateGraph(child=child, stages=found):
            yield from segments(child)
            yield from ((Segment({"": stage.behind}, {}), False) for stage in found[:-1])
        case Map(branch=branch, child=child):
            yield from segments(child)
            yield Segment({"": branch}, {}), False
        case Union(children=children):
            for child in children:
                yield from segments(child)


def state_graph_of(frame: Frame | None) -> StateGraph | None:
    """The steps on the state lane, which others that Spark computes may follow; None if there are none."""
    while isinstance(frame, Apply | Map):
        frame = frame.child
    return frame if isinstance(frame, StateGraph) else None


def stages(frame: Frame | None) -> tuple[Stage, ...]:
    """The stateful steps on the state lane, upstream first."""
    graph = state_graph_of(frame)
    return graph.stages if graph else ()


def spark_nodes(frame: Frame | None) -> Iterator[StepNode]:
    """The Spark steps of a frame, upstream first."""
    match frame:
        case Apply(node=node, child=child):
            yield from spark_nodes(child)
            yield node
        case Map(child=child) | StateGraph(child=child):
            yield from spark_nodes(child)
        case Union(children=children):
            for child in children:
                yield from spark_nodes(child)
        case _:
            return


def runs_on_arrow(step: Step, incoming: Schema) -> bool:
    """Whether a step with these incoming fields runs on Arrow, inside a segment."""
    return isinstance(step, ArrowStep) and step.spark_reason(incoming) is None
