"""The graph of stateful steps on the state lane: which step or source leads to which, with the steps in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from etl.api import JoiningStep, Schema, SideStep, Source, SparkStep, StatefulStep
from etl.plan.arrow_queries import alignment
from etl.plan.frames import (
    AppliedSparkStep,
    EventFiles,
    Frame,
    Map,
    Read,
    SparkInputs,
    SparkRead,
    Stage,
    StageInput,
    StateGraph,
    Union,
    frame_sources,
)
from etl.plan.segments import Branch, Segment, StepNode, runs_on_arrow


def state_graph(frame: Frame) -> StateGraph | None:
    """The graph of a frame that ends in a stateful step; None of others."""
    if not isinstance(frame, AppliedSparkStep) or not on_lane(frame.node):
        return None
    builder = _Builder(any(isinstance(part, SparkRead) for part in walk(frame)))
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

    spark_reads: bool
    """Whether Spark reads a source: then it computes all that leads from sources to stages."""
    nodes: dict[str, StepNode] = field(default_factory=dict)
    downstream: dict[str, Branch] = field(default_factory=dict)
    roots: dict[str, Branch] = field(default_factory=dict)
    counts_source: dict[str, bool] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    inputs: list[_Input] = field(default_factory=list)
    on_spark: dict[str, list[Frame]] = field(default_factory=dict)

    def graph(self) -> StateGraph:
        """The graph of all that was added."""
        numbers = {id_: number for number, id_ in enumerate(self.nodes)}
        stages = tuple(
            Stage(node, self.downstream.get(id_, Branch((), node.outgoing)), node.incoming) for id_, node in self.nodes.items()
        )
        inputs = tuple(self._stage_input(at, numbers) for at in range(len(self.inputs)))
        read = Read(self.sources, Segment(self.roots, {}, self.counts_source), stages[0].incoming)
        return StateGraph(stages, inputs, self._spark_inputs() if self.spark_reads else read)

    def _spark_inputs(self) -> SparkInputs:
        """The frames of the stages, in the order of the stages; several of one stage are united."""
        given = ((number, node, self.on_spark.get(id_, [])) for number, (id_, node) in enumerate(self.nodes.items()))
        return SparkInputs({number: _unite(frames, node.incoming) for number, node, frames in given if frames})

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
        self._lead(child, (), node)
        self.nodes[node.id] = node

    def _lead(self, frame: Frame, then: tuple[StepNode, ...], stage: StepNode) -> None:
        """Lead the output of a frame, through further steps, to a stage."""
        has_sides = isinstance(frame, Union) and isinstance(stage.step, JoiningStep)
        if self.spark_reads and not has_sides and not _has_stages(frame):
            self._lead_through_spark(_apply_steps(then, frame), stage)
            return
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
                raise AssertionError("what Spark reads is led through Spark")

    def _lead_through_spark(self, frame: Frame, stage: StepNode) -> None:
        """Let Spark compute a frame of sources, whose rows go to a stage."""
        step = frame.branch.steps[-1].step if isinstance(frame, Map) else None
        self.on_spark.setdefault(stage.id, []).append(_in_reading_tasks(frame))
        for side in step.sides if isinstance(step, SideStep) and isinstance(stage.step, JoiningStep) else (0,):
            self.inputs[self._number(stage, side)].sources |= {name for leaf in frame_sources(frame) for name in _names(leaf)}

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
        rest = steps[first:]
        between = _apply_steps(rest, EventFiles(steps[first - 1].outgoing if first else given)) if rest else None
        return steps[:first], self._number(stage, side, between)

    def _number(self, stage: StepNode, side: int, between: Frame | None = None) -> int:
        """The number of an input, which is added if it is new."""
        known = [n for n, one in enumerate(self.inputs) if (one.stage.id, one.side, one.between) == (stage.id, side, between)]
        if not known:
            self.inputs.append(_Input(stage, side, between))
        return known[0] if known else len(self.inputs) - 1


def _apply_steps(steps: tuple[StepNode, ...], frame: Frame) -> Frame:
    """A frame with further steps, as Spark computes them."""
    for node in steps:
        frame = apply_step(node, frame)
    return frame


def apply_step(node: StepNode, frame: Frame) -> Frame:
    """A frame with a further step without state: in Spark, or on Arrow if it cannot run there or the steps before it do not."""
    if isinstance(frame, Map) and runs_on_arrow(node.step, node.incoming) and not frame.branch.branches:
        return replace(frame, branch=replace(frame.branch, steps=(*frame.branch.steps, node), outgoing=node.outgoing))
    if isinstance(node.step, SparkStep):
        return AppliedSparkStep(node, frame)
    return Map(Branch((node,), node.outgoing, emits=True), frame)


def _in_reading_tasks(frame: Frame) -> Frame:
    """Steps on Arrow directly after our sources run in the tasks that read these, as where Spark has no part in it: so also the
    times of filtered events are those of the side of a join, which such a step makes."""
    if not isinstance(frame, Map) or not isinstance(frame.child, Read) or frame.branch.branches:
        return frame
    segment, steps = frame.child.segment, frame.branch.steps
    roots = {name: _with_steps(root, steps) for name, root in segment.roots.items()}
    return replace(frame.child, segment=replace(segment, roots=roots), schema=frame.branch.outgoing)


def _with_steps(branch: Branch, steps: tuple[StepNode, ...]) -> Branch:
    """A branch of a read with further steps after each end that emits."""
    if branch.emits:
        return replace(branch, steps=(*branch.steps, *steps), outgoing=steps[-1].outgoing)
    return replace(branch, branches=tuple(_with_steps(one, steps) for one in branch.branches))


def _unite(frames: list[Frame], schema: Schema) -> Frame:
    return frames[0] if len(frames) == 1 else Union(tuple(frames), schema, tuple("" for _ in frames))


def _names(leaf: Read | SparkRead) -> tuple[str, ...]:
    return tuple(leaf.sources) if isinstance(leaf, Read) else (leaf.name,)


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


def _has_stages(frame: Frame) -> bool:
    """Whether a frame holds stateful steps."""
    return any(on_lane(part.node) for part in walk(frame) if isinstance(part, AppliedSparkStep))


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
