"""Which query reports the rejects and counts of a step, where a step runs in several queries.

A step that runs in two queries over the same events (for an archive, and before a window) reports them in the first one only.
After a union, queries may run one step over different events: each of those reports its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from etl.api import SideStep, Step
from etl.plan.arrow_queries import AlignFields
from etl.plan.frames import (
    AppliedSparkStep,
    EventFiles,
    Frame,
    Map,
    Read,
    SparkInputs,
    SparkRead,
    StageInput,
    StateGraph,
    Union,
    exchange_of,
)
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Branch, Segment, StepNode, Watermark

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


@dataclass(frozen=True)
class _TimeCheck:
    """Where events without a usable event time are rejected."""

    field: str
    route: Route

    def covers(self, other: _TimeCheck, steps: Mapping[str, Step]) -> bool:
        """Whether all events of another check come by this one, with the same times: only steps that keep these are between."""
        more = other.route.links - self.route.links
        known = self.route.last | {step for _, step in more}
        return (
            self.field == other.field
            and self.route.links <= other.route.links
            and other.route.last <= known
            and all(before in known and steps[step].keeps_values(self.field) for before, step in more)
        )


def _reporting_checks(checks: Sequence[_TimeCheck], steps: Mapping[str, Step]) -> list[bool]:
    """Of each check, whether it reports the events that it rejects; of those of the same events one does."""
    return [
        not any(
            other.covers(one, steps) and (before < at or not one.covers(other, steps))
            for before, other in enumerate(checks)
            if before != at
        )
        for at, one in enumerate(checks)
    ]


_Ends: TypeAlias = dict[int, list[Route]]
"""Number of an exchange → the routes of the events that branches emit to it."""
_Times: TypeAlias = Mapping[int, Watermark | None]
"""Number of an exchange → the watermark that is taken from its events."""
NO_TIMES: _Times = MappingProxyType({})


def mark_reporting_queries(queries: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """The queries, with each step marked to report if an earlier query does not report the same events of it."""
    first = _Marker()
    _mark(queries, first)
    return _mark(queries, _Marker(reporting=iter(_reporting_checks(first.checks, first.steps))))


def _mark(queries: Sequence[QueryPlan], marker: _Marker) -> tuple[QueryPlan, ...]:
    marked = []
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
    checks: list[_TimeCheck] = field(default_factory=list)
    """Where events without a usable event time are rejected, in the order in which they are found."""
    reporting: Iterator[bool] | None = None
    """Of each of these, whether it reports them; None while they are collected."""
    steps: dict[str, Step] = field(default_factory=dict)

    def _check_times(self, watermark: Watermark | None, route: Route, last: Step | None = None) -> bool:
        """Whether events without a usable event time are reported where a watermark is taken from the events of a route."""
        if watermark is None or watermark.arrival:
            return True
        times = getattr(last, "times", None) if isinstance(last, SideStep) else None
        self.checks.append(_TimeCheck(times[last.sides[0]] if last and times else watermark.field, route))  # type: ignore[attr-defined]
        return True if self.reporting is None else next(self.reporting)

    def end_query(self) -> None:
        """Count the steps of this query among those of earlier ones."""
        for id_, links in self.current:
            self.earlier[id_] |= links
        self.current.clear()

    def segment(self, segment: Segment, start: Route, times: _Times = NO_TIMES) -> tuple[Segment, _Ends]:
        """A marked segment; ``start`` is the route before the root that has no source, ``times`` the watermarks of exchanges."""
        ends: _Ends = defaultdict(list)
        roots = {
            name: self.branch(root, Route(frozenset({f"source {name}"})) if name else start, ends, {}, times)
            for name, root in segment.roots.items()
        }
        counts = {name: self._claim_source(name) for name in segment.counts_source}
        return replace(segment, roots=roots, counts_source=counts), ends

    def branch(
        self, branch: Branch, route: Route, ends: _Ends, unions: dict[str, list[Route]], times: _Times = NO_TIMES
    ) -> Branch:
        """A marked branch; ``unions`` are the routes of what earlier branches of the tree give to each union."""
        if branch.gathers is not None:
            route = _unite(unions[branch.gathers])
        steps, before, reports_times = [], route, True
        for node in branch.steps:
            if isinstance(node.step, AlignFields):
                steps.append(node)
                continue
            before, route = route, route.through(node.id)
            steps.append(self._mark_node(node, route))
        if branch.emits:
            ends[branch.to].append(route)
            last = branch.steps[-1].step if branch.steps else None
            checked = before if isinstance(last, SideStep) else route
            reports_times = self._check_times(times.get(branch.to), checked, last)
        if branch.into is not None:
            unions.setdefault(branch.into, []).append(route)
        below = tuple(self.branch(one, route, ends, unions, times) for one in branch.branches)
        return replace(branch, steps=tuple(steps), branches=below, reports_times=reports_times)

    def _mark_node(self, node: StepNode, route: Route) -> StepNode:
        self.current.append((node.id, route.links))
        self.steps[node.id] = node.step
        return replace(node, reports=not route.links <= self.earlier[node.id])

    def _claim_source(self, name: str) -> bool:
        new = name not in self.sources
        self.sources.add(name)
        return new

    def frame(self, frame: Frame, files: Route | None = None) -> tuple[Frame, Route]:
        """A marked frame, and the route of its events; ``files`` is that of events in files."""
        match frame:
            case Read(segment=segment, watermark=watermark):
                segment, ends = self.segment(segment, Route(frozenset()), {0: watermark})
                return replace(frame, segment=segment), _unite(one for found in ends.values() for one in found)
            case SparkRead(name=name):
                return replace(frame, reports=self._claim_source(name)), Route(frozenset({f"source {name}"}))
            case EventFiles():
                assert files is not None, "events of files follow a stage"
                return frame, files
            case AppliedSparkStep(node=node, child=child):
                child, route = self.frame(child, files)
                self.steps[node.id] = node.step
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
            case SparkInputs():
                raise AssertionError("a graph has the inputs of its stages")

    def _graph(self, graph: StateGraph) -> tuple[Frame, Route]:
        ends: _Ends = defaultdict(list)
        times = {at: exchange_of(one, graph.stages[one.stage].exchange).watermark for at, one in enumerate(graph.inputs)}
        if isinstance(graph.child, Read):
            segment, ends = self.segment(graph.child.segment, Route(frozenset()), times)
            child: Read | SparkInputs = replace(graph.child, segment=segment)
        else:
            marked = {number: self.frame(frame) for number, frame in graph.child.frames.items()}
            child = SparkInputs({number: frame for number, (frame, _) in marked.items()})
            ends |= {at: [marked[one.stage][1]] for at, one in enumerate(graph.inputs) if one.sources}
        stages, inputs, route = [], dict[int, StageInput](), Route(frozenset())
        for number, stage in enumerate(graph.stages):
            arriving = []
            for at, one in enumerate(graph.inputs):
                if one.stage == number:
                    between, arrived = self._between(one.between, _unite(ends[at]))
                    by_spark = between is not None or (one.sources and isinstance(child, SparkInputs))
                    reports = self._check_times(stage.watermark, arrived) if by_spark else True
                    inputs[at] = replace(one, between=between, reports_times=reports)
                    arriving.append(arrived)
            route = _unite(arriving).through(stage.node.id)
            self.steps[stage.node.id] = stage.node.step
            stages.append(replace(stage, downstream=self.branch(stage.downstream, route, ends, {}, times)))
        return replace(graph, child=child, stages=tuple(stages), inputs=tuple(inputs[at] for at in range(len(inputs)))), route

    def _between(self, frame: Frame | None, route: Route) -> tuple[Frame | None, Route]:
        return (None, route) if frame is None else self.frame(frame, route)
