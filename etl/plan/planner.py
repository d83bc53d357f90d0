"""Pipeline → queries: where each step runs, and what shares a pass over the data.

One query serves all sinks that row-wise steps reach from the same sources; each last Spark step in front of sinks
has a query of its own, with everything upstream of it. A step that runs in several queries reports in the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from etl.api import FrameSource, PlanError, Schema, Sink, Source, SparkStep
from etl.config.model import Pipeline
from etl.config.schemas import merge
from etl.plan.align import Align
from etl.plan.model import (
    Apply,
    Branch,
    Frame,
    Map,
    Native,
    Output,
    Plan,
    QueryPlan,
    Read,
    Segment,
    StepNode,
    Union,
    Watermark,
    leaves,
    runs_on_arrow,
    spark_nodes,
)

Place: TypeAlias = tuple[str, int]
"""Behind step ``index`` of a stream; index -1 is where its inputs come together. A source is ``(name, -1)``."""


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """The queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = _Graph(pipeline)
    queries = [*_arrow_queries(graph), *_spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is reached from a source")
    return Plan(pipeline.name, _reporting_once(queries), Output("dead_letters", dead_letters, dead_letters_schema))


class _Graph:
    """The pipeline with every place's schema and lane."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.nodes: dict[Place, StepNode] = {}
        self._schemas: dict[Place, Schema] = {}
        for stream in pipeline.streams.values():
            for index, step in enumerate(stream.steps):
                incoming = self.schema((stream.name, index - 1))
                node = StepNode(
                    f"{stream.name}[{index}] {step.type}",
                    step,
                    incoming,
                    step.fields(incoming),
                    pipeline.positions.get(("streams", stream.name, "steps", index)),
                )
                self.nodes[stream.name, index] = node

    def schema(self, place: Place) -> Schema:
        """What leaves a place."""
        if place not in self._schemas:
            self._schemas[place] = self._schema(place)
        return self._schemas[place]

    def _schema(self, place: Place) -> Schema:
        name, index = place
        if name in self.pipeline.sources:
            return self.pipeline.sources[name].fields()
        if index < 0:
            return merge([self.schema(self.end(feed)) for feed in self.pipeline.streams[name].inputs])
        step = self.pipeline.streams[name].steps[index]
        return step.fields(self.schema((name, index - 1)))

    def end(self, name: str) -> Place:
        """The place whose events leave a stream or source."""
        return (name, -1) if name in self.pipeline.sources else (name, len(self.pipeline.streams[name].steps) - 1)

    def on_spark(self, place: Place) -> bool:
        """Whether the events at this place come out of Spark: a Spark step, or a source that Spark reads."""
        if place in self.nodes:
            node = self.nodes[place]
            return not runs_on_arrow(node.step, node.incoming)
        return isinstance(self.pipeline.sources.get(place[0]), FrameSource)

    def feeds(self, place: Place) -> list[Place]:
        """The places directly upstream."""
        name, index = place
        if name in self.pipeline.sources:
            return []
        return [self.end(feed) for feed in self.pipeline.streams[name].inputs] if index < 0 else [(name, index - 1)]

    def followers(self, place: Place) -> list[Place]:
        """The places directly downstream."""
        name, index = place
        if (name, index + 1) in self.nodes:
            return [(name, index + 1)]
        return [(s.name, -1) for s in self.pipeline.streams.values() if name in s.inputs]

    def sinks(self, place: Place) -> list[str]:
        """The sinks that take the events of this place."""
        if place != self.end(place[0]):
            return []
        return [output.name for output in self.pipeline.sinks.values() if place[0] in output.inputs]

    def boundaries(self, place: Place) -> set[Place]:
        """Where the events at a place come from last: Spark places and our own sources."""
        if self.on_spark(place) or not self.feeds(place):
            return {place}
        return set().union(*(self.boundaries(feed) for feed in self.feeds(place)))

    def query_name(self, place: Place) -> str:
        """After the stream and its Spark step, by their order: steps that come or go in front of it change nothing."""
        if place not in self.nodes:
            return place[0]
        name, index = place
        kind = self.nodes[place].step.type
        before = sum(self.nodes[name, at].step.type == kind for at in range(index))
        return f"{name}-{kind}{f'-{before + 1}' if before else ''}"

    def ours(self, names: Iterable[str]) -> dict[str, Source]:
        """The sources that hand out splits."""
        return {name: s for name in names if isinstance(s := self.pipeline.sources[name], Source)}

    def output(self, name: str) -> Output:
        """A sink with the fields that reach it."""
        output = self.pipeline.sinks[name]
        return Output(name, output.sink, merge([self.schema(self.end(feed)) for feed in output.inputs]))


# ── Queries that Arrow serves whole ───────────────────────────────────────────────────────────────


def _arrow_queries(graph: _Graph) -> Iterator[QueryPlan]:
    for sources, sinks in _components(graph):
        roots = {name: _run_on(graph, [], (name, -1)) for name in sources}
        segment = Segment(roots, {name: graph.output(name) for name in sinks}, dict.fromkeys(sources, True))
        yield QueryPlan("+".join(sources), graph.ours(sources), segment)


def _components(graph: _Graph) -> list[tuple[list[str], list[str]]]:
    """Sources and the sinks they reach without Spark, joined where they share a sink."""
    groups: list[tuple[set[str], set[str]]] = []
    for output in graph.pipeline.sinks.values():
        reached = set().union(*(graph.boundaries(graph.end(feed)) for feed in output.inputs))
        sources = {place[0] for place in reached if not graph.on_spark(place)}
        if not sources:
            continue
        joined = [group for group in groups if group[0] & sources]
        groups = [group for group in groups if not group[0] & sources]
        groups.append((sources.union(*(g[0] for g in joined)), {output.name}.union(*(g[1] for g in joined))))
    order = list(graph.pipeline.sources) + list(graph.pipeline.sinks)
    return [(sorted(a, key=order.index), sorted(b, key=order.index)) for a, b in groups]


def _run_on(graph: _Graph, steps: list[StepNode], place: Place) -> Branch:
    """Everything row-wise behind a place, down to sinks; Spark steps end it."""
    followers = [f for f in graph.followers(place) if not graph.on_spark(f) and _delivers(graph, f)]
    sinks = tuple(graph.sinks(place))
    if len(followers) == 1 and not sinks:
        return _run_on(graph, [*steps, *_entering(graph, place, followers[0])], followers[0])
    aligned = [_aligned(graph, place, name) for name in sinks]
    direct = tuple(name for name, step in zip(sinks, aligned, strict=True) if step is None)
    below = [Branch((step,), step.outgoing, (name,)) for name, step in zip(sinks, aligned, strict=True) if step is not None]
    below += [_run_on(graph, _entering(graph, place, follower), follower) for follower in followers]
    return Branch(tuple(steps), graph.schema(place), direct, tuple(below))


def _entering(graph: _Graph, place: Place, follower: Place) -> list[StepNode]:
    """The step at ``follower``, or the alignment that a union asks of its inputs."""
    if follower in graph.nodes:
        return [graph.nodes[follower]]
    here, there = graph.schema(place), graph.schema(follower)
    return [] if here.equals(there) else [StepNode(f"{follower[0]} union", Align(to=there), here, there)]


def _aligned(graph: _Graph, place: Place, sink: str) -> StepNode | None:
    here, there = graph.schema(place), graph.output(sink).schema
    return None if here.equals(there) else StepNode(f"{sink} union", Align(to=there), here, there)


def _delivers(graph: _Graph, place: Place) -> bool:
    """Whether row-wise steps lead from here to a sink."""
    return bool(graph.sinks(place)) or any(not graph.on_spark(f) and _delivers(graph, f) for f in graph.followers(place))


# ── Queries with a part for Spark ─────────────────────────────────────────────────────────────────


def _spark_queries(graph: _Graph) -> Iterator[QueryPlan]:
    places = [(name, -1) for name in graph.pipeline.sources] + list(graph.nodes)
    for place in places:
        if not graph.on_spark(place):
            continue
        branch = _run_on(graph, [], place)
        outputs = {name: graph.output(name) for part in branch.walk() for name in part.sinks}
        if outputs:
            frame = _frame(graph, place)
            name = graph.query_name(place)
            sources = {n: s for leaf in leaves(frame) if isinstance(leaf, Read) for n, s in leaf.sources.items()}
            yield QueryPlan(name, sources, Segment({"": branch}, outputs), _with_watermark(frame), _output_mode(frame))


def _frame(graph: _Graph, place: Place) -> Frame:
    if not graph.on_spark(place) and not any(graph.on_spark(b) for b in graph.boundaries(place)):
        return _read(graph, place)
    name, index = place
    if place in graph.nodes:
        child = _frame(graph, (name, index - 1))
        node = graph.nodes[place]
        if isinstance(node.step, SparkStep):
            return Apply(node, child)
        return Map(Branch((node,), node.outgoing, emits=True), child)
    source = graph.pipeline.sources.get(name)
    if isinstance(source, FrameSource):
        return Native(name, source, graph.schema(place))
    children = tuple(_frame(graph, feed) for feed in graph.feeds(place))
    return children[0] if len(children) == 1 else Union(children, graph.schema(place))


def _read(graph: _Graph, place: Place) -> Read:
    """Our sources, with the row-wise steps between them and a place, as a streaming DataFrame."""
    roots: dict[str, Branch] = {}
    for chain in _chains(graph, place):
        source, steps = chain[0], chain[1:]
        nodes = [node for here, there in zip(chain, steps, strict=False) for node in _entering(graph, here, there)]
        way = Branch(tuple(nodes), graph.schema(place), emits=True)
        known = roots.get(source[0])
        roots[source[0]] = Branch((), graph.schema(source), branches=(known, way)) if known else way
    return Read(graph.ours(roots), Segment(roots, {}, dict.fromkeys(roots, True)), graph.schema(place))


def _chains(graph: _Graph, place: Place) -> Iterator[list[Place]]:
    """Every way from a source down to a place."""
    feeds = graph.feeds(place)
    if not feeds:
        yield [place]
    for feed in feeds:
        for chain in _chains(graph, feed):
            yield [*chain, place]


def _output_mode(frame: Frame) -> str:
    modes = [node.step.output_mode() for node in spark_nodes(frame) if isinstance(node.step, SparkStep)]
    return "update" if modes and modes[-1] == "update" else "append"


def _with_watermark(frame: Frame) -> Frame:
    """Tell each read which event time the first stateful step behind it goes by, and drop fields nobody needs."""
    return _pushed(frame, None, None)


def _pushed(frame: Frame, clock: Watermark | None, needs: frozenset[str] | None) -> Frame:
    match frame:
        case Apply(node=node, child=child) if isinstance(node.step, SparkStep):
            wanted = node.step.event_time()
            if wanted is not None:
                idle = node.step.idle_after()
                reach = node.step.reach().total_seconds() + (clock.reach_seconds if clock else 0)
                clock = Watermark(wanted[0], wanted[1].total_seconds(), idle.total_seconds() if idle else None, reach)
            return Apply(node, _pushed(child, clock, node.step.needs(node.incoming)))
        case Map(branch=branch, child=child):
            return Map(branch, _pushed(child, clock, None))
        case Union(children=children, schema=schema):
            return Union(tuple(_pushed(child, clock, needs) for child in children), schema)
        case Read() as read:
            schema = read.schema if needs is None else _only(read.schema, needs, clock)
            if clock is not None and clock.field not in schema.names:
                clock = replace(clock, arrival=True)
            return replace(read, schema=schema, watermark=clock)
        case _:
            return frame


def _only(schema: Schema, needs: frozenset[str], clock: Watermark | None) -> Schema:
    import pyarrow as pa

    kept = needs | ({clock.field} if clock else set())
    return pa.schema([field for field in schema if field.name in kept])


# ── Who reports ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Seen:
    """Step ids and sources that an earlier query reports."""

    ids: set[str]

    def first(self, name: str) -> bool:
        new = name not in self.ids
        self.ids.add(name)
        return new


def _reporting_once(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    seen = _Seen(set())
    told = []
    for query in queries:
        mine = _Seen(set(seen.ids))
        frame = None if query.frame is None else _told_frame(query.frame, seen, mine)
        told.append(replace(query, segment=_told(query.segment, seen, mine), frame=frame))
        seen.ids |= mine.ids
    return tuple(told)


def _told(segment: Segment, seen: _Seen, mine: _Seen) -> Segment:
    roots = {name: _told_branch(branch, seen, mine) for name, branch in segment.roots.items()}
    counts = {name: mine.first(f"source {name}") for name in segment.counts_source}
    return replace(segment, roots=roots, counts_source=counts)


def _told_branch(branch: Branch, seen: _Seen, mine: _Seen) -> Branch:
    for node in branch.steps:
        mine.ids.add(node.id)
    steps = tuple(replace(node, reports=node.id not in seen.ids) for node in branch.steps)
    return replace(branch, steps=steps, branches=tuple(_told_branch(b, seen, mine) for b in branch.branches))


def _told_frame(frame: Frame, seen: _Seen, mine: _Seen) -> Frame:
    match frame:
        case Read(segment=segment):
            return replace(frame, segment=_told(segment, seen, mine))
        case Native(name=name):
            return replace(frame, reports=mine.first(f"source {name}"))
        case Apply(child=child):
            return replace(frame, child=_told_frame(child, seen, mine))
        case Map(branch=branch, child=child):
            return Map(_told_branch(branch, seen, mine), _told_frame(child, seen, mine))
        case Union(children=children):
            return replace(frame, children=tuple(_told_frame(child, seen, mine) for child in children))
