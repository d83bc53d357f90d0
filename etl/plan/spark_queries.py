"""Queries that need Spark: their frame and watermark, and the steps on Arrow before and after Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from etl.api import CHANGE, TIMESTAMP, FrameSource, JoiningStep, Schema, SparkStep, StatefulStep
from etl.config.model import Pipeline
from etl.plan.arrow_queries import branch_after, steps_into
from etl.plan.frames import (
    AppliedSparkStep,
    Frame,
    Map,
    Read,
    SparkInputs,
    SparkRead,
    Stage,
    StateGraph,
    Union,
    frame_sources,
    spark_nodes,
    state_graph_of,
)
from etl.plan.graph import Graph, PlanNode
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Branch, Segment, StepNode, StepPlanError, Watermark, runs_on_arrow
from etl.plan.stage_clocks import delay_through, follows_upstream, joint_watermark, step_of, with_clocks
from etl.plan.state_graph import apply_step, merge_branch, state_graph
from etl.plan.unions import frames_of_queries
from etl.steps.heartbeats import ARRIVAL


def spark_queries(graph: Graph) -> Iterator[QueryPlan]:
    """One query for each Spark step, or source that Spark reads, from which sinks are reached without a further Spark step.

    There are several queries for it where an upstream union has inputs that no single query reads.
    """
    nodes = [(name, -1) for name in graph.pipeline.sources] + list(graph.steps)
    for node in nodes:
        if not graph.on_spark(node):
            continue
        branch = branch_after(graph, [], node)
        outputs = {name: graph.output(name) for part in branch.walk() for name in part.sinks}
        for label, divided in frames_of_queries(_frame(graph, node)) if outputs else ():
            frame = _with_state_lane(divided)
            name = graph.query_name(node) + (f"-of-{label}" if label else "")
            sources = {n: s for leaf in frame_sources(frame) if isinstance(leaf, Read) for n, s in leaf.sources.items()}
            yield QueryPlan(name, sources, Segment({"": branch}, outputs), _with_watermark(frame), _output_mode(frame))


def unplanned_step(pipeline: Pipeline) -> StepPlanError | None:
    """The first step of a pipeline without other problems that cannot run where it is, with the reason; None if there is none."""
    graph = Graph(pipeline)
    on_spark = any(isinstance(source, FrameSource) for source in pipeline.sources.values())
    if not on_spark and not any(_may_need_spark(node) for node in graph.steps.values()):
        return None
    try:
        for _ in spark_queries(graph):
            pass
    except StepPlanError as error:
        return error
    return None


def _may_need_spark(node: StepNode) -> bool:
    """Whether Spark computes a step."""
    return not isinstance(node.step, StatefulStep) and not runs_on_arrow(node.step, node.incoming)


def _frame(graph: Graph, node: PlanNode) -> Frame:
    if not graph.on_spark(node) and not any(graph.on_spark(b) for b in graph.boundaries(node)):
        return _read(graph, node)
    name, index = node
    if node in graph.steps:
        child = _frame(graph, (name, index - 1))
        step = graph.steps[node]
        return AppliedSparkStep(step, child) if isinstance(step.step, StatefulStep) else apply_step(step, child)
    source = graph.pipeline.sources.get(name)
    if isinstance(source, FrameSource):
        return SparkRead(name, source, graph.schema(node))
    upstream = graph.upstream(node)
    children = tuple(_side(graph, one, node) for one in upstream)
    return children[0] if len(children) == 1 else Union(children, graph.schema(node), tuple(name for name, _ in upstream))


def _side(graph: Graph, node: PlanNode, union: PlanNode) -> Frame:
    """The frame of an input of a stream; for a join, with the step that makes rows of its side."""
    frame, first = _frame(graph, node), graph.steps.get((union[0], 0))
    if first is None or not isinstance(first.step, JoiningStep):
        return frame
    return Map(Branch(tuple(steps_into(graph, node, union)), graph.schema(union), emits=True), frame)


def _read(graph: Graph, node: PlanNode) -> Read:
    """Our sources, with the row-wise steps between them and a node, as a streaming DataFrame."""
    roots: dict[str, Branch] = {}
    for chain in _chains(graph, node):
        source, followers = chain[0], chain[1:]
        steps = [step for here, there in zip(chain, followers, strict=False) for step in steps_into(graph, here, there)]
        way = Branch(tuple(steps), graph.schema(node), emits=True)
        known = roots.get(source[0])
        roots[source[0]] = merge_branch(known, way) if known else way
    return Read(graph.split_sources(roots), Segment(roots, {}, dict.fromkeys(roots, True)), graph.schema(node))


def _chains(graph: Graph, node: PlanNode) -> Iterator[list[PlanNode]]:
    """Every path from a source down to a node."""
    inputs = graph.upstream(node)
    if not inputs:
        yield [node]
    for one in inputs:
        for chain in _chains(graph, one):
            yield [*chain, node]


# ── The state lane ────────────────────────────────────────────────────────────────────────────────


def _with_state_lane(frame: Frame) -> Frame:
    """The frame with its stateful steps on the state lane, if it has some."""
    return _graph_below(frame) or frame


def _graph_below(frame: Frame) -> Frame | None:
    """The frame with its steps on the state lane as a graph, which steps that Spark computes may follow."""
    graph = state_graph(frame)
    if graph is not None or not isinstance(frame, AppliedSparkStep | Map):
        return graph
    below = _graph_below(frame.child)
    return None if below is None else replace(frame, child=below)


def _output_mode(frame: Frame) -> str:
    modes = [node.step.output_mode() for node in spark_nodes(frame) if isinstance(node.step, SparkStep)]
    return "update" if modes and modes[-1] == "update" else "append"


def _with_watermark(frame: Frame) -> Frame:
    """Set each read's watermark to that of the first stateful step after it, and drop fields that no step needs."""
    if isinstance(frame, StateGraph):
        return _plan_stages(frame)
    if isinstance(frame, AppliedSparkStep | Map) and state_graph_of(frame):
        return replace(frame, child=_with_watermark(frame.child))
    return _push(frame, None, None)


