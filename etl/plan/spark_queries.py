"""Queries with a part for Spark: its frame, its event time, and what runs on Arrow in front of and behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from etl.api import FrameSource, Schema, SparkStep
from etl.plan.arrow_queries import entering, run_on
from etl.plan.graph import Graph, Place
from etl.plan.model import Apply, Branch, Frame, Map, Native, QueryPlan, Read, Segment, Union, Watermark, leaves, spark_nodes
from etl.steps.window import ARRIVAL


def spark_queries(graph: Graph) -> Iterator[QueryPlan]:
    """One for each Spark step, or source that Spark reads, behind which sinks come without another."""
    places = [(name, -1) for name in graph.pipeline.sources] + list(graph.nodes)
    for place in places:
        if not graph.on_spark(place):
            continue
        branch = run_on(graph, [], place)
        outputs = {name: graph.output(name) for part in branch.walk() for name in part.sinks}
        if outputs:
            frame = _frame(graph, place)
            name = graph.query_name(place)
            sources = {n: s for leaf in leaves(frame) if isinstance(leaf, Read) for n, s in leaf.sources.items()}
            yield QueryPlan(name, sources, Segment({"": branch}, outputs), _with_watermark(frame), _output_mode(frame))


def _frame(graph: Graph, place: Place) -> Frame:
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


def _read(graph: Graph, place: Place) -> Read:
    """Our sources, with the row-wise steps between them and a place, as a streaming DataFrame."""
    roots: dict[str, Branch] = {}
    for chain in _chains(graph, place):
        source, steps = chain[0], chain[1:]
        nodes = [node for here, there in zip(chain, steps, strict=False) for node in entering(graph, here, there)]
        way = Branch(tuple(nodes), graph.schema(place), emits=True)
        known = roots.get(source[0])
        roots[source[0]] = Branch((), graph.schema(source), branches=(known, way)) if known else way
    return Read(graph.ours(roots), Segment(roots, {}, dict.fromkeys(roots, True)), graph.schema(place))


def _chains(graph: Graph, place: Place) -> Iterator[list[Place]]:
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
            return replace(read, schema=schema, watermark=_read_clock(schema, clock))
        case _:
            return frame


def _read_clock(schema: Schema, clock: Watermark | None) -> Watermark | None:
    """The clock, where the reader can tell it; a time that only a Spark step makes gets its watermark behind that step."""
    if clock is None or clock.field == ARRIVAL:
        return replace(clock, arrival=True) if clock else None
    known = clock.field in schema.names and pa.types.is_timestamp(schema.field(clock.field).type)
    return clock if known else None


def _only(schema: Schema, needs: frozenset[str], clock: Watermark | None) -> Schema:
    kept = needs | ({clock.field} if clock else set())
    return pa.schema([field for field in schema if field.name in kept])
