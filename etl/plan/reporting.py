"""Marking which query reports a step's or source's counts: one that runs in several queries is reported by the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from etl.plan.model import Apply, Branch, Frame, Map, Native, QueryPlan, Read, Segment, Union


@dataclass
class _Reported:
    """Ids of steps, and names of sources, that a query reports already."""

    ids: set[str]

    def claim(self, name: str) -> bool:
        new = name not in self.ids
        self.ids.add(name)
        return new


def mark_reporting_queries(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
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
        case Native(name=name):
            return replace(frame, reports=in_this_query.claim(f"source {name}"))
        case Apply(child=child):
            return replace(frame, child=_mark_frame(child, earlier, in_this_query))
        case Map(branch=branch, child=child):
            return Map(_mark_branch(branch, earlier, in_this_query), _mark_frame(child, earlier, in_this_query))
        case Union(children=children):
            return replace(frame, children=tuple(_mark_frame(child, earlier, in_this_query) for child in children))