def _plan_stages(graph: StateGraph) -> StateGraph:
    """The graph with watermarks, and the fields that its stages need; its reads have a watermark for all of them."""
    graph = replace(graph, inputs=with_clocks(graph))
    stages: dict[int, Stage] = {}
    for number in reversed(range(len(graph.stages))):
        stage, step = graph.stages[number], step_of(graph.stages[number])
        watermark = _watermark_of(step, None)
        assert watermark is not None
        downstream = [
            stages[one.stage] for one in graph.inputs if number in one.stages and follows_upstream(one, stages[one.stage])
        ]
        delay = watermark.max_delay_seconds + max((delay_through(step, one) for one in downstream), default=0)
        watermark = replace(watermark, arrival=watermark.field == ARRIVAL, max_delay_seconds=delay)
        incoming = _select_given_fields(stage.node.incoming, step.needs(stage.node.incoming), watermark)
        stages[number] = replace(stage, incoming=incoming, watermark=watermark)
    graph = replace(graph, stages=tuple(stages[number] for number in range(len(stages))))
    if isinstance(graph.child, Read):
        return replace(graph, child=replace(graph.child, schema=stages[0].incoming, watermark=joint_watermark(graph)))
    return replace(graph, child=SparkInputs({at: _push_stage(frame, stages[at]) for at, frame in graph.child.frames.items()}))


def _push_stage(frame: Frame, stage: Stage) -> Frame:
    return _push(frame, stage.watermark, step_of(stage).needs(stage.node.incoming))


def _select_given_fields(schema: Schema, needs: frozenset[str] | None, watermark: Watermark) -> Schema:
    """The fields that a step is given of these: those that it needs, and the time of reading if it goes by that."""
    known = schema if needs is None else _only(schema, needs, watermark)
    return (
        known.append(pa.field(watermark.field, TIMESTAMP)) if watermark.arrival and watermark.field not in known.names else known
    )


def _push(frame: Frame, watermark: Watermark | None, needs: frozenset[str] | None) -> Frame:
    match frame:
        case AppliedSparkStep(node=node, child=child) if isinstance(node.step, SparkStep):
            watermark = _watermark_of(node.step, watermark)
            return AppliedSparkStep(node, _push(child, watermark, node.step.needs(node.incoming)))
        case Map(branch=branch, child=child):
            return Map(branch, _push(child, watermark, None))
        case Union(children=children):
            return replace(frame, children=tuple(_push(child, watermark, needs) for child in children))
        case Read() as read:
            schema = read.schema if needs is None else _only(read.schema, needs, watermark)
            return replace(read, schema=schema, watermark=_read_watermark(schema, watermark))
        case SparkRead(schema=schema):
            return replace(frame, watermark=_read_watermark(schema, watermark))
        case _:
            return frame


def _watermark_of(step: SparkStep | StatefulStep, downstream: Watermark | None) -> Watermark | None:
    """The watermark that a step needs, or else that of the steps downstream."""
    event_time = step.event_time()
    if event_time is None:
        return downstream
    idle, delay = step.idle_after(), step.max_delay().total_seconds() + (downstream.max_delay_seconds if downstream else 0)
    return Watermark(event_time[0], event_time[1].total_seconds(), idle.total_seconds() if idle else None, delay)


def _read_watermark(schema: Schema, watermark: Watermark | None) -> Watermark | None:
    """The watermark, if its field is known where events are read; otherwise it is set after the Spark step that makes it."""
    if watermark is None or watermark.field == ARRIVAL:
        return replace(watermark, arrival=True) if watermark else None
    known = watermark.field in schema.names and pa.types.is_timestamp(schema.field(watermark.field).type)
    return watermark if known else None


def _only(schema: Schema, needs: frozenset[str], watermark: Watermark | None) -> Schema:
    names = needs | {CHANGE} | ({watermark.field} if watermark else set())
    return pa.schema([field for field in schema if field.name in names])
