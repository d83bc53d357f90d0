"""Unions before Spark steps whose inputs no single query reads together: one query for each of them.

Spark unites no stream with a source that is read once, and the results of stateful steps come at the end of a micro-batch. A
step that computes each event by itself may as well run in several queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from etl.api import SparkStep
from etl.plan.arrow_queries import alignment
from etl.plan.frames import AppliedSparkStep, Frame, Map, SparkRead, Union, frame_sources
from etl.plan.segments import Branch, StepPlanError
from etl.plan.state_graph import on_lane, output_schema, walk


def frames_of_queries(frame: Frame) -> list[tuple[str, Frame]]:
    """The frames of the queries that together give the events of a frame, each with what tells its query apart: nothing if one
    query is enough, else the names of the streams that it takes. Raises StepPlanError if a step needs all of them at once."""
    found = _divide(frame)
    for _, one in found:
        _refuse_mixed_reading(one)
    return found


def _divide(frame: Frame) -> list[tuple[str, Frame]]:
    match frame:
        case AppliedSparkStep(node=node) if on_lane(node) or (isinstance(node.step, SparkStep) and node.step.stateful):
            return [("", frame)]
        case AppliedSparkStep(child=child) | Map(child=child):
            return [(label, replace(frame, child=part)) for label, part in _divide(child)]
        case Union():
            return _divided_union(frame)
        case _:
            return [("", frame)]


def _divided_union(union: Union) -> list[tuple[str, Frame]]:
    """The parts of a union, each of inputs that one query reads."""
    parts = [
        ("-".join(filter(None, (name, label))), part)
        for name, child in zip(union.names, union.children, strict=True)
        for label, part in _divide(child)
    ]
    groups: dict[str, list[tuple[str, Frame]]] = {}
    for label, part in parts:
        groups.setdefault(_query_group(label, part), []).append((label, part))
    if len(groups) == 1:
        return [("", union)]
    return [("+".join(label for label, _ in group), _part_of(union, group)) for group in groups.values()]


def _query_group(label: str, frame: Frame) -> str:
    """Inputs with the same value can be in one query; each with a stateful step is in a query of its own."""
    if any(isinstance(part, AppliedSparkStep) and on_lane(part.node) for part in walk(frame)):
        return f"state of {label}"
    return "a stream" if any(_streams(frame)) else "once"


def _part_of(union: Union, group: Sequence[tuple[str, Frame]]) -> Frame:
    """Some inputs of a union, with all of its fields."""
    children = []
    for _, child in group:
        steps = alignment("union", output_schema(child), union.schema)
        children.append(Map(Branch(tuple(steps), union.schema, emits=True), child) if steps else child)
    return children[0] if len(children) == 1 else Union(tuple(children), union.schema, tuple(label for label, _ in group))


def _streams(frame: Frame) -> Iterator[bool]:
    """Of each source, whether it is read as a stream."""
    for leaf in frame_sources(frame):
        yield not isinstance(leaf, SparkRead) or leaf.source.streaming


def _refuse_mixed_reading(frame: Frame) -> None:
    """Raise StepPlanError for a step that gets events of a stream and of a source that is read once."""
    mixed = [part.node for part in walk(frame) if isinstance(part, AppliedSparkStep) and {*_streams(part)} == {True, False}]
    if mixed:
        once = [leaf.name for leaf in frame_sources(frame) if isinstance(leaf, SparkRead) and not leaf.source.streaming]
        raise StepPlanError(
            mixed[-1],
            f"this step needs the events of a stream together with those of {', '.join(map(repr, once))}, which is read once",
            "set streaming: true there, for a format that Spark can follow; or look its rows up (tables, lookup)",
        )
