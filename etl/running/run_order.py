"""With ``--once``, pipelines that read what others of the same command write run after these, so that they get all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from etl.api import Source
from etl.config.checks.targets import list_or_nothing, read_target
from etl.plan.query_plan import Plan


@dataclass(frozen=True)
class Upstream:
    """What a pipeline waits for."""

    pipelines: frozenset[str] = frozenset()
    """The pipelines that end before it begins."""
    sources: frozenset[str] = field(default=frozenset())
    """Its sources that read what those write: before it begins their input may be missing."""


NO_UPSTREAM = Upstream()
"""Of a pipeline that waits for no other."""


def upstream_of_each(plans: Sequence[Plan]) -> Mapping[str, Upstream]:
    """What each pipeline waits for, by its name. Pipelines that feed each other in a circle do not wait for one another, and
    nobody waits for a sink that may itself wait for its readers."""
    written = {plan.pipeline: list(_written(plan)) for plan in plans}
    direct = {plan.pipeline: dict(_feeding(plan, written)) for plan in plans}
    upstream = {name: _reach(name, direct) for name in direct}
    return {
        name: Upstream(
            frozenset(other for other in upstream[name] if name not in upstream[other]),
            frozenset(source for other, sources in feeding.items() if name not in upstream[other] for source in sources),
        )
        for name, feeding in direct.items()
    }


def _written(plan: Plan) -> Iterator[str]:
    outputs = [output for query in plan.queries for output in query.segment.outputs.values()]
    for sink in (output.sink for output in (*outputs, plan.dead_letters)):
        if not sink.waits_for_readers:
            yield from list_or_nothing(sink.writes)


def _feeding(plan: Plan, written: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """The pipelines that write what this one reads, each with the sources that read it."""
    sources: Mapping[str, Source] = plan.sources()
    for other, targets in written.items():
        found = [name for name, source in sources.items() if other != plan.pipeline and read_target(source, targets)]
        if found:
            yield other, found


def _reach(name: str, direct: Mapping[str, Mapping[str, object]]) -> set[str]:
    """All pipelines whose events come to this one, also over others."""
    found: set[str] = set()
    left = [*direct[name]]
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += direct[other]
    return found
