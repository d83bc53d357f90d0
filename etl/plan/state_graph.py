"""The graph of stateful steps on the state lane: which step or source leads to which, with the steps in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from etl.api import JoiningStep, Schema, SideStep, Source, SparkStep, StatefulStep
from etl.plan.arrow_queries import alignment
from etl.plan.frames import (
    AppliedSparkStep,
    EventFiles,
    Frame,
    Map,
    Read,
    SparkRead,
    Stage,
    StageInput,
    StateGraph,
    Union,
    frame_sources,
)
from etl.plan.segments import Branch, Segment, StepNode, StepPlanError, runs_on_arrow


def state_graph(frame: Frame) -> StateGraph | None:
    """The graph of a frame that ends in a stateful step; None of others."""
    if not isinstance(frame, AppliedSparkStep) or not on_lane(frame.node):
        return None
    builder = _Builder()
    builder.add_stage(frame)
    return builder.graph()


@dataclass
class _Input:
    stage: StepNode
    side: int
    between: Frame | None = None
    sources: set[str] = field(default_factory=set)
    stages: set[str] = field(default_factory=set)


@dataclass
class _Builder:
    """Collects stages, upstream first, and what leads to each."""

    nodes: dict[str, StepNode] = field(default_factory=dict)
    downstream: dict[str, Branch] = field(default_factory=dict)
    roots: dict[str, Branch] = field(default_factory=dict)
    counts_source: dict[str, bool] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    inputs: list[_Input] = field(default_factory=list)
    on_spark: Frame | None = None

    def graph(self) -> StateGraph:
        """The graph of all that was added. Raises StepPlanError if Spark and our reading tasks both read events."""
        if self.on_spark is not None and self.roots:
            raise _two_readers(next(iter(self.nodes.values())), self.on_spark, self.roots)
        numbers = {id_: number for number, id_ in enumerate(self.nodes)}
        stages = tuple(
            Stage(node, self.downstream.get(id_, Branch((), node.outgoing)), node.incoming) for id_, node in self.nodes.items()
        )
        inputs = tuple(self._stage_input(at, numbers) for at in range(len(self.inputs)))
        read = Read(self.sources, Segment(self.roots, {}, self.counts_source), stages[0].incoming)
        return StateGraph(stages, inputs, self.on_spark or read)

    def _stage_input(self, at: int, numbers: Mapping[str, int]) -> StageInput:
        one = self.inputs[at]
        twins = sum((other.stage.id, other.side) == (one.stage.id, one.side) for other in self.inputs[:at] if other.between)
        return StageInput(
            numbers[one.stage.id],
            one.side,
            frozenset(one.sources),
            frozenset(numbers[id_] for id_ in one.stages),
            one.between,
            f".spark{twins or ''}" if one.between else "",
        )

    def add_stage(self, frame: AppliedSparkStep) -> None:
        """Add a stateful step and all that is upstream of it, once."""
        node, child = frame.node, frame.child
        if node.id in self.nodes:
            return
        if _is_sparks(child):
            if self.on_spark is not None:
                raise _two_readers(node, child)
            self.on_spark = child
            for side in range(2 if isinstance(node.step, JoiningStep) else 1):
                self.inputs.append(_Input(node, side))
        else:
            self._lead(child, (), node)
        self.nodes[node.id] = node

    def _lead(self, frame: Frame, then: tuple[StepNode, ...], stage: StepNode) -> None:
        """Lead the output of a frame, through further steps, to a stage."""
        match frame:
            case Read(segment=segment, sources=sources):
                self.sources |= sources
                self.counts_source |= segment.counts_source
                for name, root in segment.roots.items():
                    way = self._extend(root, then, stage, name)
                    self.roots[name] = merge_branch(self.roots[name], way) if name in self.roots else way
            case Map(branch=branch, child=child):
                self._lead(child, (*branch.steps, *then), stage)
            case AppliedSparkStep(node=node) if on_lane(node):
                self.add_stage(frame)
                steps, target = self._input(stage, then, node.outgoing)
                way = Branch(steps, steps[-1].outgoing if steps else node.outgoing, emits=True, to=target)
                self.inputs[target].stages.add(node.id)
                self.downstream[node.id] = merge_branch(self.downstream[node.id], way) if node.id in self.downstream else way
            case AppliedSparkStep(node=node, child=child):
                self._lead(child, (node, *then), stage)
            case Union(children=children, schema=schema):
                for child in children:
                    align = alignment(f"{stage.id} union", output_schema(child), schema)
                    self._lead(child, (*align, *then), stage)
            case _:
                raise _two_readers(stage, frame)

    def _extend(self, branch: Branch, then: tuple[StepNode, ...], stage: StepNode, source: str) -> Branch:
        """A branch of a read with further steps after each end, which lead to a stage."""
        if not branch.emits:
            below = tuple(self._extend(one, then, stage, source) for one in branch.branches)
            return replace(branch, branches=below)
        steps, target = self._input(stage, (*branch.steps, *then), branch.incoming)
        self.inputs[target].sources.add(source)
        return replace(branch, steps=steps, outgoing=steps[-1].outgoing if steps else branch.incoming, to=target)

    def _input(self, stage: StepNode, steps: tuple[StepNode, ...], given: Schema) -> tuple[tuple[StepNode, ...], int]:
        """The steps before the first that Spark computes, and the number of the input of a stage that all lead to."""
        last = steps[-1].step if steps else None
        side = last.sides[0] if isinstance(last, SideStep) and isinstance(stage.step, JoiningStep) else 0
        first = next((at for at, one in enumerate(steps) if not runs_on_arrow(one.step, one.incoming)), len(steps))
        between = _computed_by_spark(steps[first:], steps[first - 1].outgoing if first else given)
        known = [n for n, one in enumerate(self.inputs) if (one.stage.id, one.side, one.between) == (stage.id, side, between)]
        if not known:
            self.inputs.append(_Input(stage, side, between))
        return steps[:first], known[0] if known else len(self.inputs) - 1


def _computed_by_spark(steps: tuple[StepNode, ...], given: Schema) -> Frame | None:
    """The frame of steps that Spark computes over events of files."""
    frame: Frame = EventFiles(given)
    for node in steps:
        frame = apply_step(node, frame)
    return frame if steps else None


def apply_step(node: StepNode, frame: Frame) -> Frame:
    """A frame with a further step without state: in Spark, or on Arrow if it cannot run there or the steps before it do not."""
    if isinstance(frame, Map) and runs_on_arrow(node.step, node.incoming) and not frame.branch.branches:
        return replace(frame, branch=replace(frame.branch, steps=(*frame.branch.steps, node), outgoing=node.outgoing))
    if isinstance(node.step, SparkStep):
        return AppliedSparkStep(node, frame)
    return Map(Branch((node,), node.outgoing, emits=True), frame)


def _two_readers(node: StepNode, on_spark: Frame, others: Iterable[str] = ()) -> StepPlanError:
    """Events that Spark reads are not marked with the step that they are for, as those of splits are: all go to the first one."""
    read = " and ".join(repr(leaf.name) for leaf in frame_sources(on_spark) if isinstance(leaf, SparkRead))
    beside = "events of " + " and ".join(map(repr, others)) if others else "results of another stateful step"
    reason = (
        f"Spark reads {read}, and all of its events go to the first stateful step: {beside} cannot reach one in the same query"
    )
    hint = f"unite them before the first stateful step; or write {read} to files or a topic by another pipeline, and read these"
    return StepPlanError(node, reason, hint)


def merge_branch(known: Branch, way: Branch) -> Branch:
    """A tree with another way in it; steps at the beginning that both have are run once."""
    shared = _count_shared_steps(known, way)
    rest = replace(way, steps=way.steps[shared:])
    if shared == len(known.steps) and known.branches and not (known.emits or known.sinks):
        for number, below in enumerate(known.branches):
            if _count_shared_steps(below, rest):
                return replace(
                    known, branches=(*known.branches[:number], merge_branch(below, rest), *known.branches[number + 1 :])
                )
        return replace(known, branches=(*known.branches, rest))
    front = known.steps[:shared]
    output_schema = front[-1].outgoing if front else known.incoming
    return Branch(front, output_schema, branches=(replace(known, steps=known.steps[shared:]), rest))


def _count_shared_steps(one: Branch, other: Branch) -> int:
    """How many steps at the beginning of two branches are the same."""
    count = 0
    for here, there in zip(one.steps, other.steps, strict=False):
        if here != there:
            break
        count += 1
    return count


def on_lane(node: StepNode) -> bool:
    """Whether it runs on the state lane."""
    return isinstance(node.step, StatefulStep)


def _is_sparks(frame: Frame) -> bool:
    """Whether Spark reads some of a frame that holds no stateful step."""
    parts = list(walk(frame))
    reads_with_spark = any(isinstance(part, SparkRead) for part in parts)
    return reads_with_spark and not any(on_lane(part.node) for part in parts if isinstance(part, AppliedSparkStep))


def walk(frame: Frame) -> Iterator[Frame]:
    """A frame that holds no graph of stages, and all that is upstream of it."""
    yield frame
    match frame:
        case AppliedSparkStep(child=child) | Map(child=child):
            yield from walk(child)
        case Union(children=children):
            for child in children:
                yield from walk(child)


def output_schema(frame: Frame) -> Schema:
    """The fields of a frame's output."""
    match frame:
        case AppliedSparkStep(node=node):
            return node.outgoing
        case Map(branch=branch):
            return branch.outgoing
        case Read(schema=schema) | SparkRead(schema=schema) | EventFiles(schema=schema) | Union(schema=schema):
            return schema
        case _:
            raise AssertionError("a graph of stages is not part of another frame")
