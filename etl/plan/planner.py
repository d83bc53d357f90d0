"""Planning a pipeline: which queries it becomes, and where each step runs.

One query serves all sinks that row-wise steps reach from the same sources. Each Spark step that is the last before sinks has its
own query, with everything upstream of it. A step that runs in several queries is reported by the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from etl.api import PlanError, Schema, Sink
from etl.config.model import Pipeline
from etl.plan.arrow_queries import arrow_queries
from etl.plan.frames import Apply, EventFiles, Frame, Map, Read, SparkRead, StateGraph, Union
from etl.plan.graph import Graph
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import Branch, Output, Segment
from etl.plan.spark_queries import spark_queries


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """Plan the queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = Graph(pipeline)
    queries = [*arrow_queries(graph), *spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is connected to a source")
    return Plan(pipeline.name, _mark_reporting_queries(queries), Output("dead_letters", dead_letters, dead_letters_schema))


# ── Reporting ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Reported:
    """Ids of steps and names of sources that a query already reports."""

    ids: set[str]

    def claim(self, name: str) -> bool:
        new = name not in self.ids
        self.ids.add(name)
        return new


def _mark_reporting_queries(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """The queries, with each step and source marked to report in exactly one of them."""
    earlier = _Reported(set())
    marked = []
    for query in queries:
        in_this_query = _Reported(set(earlier.ids))
        frame = None if query.frame is None else _mark_frame(query.frame, earlier, in_this_query)
        marked.append(replace(query, segment=_mark_segment(query.segment, earlier, in_this_query), frame=frame))
        earlier.ids |= in_this_query.ids
    return tuple(marked)


def _mark_segment(segment: Segment, earlier: _Reported, in_this_query: _Reported) -> Segment:
    roots = {name: _mark_branch(branch, earlier, in_this_query) for name, branch in segment.roots.items()}
    counts = {name: in_this_query.claim(f"source {name}") for name in segment.counts_source}
    return replace(segment, roots=roots, counts_source=counts)


def _mark_branch(branch: Branch, earlier: _Reported, in_this_query: _Reported) -> Branch:
    for node in branch.steps:
        in_this_query.ids.add(node.id)
    steps = tuple(replace(node, reports=node.id not in earlier.ids) for node in branch.steps)
    return replace(branch, steps=steps, branches=tuple(_mark_branch(b, earlier, in_this_query) for b in branch.branches))


def _mark_frame(frame: Frame, earlier: _Reported, in_this_query: _Reported) -> Frame:
    match frame:
        case Read(segment=segment):
            return replace(frame, segment=_mark_segment(segment, earlier, in_this_query))
        case SparkRead(name=name):
            return replace(frame, reports=in_this_query.claim(f"source {name}"))
        case Apply(child=child):
            return replace(frame, child=_mark_frame(child, earlier, in_this_query))
        case StateGraph(child=child, stages=found, inputs=inputs):
            child = _mark_frame(child, earlier, in_this_query)
            betweens = [one.between and _mark_frame(one.between, earlier, in_this_query) for one in inputs]
            marked = tuple(replace(one, between=between) for one, between in zip(inputs, betweens, strict=True))
            stages = tuple(replace(stage, behind=_mark_branch(stage.behind, earlier, in_this_query)) for stage in found)
            return replace(frame, child=child, stages=stages, inputs=marked)
        case EventFiles():
            return frame
        case Map(branch=branch, child=child):
            return Map(_mark_branch(branch, earlier, in_this_query), _mark_frame(child, earlier, in_this_query))
        case Union(children=children):
            return replace(frame, children=tuple(_mark_frame(child, earlier, in_this_query) for child in children))
