"""Who reports: a step or source that runs in several queries counts in the first of them only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from etl.plan.model import Apply, Branch, Frame, Map, Native, QueryPlan, Read, Segment, Union


@dataclass
class _Seen:
    """Step ids and sources that an earlier query reports."""

    ids: set[str]

    def first(self, name: str) -> bool:
        new = name not in self.ids
        self.ids.add(name)
        return new


def reporting_once(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """The queries, each step and source marked to report in one of them."""
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
