"""Queries that run on Arrow only: from sources through row-wise steps to sinks."""

from __future__ import annotations

from collections.abc import Iterator

from etl.plan.align import Align
from etl.plan.graph import Graph, PlanNode
from etl.plan.model import Branch, QueryPlan, Segment, StepNode


def arrow_queries(graph: Graph) -> Iterator[QueryPlan]:
    """One query for each group of sinks that row-wise steps reach from the same sources."""
    for sources, sinks in _components(graph):
        roots = {name: branch_after(graph, [], (name, -1)) for name in sources}
        segment = Segment(roots, {name: graph.output(name) for name in sinks}, dict.fromkeys(sources, True))
        yield QueryPlan("+".join(sources), graph.ours(sources), segment)


def _components(graph: Graph) -> list[tuple[list[str], list[str]]]:
    """Groups of sources and the sinks that they reach without Spark; sources that share a sink are in one group."""
    groups: list[tuple[set[str], set[str]]] = []
    for output in graph.pipeline.sinks.values():
        reached = set().union(*(graph.boundaries(graph.end(feed)) for feed in output.inputs))
        sources = {node[0] for node in reached if not graph.on_spark(node)}
        if not sources:
            continue
        joined = [group for group in groups if group[0] & sources]
        groups = [group for group in groups if not group[0] & sources]
        groups.append((sources.union(*(g[0] for g in joined)), {output.name}.union(*(g[1] for g in joined))))
    order = list(graph.pipeline.sources) + list(graph.pipeline.sinks)
    return [(sorted(a, key=order.index), sorted(b, key=order.index)) for a, b in groups]


def branch_after(graph: Graph, steps: list[StepNode], node: PlanNode) -> Branch:
    """The tree of row-wise steps from a node down to sinks; it ends before Spark steps."""
    followers = [f for f in graph.followers(node) if not graph.on_spark(f) and _delivers(graph, f)]
    sinks = tuple(graph.sinks(node))
    if len(followers) == 1 and not sinks:
        return branch_after(graph, [*steps, *steps_into(graph, node, followers[0])], followers[0])
    aligned = [_aligned(graph, node, name) for name in sinks]
    direct = tuple(name for name, step in zip(sinks, aligned, strict=True) if step is None)
    below = [Branch((step,), step.outgoing, (name,)) for name, step in zip(sinks, aligned, strict=True) if step is not None]
    below += [branch_after(graph, steps_into(graph, node, follower), follower) for follower in followers]
    return Branch(tuple(steps), graph.schema(node), direct, tuple(below))


def steps_into(graph: Graph, node: PlanNode, follower: PlanNode) -> list[StepNode]:
    """The steps between two nodes: that of ``follower``, or an alignment of schemas before a union."""
    if follower in graph.steps:
        return [graph.steps[follower]]
    here, there = graph.schema(node), graph.schema(follower)
    return [] if here.equals(there) else [StepNode(f"{follower[0]} union", Align(to=there), here, there)]


def _aligned(graph: Graph, node: PlanNode, sink: str) -> StepNode | None:
    here, there = graph.schema(node), graph.output(sink).schema
    return None if here.equals(there) else StepNode(f"{sink} union", Align(to=there), here, there)


def _delivers(graph: Graph, node: PlanNode) -> bool:
    """Whether row-wise steps lead from here to a sink."""
    return bool(graph.sinks(node)) or any(not graph.on_spark(f) and _delivers(graph, f) for f in graph.followers(node))
