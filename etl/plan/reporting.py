"""Which query reports the rejects and counts of a step, where a step runs in several queries.

A step that runs in two queries over the same events (for an archive, and before a window) reports them in the first one only.
After a union, queries may run one step over different events: each of those reports its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from etl.plan.arrow_queries import AlignFields
from etl.plan.frames import AppliedSparkStep, EventFiles, Frame, Map, Read, SparkRead, StateGraph, Union
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Branch, Segment, StepNode

Link: TypeAlias = tuple[str, str]
"""Two steps, or a source and a step, of which the second one gets the events of the first one."""


@dataclass(frozen=True)
class Route:
    """How events arrive somewhere: the last steps, and the links before them."""

    last: frozenset[str]
    links: frozenset[Link] = frozenset()

    def through(self, id_: str) -> Route:
        """The route after a further step."""
        return Route(frozenset({id_}), self.links.union((one, id_) for one in self.last))


def _unite(routes: Iterable[Route]) -> Route:
    found = list(routes)
    return Route(frozenset().union(*(one.last for one in found)), frozenset().union(*(one.links for one in found)))


_Ends: TypeAlias = dict[int, list[Route]]
"""Number of an exchange → the routes of the events that branches emit to it."""


def mark_reporting_queries(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """The queries, with each step marked to report if an earlier query does not report the same events of it."""
    marker, marked = _Marker(), []
    for query in queries:
        start = Route(frozenset())
        frame = query.frame
        if frame is not None:
            frame, start = marker.frame(frame)
        segment, _ = marker.segment(query.segment, start)
        marked.append(replace(query, segment=segment, frame=frame))
        marker.end_query()
    return tuple(marked)


@dataclass
class _Marker:
    """Marks the steps and sources of queries, one query after another."""

    sources: set[str] = field(default_factory=set)
    """Sources whose events a query reports as read."""
    earlier: defaultdict[str, set[Link]] = field(default_factory=lambda: defaultdict(set))
    """Step → the links before it, in earlier queries."""
    current: list[tuple[str, frozenset[Link]]] = field(default_factory=list)
    """The same of this query."""

    def end_query(self) -> None:
        """Count the steps of this query among those of earlier ones."""
        for id_, links in self.current:
            self.earlier[id_] |= links
        self.current.clear()

    def segment(self, segment: Segment, start: Route) -> tuple[Segment, _Ends]:
        """A marked segment; ``start`` is the route before the root that has no source."""
        ends: _Ends = defaultdict(list)
        roots = {
            name: self.branch(root, Route(frozenset({f"source {name}"})) if name else start, ends, {})
            for name, root in segment.roots.items()
        }
        counts = {name: self._claim_source(name) for name in segment.counts_source}
        return replace(segment, roots=roots, counts_source=counts), ends

    def branch(self, branch: Branch, route: Route, ends: _Ends, unions: dict[str, list[Route]]) -> Branch:
        """A marked branch; ``unions`` are the routes of what earlier branches of the tree give to each union."""
        if branch.gathers is not None:
            route = _unite(unions[branch.gathers])
        steps = []
        for node in branch.steps:
            if isinstance(node.step, AlignFields):
                steps.append(node)
                continue
            route = route.through(node.id)
            steps.append(self._mark_node(node, route))
        if branch.emits:
            ends[branch.to].append(route)
        if branch.into is not None:
            unions.setdefault(branch.into, []).append(route)
        below = tuple(self.branch(one, route, ends, unions) for one in branch.branches)
        return replace(branch, steps=tuple(steps), branches=below)

    def _mark_node(self, node: StepNode, route: Route) -> StepNode:
        self.current.append((node.id, route.links))
        return replace(node, reports=not route.links <= self.earlier[node.id])

    def _claim_source(self, name: str) -> bool:
        new = name not in self.sources
        self.sources.add(name)
        return new

    def frame(self, frame: Frame, files: Route | None = None) -> tuple[Frame, Route]:
        """A marked frame, and the route of its events; ``files`` is that of events in files."""
        match frame:
            case Read(segment=segment):
                segment, ends = self.segment(segment, Route(frozenset()))
                return replace(frame, segment=segment), _unite(one for found in ends.values() for one in found)
            case SparkRead(name=name):
                return replace(frame, reports=self._claim_source(name)), Route(frozenset({f"source {name}"}))
            case EventFiles():
                assert files is not None, "events of files follow a stage"
                return frame, files
            case AppliedSparkStep(node=node, child=child):
                child, route = self.frame(child, files)
                return replace(frame, child=child), route.through(node.id)
            case Map(branch=branch, child=child):
                child, route = self.frame(child, files)
                emitted: _Ends = defaultdict(list)
                branch = self.branch(branch, route, emitted, {})
                return Map(branch, child), _unite(one for found in emitted.values() for one in found)
            case Union(children=children):
                found = [self.frame(child, files) for child in children]
                return replace(frame, children=tuple(one for one, _ in found)), _unite(route for _, route in found)
            case StateGraph():
                return self._graph(frame)

    def _graph(self, graph: StateGraph) -> tuple[Frame, Route]:
        ends: _Ends = defaultdict(list)
        if isinstance(graph.child, Read):
            segment, ends = self.segment(graph.child.segment, Route(frozenset()))
            child: Frame = replace(graph.child, segment=segment)
        else:
            child, route = self.frame(graph.child)
            ends |= {number: [route] for number, one in enumerate(graph.inputs) if one.stage == 0}
        stages, betweens, route = [], dict[int, Frame | None](), Route(frozenset())
        for number, stage in enumerate(graph.stages):
            arriving = []
            for at, one in enumerate(graph.inputs):
                if one.stage == number:
                    betweens[at], arrived = self._between(one.between, _unite(ends[at]))
                    arriving.append(arrived)
            route = _unite(arriving).through(stage.node.id)
            stages.append(replace(stage, downstream=self.branch(stage.downstream, route, ends, {})))
        inputs = tuple(replace(one, between=betweens[at]) for at, one in enumerate(graph.inputs))
        return replace(graph, child=child, stages=tuple(stages), inputs=inputs), route

    def _between(self, frame: Frame | None, route: Route) -> tuple[Frame | None, Route]:
        return (None, route) if frame is None else self.frame(frame, route)
