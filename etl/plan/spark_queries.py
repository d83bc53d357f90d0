"""Queries that need Spark: their frame and watermark, and the steps on Arrow before and after Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from etl.api import FrameSource, PlanError, Schema, SparkStep, StatefulStep
from etl.plan.arrow_queries import branch_after, steps_into
from etl.plan.graph import Graph, PlanNode
from etl.plan.model import (
    Apply,
    Branch,
    Frame,
    Map,
    Native,
    QueryPlan,
    Read,
    Segment,
    Stateful,
    Union,
    Watermark,
    frame_sources,
    runs_on_arrow,
    spark_nodes,
    stages,
)
from etl.steps.heartbeats import ARRIVAL


def spark_queries(graph: Graph) -> Iterator[QueryPlan]:
    """One query for each Spark step, or source that Spark reads, from which sinks are reached without a further Spark step."""
    nodes = [(name, -1) for name in graph.pipeline.sources] + list(graph.steps)
    for node in nodes:
        if not graph.on_spark(node):
            continue
        branch = branch_after(graph, [], node)
        outputs = {name: graph.output(name) for part in branch.walk() for name in part.sinks}
        if outputs:
            frame = _with_state_lane(_frame(graph, node))
            name = graph.query_name(node)
            sources = {n: s for leaf in frame_sources(frame) if isinstance(leaf, Read) for n, s in leaf.sources.items()}
            yield QueryPlan(name, sources, Segment({"": branch}, outputs), _with_watermark(frame), _output_mode(frame))


def _frame(graph: Graph, node: PlanNode) -> Frame:
    if not graph.on_spark(node) and not any(graph.on_spark(b) for b in graph.boundaries(node)):
        return _read(graph, node)
    name, index = node
    if node in graph.steps:
        child = _frame(graph, (name, index - 1))
        step = graph.steps[node]
        if isinstance(step.step, SparkStep | StatefulStep):
            return Apply(step, child)
        return Map(Branch((step,), step.outgoing, emits=True), child)
    source = graph.pipeline.sources.get(name)
    if isinstance(source, FrameSource):
        return Native(name, source, graph.schema(node))
    children = tuple(_frame(graph, one) for one in graph.upstream(node))
    return children[0] if len(children) == 1 else Union(children, graph.schema(node))


def _read(graph: Graph, node: PlanNode) -> Read:
    """Our sources, with the row-wise steps between them and a node, as a streaming DataFrame."""
    roots: dict[str, Branch] = {}
    for chain in _chains(graph, node):
        source, followers = chain[0], chain[1:]
        steps = [step for here, there in zip(chain, followers, strict=False) for step in steps_into(graph, here, there)]
        way = Branch(tuple(steps), graph.schema(node), emits=True)
        known = roots.get(source[0])
        roots[source[0]] = Branch((), graph.schema(source), branches=(known, way)) if known else way
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
    """The frame with its stateful steps on the state lane, if all of them and all steps behind them can run there."""
    found = _on_lane(frame)
    stateful = [node for node in spark_nodes(found) if node.step.stateful] if found is not None else []
    if found is not None and not stateful:
        return found
    for node in spark_nodes(frame):
        if not isinstance(node.step, SparkStep):
            raise PlanError(f"{node.id} runs on the state lane only, and its stream also needs Spark behind a stateful step")
    return frame


def _on_lane(frame: Frame) -> Frame | None:
    """The frame with stateful steps moved to the state lane; None if a step behind one of them needs Spark."""
    match frame:
        case Apply(node=node, child=child):
            below = _on_lane(child)
            if below is None:
                return None
            if isinstance(node.step, StatefulStep) and node.step.lane_reason(node.incoming) is None:
                return Stateful(node, below, Watermark("", 0))
            if not stages(below):
                return Apply(node, below)
            return _mapped(Branch((node,), node.outgoing, emits=True), below) if runs_on_arrow(node.step, node.incoming) else None
        case Map(branch=branch, child=child):
            below = _on_lane(child)
            return None if below is None else _mapped(branch, below)
        case Union(children=children):
            found = [_on_lane(child) for child in children]
            return None if any(one is None or stages(one) for one in found) else frame
        case _:
            return frame


def _mapped(branch: Branch, below: Frame) -> Frame:
    """Steps on top of a frame; between two stateful steps all are one branch."""
    if isinstance(below, Map) and stages(below):
        return Map(Branch((*below.branch.steps, *branch.steps), branch.outgoing, emits=True), below.child)
    return Map(branch, below)


def _output_mode(frame: Frame) -> str:
    modes = [node.step.output_mode() for node in spark_nodes(frame) if isinstance(node.step, SparkStep)]
    return "update" if modes and modes[-1] == "update" else "append"


def _with_watermark(frame: Frame) -> Frame:
    """Set each read's watermark to that of the first stateful step after it, and drop fields that no step needs."""
    return _pushed(frame, None, None)


def _pushed(frame: Frame, watermark: Watermark | None, needs: frozenset[str] | None) -> Frame:
    match frame:
        case Apply(node=node, child=child) if isinstance(node.step, SparkStep):
            watermark = _watermark_of(node.step, watermark)
            return Apply(node, _pushed(child, watermark, node.step.needs(node.incoming)))
        case Stateful(node=node, child=child) if isinstance(node.step, StatefulStep):
            watermark = _watermark_of(node.step, watermark)
            assert watermark is not None
            own = replace(watermark, arrival=watermark.field == ARRIVAL)
            return Stateful(node, _pushed(child, watermark, node.step.needs(node.incoming)), own)
        case Map(branch=branch, child=child):
            return Map(branch, _pushed(child, watermark, None))
        case Union(children=children, schema=schema):
            return Union(tuple(_pushed(child, watermark, needs) for child in children), schema)
        case Read() as read:
            schema = read.schema if needs is None else _only(read.schema, needs, watermark)
            return replace(read, schema=schema, watermark=_read_watermark(schema, watermark))
        case Native(schema=schema):
            return replace(frame, watermark=_read_watermark(schema, watermark))
        case _:
            return frame


def _watermark_of(step: SparkStep | StatefulStep, behind: Watermark | None) -> Watermark | None:
    """The watermark that a step needs, or else that of the steps behind."""
    event_time = step.event_time()
    if event_time is None:
        return behind
    idle, reach = step.idle_after(), step.reach().total_seconds() + (behind.reach_seconds if behind else 0)
    return Watermark(event_time[0], event_time[1].total_seconds(), idle.total_seconds() if idle else None, reach)


def _read_watermark(schema: Schema, watermark: Watermark | None) -> Watermark | None:
    """The watermark, if its field is known where events are read; otherwise it is set after the Spark step that makes it."""
    if watermark is None or watermark.field == ARRIVAL:
        return replace(watermark, arrival=True) if watermark else None
    known = watermark.field in schema.names and pa.types.is_timestamp(schema.field(watermark.field).type)
    return watermark if known else None


def _only(schema: Schema, needs: frozenset[str], watermark: Watermark | None) -> Schema:
    names = needs | ({watermark.field} if watermark else set())
    return pa.schema([field for field in schema if field.name in names])
