"""Queries that run on Arrow only: from sources through row-wise steps to sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from etl.api import ArrowStep, JoiningStep, Outcome, Schema, widen, with_columns
from etl.plan.graph import Graph, PlanNode
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Branch, Segment, StepNode


def arrow_queries(graph: Graph) -> Iterator[QueryPlan]:
    """One query for each group of sinks that row-wise steps reach from the same sources."""
    for sources, sinks in _components(graph):
        roots = {name: branch_after(graph, [], (name, -1)) for name in sources}
        segment = Segment(roots, {name: graph.output(name) for name in sinks}, dict.fromkeys(sources, True))
        yield QueryPlan("+".join(sources), graph.split_sources(sources), segment)


def _components(graph: Graph) -> list[tuple[list[str], list[str]]]:
    """Groups of sources and the sinks that they reach without Spark; sources that share a sink are in one group."""
    groups: list[tuple[set[str], set[str]]] = []
    for output in graph.pipeline.sinks.values():
        nodes = set().union(*(graph.boundaries(graph.end(one)) for one in output.inputs))
        sources = {node[0] for node in nodes if not graph.on_spark(node)}
        if not sources:
            continue
        joined = [group for group in groups if group[0] & sources]
        groups = [group for group in groups if not group[0] & sources]
        groups.append((sources.union(*(g[0] for g in joined)), {output.name}.union(*(g[1] for g in joined))))
    order = list(graph.pipeline.sources) + list(graph.pipeline.sinks)
    return [(sorted(a, key=order.index), sorted(b, key=order.index)) for a, b in groups]


def branch_after(graph: Graph, steps: list[StepNode], node: PlanNode) -> Branch:
    """The tree of row-wise steps from a node down to sinks; it ends before Spark steps."""
    return _branch_from(graph, steps, node, _path_counts(graph, node))


def _path_counts(graph: Graph, node: PlanNode) -> Counter[PlanNode]:
    """Node → the number of paths to it from this node. A union with more than one path joins branches."""
    paths: Counter[PlanNode] = Counter()
    waiting = [node]
    while waiting:
        followers = _followers(graph, waiting.pop())
        waiting += [follower for follower in followers if not paths[follower]]
        paths.update(followers)
    return paths


def _followers(graph: Graph, node: PlanNode) -> list[PlanNode]:
    return [follower for follower in graph.followers(node) if not graph.on_spark(follower) and _delivers(graph, follower)]


def _branch_from(graph: Graph, steps: list[StepNode], node: PlanNode, paths: Counter[PlanNode]) -> Branch:
    followers, sinks = _followers(graph, node), tuple(graph.sinks(node))
    if len(followers) == 1 and not sinks:
        if paths[followers[0]] > 1:
            return Branch(tuple(steps), graph.schema(node), into=followers[0][0])
        return _branch_from(graph, [*steps, *steps_into(graph, node, followers[0])], followers[0], paths)
    aligned = [_alignment(graph, node, name) for name in sinks]
    direct = tuple(name for name, step in zip(sinks, aligned, strict=True) if step is None)
    below = [Branch((step,), step.outgoing, (name,)) for name, step in zip(sinks, aligned, strict=True) if step is not None]
    for follower in followers:
        if paths[follower] > 1:
            below.append(Branch((), graph.schema(node), into=follower[0]))
        else:
            below.append(_branch_from(graph, steps_into(graph, node, follower), follower, paths))
    return Branch(tuple(steps), graph.schema(node), direct, (*below, *_unions(graph, below, paths)))


def _unions(graph: Graph, below: list[Branch], paths: Counter[PlanNode]) -> list[Branch]:
    """The branches after the unions whose last input branch is in ``below`` or after another such union."""
    found: list[Branch] = []
    while True:
        parts = [part for branch in (*below, *found) for part in branch.walk()]
        entered, gathered = Counter(part.into for part in parts), {part.gathers for part in parts}
        ready = [one for one, count in paths.items() if count > 1 and entered[one[0]] == count and one[0] not in gathered]
        if not ready:
            return found
        found.append(replace(_branch_from(graph, [], ready[0], paths), gathers=ready[0][0]))


def steps_into(graph: Graph, node: PlanNode, follower: PlanNode) -> list[StepNode]:
    """The steps between two nodes: that of ``follower``, or what gives events the fields of a union or of a join."""
    if follower in graph.steps:
        return [graph.steps[follower]]
    here, there = graph.schema(node), graph.schema(follower)
    first = graph.steps.get((follower[0], 0))
    if first is not None and isinstance(first.step, JoiningStep):
        side = first.step.side_rows(node[0], graph.input_schemas(follower[0]))
        return [StepNode(f"{follower[0]} side {node[0]}", side, here, there)]
    return alignment(f"{follower[0]} union", here, there)


def alignment(name: str, here: Schema, there: Schema) -> list[StepNode]:
    """The step that gives events the fields of a union; none if they have them."""
    return [] if here.equals(there) else [StepNode(name, AlignFields(to=there), here, there)]


def _alignment(graph: Graph, node: PlanNode, sink: str) -> StepNode | None:
    here, there = graph.schema(node), graph.output(sink).schema
    return None if here.equals(there) else StepNode(f"{sink} union", AlignFields(to=there), here, there)


def _delivers(graph: Graph, node: PlanNode) -> bool:
    """Whether row-wise steps lead from here to a sink."""
    return bool(graph.sinks(node)) or any(not graph.on_spark(f) and _delivers(graph, f) for f in graph.followers(node))


# ── Unions ────────────────────────────────────────────────────────────────────────────────────────


class AlignFields(ArrowStep):
    """Give events the fields of a union; missing ones are null."""

    type: Literal["align"] = "align"
    to: pa.Schema

    def fields(self, incoming: Schema) -> Schema:
        """The union's fields; a type that only Spark knows is that of the event's field."""
        return pa.schema([self._field(field, incoming) for field in self.to])

    def _field(self, field: pa.Field, incoming: Schema) -> pa.Field:
        known = pa.types.is_null(field.type) and field.name in incoming.names
        return field.with_type(incoming.field(field.name).type) if known else field

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Add missing columns as nulls and cast narrower numbers; hidden columns follow at the end."""
        known = set(self.to.names)

        def run(batch: pa.RecordBatch) -> Outcome:
            columns = {field.name: _column(batch, field) for field in self.fields(batch.schema)}
            hidden = {name: batch.column(name) for name in batch.schema.names if name not in known}
            return Outcome(with_columns(pa.RecordBatch.from_pydict(columns), hidden))

        return run


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    return widen(column, field.type)
