"""A plan as text for ``etl explain``: queries, segments, where and why each step runs, fields, guarantees."""

from __future__ import annotations

from collections.abc import Iterator

from etl.api import ArrowStep, Schema, StatefulStep, format_type, visible
from etl.plan.model import (
    Apply,
    Branch,
    Frame,
    Map,
    Native,
    Plan,
    QueryPlan,
    Read,
    Segment,
    Stateful,
    StepNode,
    Union,
    spark_nodes,
    stages,
)
from etl.state.key_hash import PARTS


def explained(plan: Plan) -> Iterator[str]:
    """The plan as lines of text."""
    yield f"pipeline {plan.pipeline}: {len(plan.queries)} {'query' if len(plan.queries) == 1 else 'queries'}"
    for query in plan.queries:
        yield ""
        yield from _query(query)
    yield ""
    yield f"dead letters → {plan.dead_letters.sink.type} {' '.join(plan.dead_letters.sink.targets())}".rstrip()


def _query(query: QueryPlan) -> Iterator[str]:
    if query.frame is None:
        yield f"query {query.name}: Arrow only, one pass; its tasks read, work and deliver"
        yield from _segment(query.segment, "  ")
        return
    kind = "keeps state" if query.stateful else "keeps no state"
    lane = query.on_state_lane
    spark = " → Spark → Arrow" if any(spark_nodes(query.frame)) else ""
    yield f"query {query.name}: {f'Arrow{spark}, keeps state in files' if lane else f'Arrow → Spark ({kind}) → Arrow'}"
    yield from _frame(query.frame, "  ")
    yield f"  results, in {_results_route(query.frame)}:"
    yield from _branch(query.segment.roots[""], query.segment, "    ")


def _results_route(frame: Frame) -> str:
    """Which tasks run what is behind the last step that Spark or the state lane runs."""
    if not (lane := stages(frame)):
        return "tasks of Spark's partitions"
    parts = "tasks of the state's parts"
    return f"the task that reads a small micro-batch, else in {parts}" if isinstance(lane[0].child, Read) else parts


def _segment(segment: Segment, pad: str) -> Iterator[str]:
    for name, root in segment.roots.items():
        again = "" if segment.counts_source.get(name, True) else ", counted by an earlier query"
        yield f"{pad}source {name}{again}"
        yield from _branch(root, segment, pad + "  ")


def _branch(branch: Branch, segment: Segment, pad: str) -> Iterator[str]:
    for node in branch.steps:
        yield f"{pad}{node.id}: Arrow{'' if node.reports else ', counted by an earlier query'}"
        if isinstance(node.step, ArrowStep):
            yield from (f"{pad}    {note}" for note in node.step.notes(node.incoming))
        yield f"{pad}    {_fields(node.outgoing)}"
    for name in branch.sinks:
        sink = segment.outputs[name].sink
        yield f"{pad}→ sink {name} ({sink.type}): {sink.guaranteed()}"
    if branch.into:
        yield f"{pad}→ union {branch.into}"
    for number, below in enumerate(branch.branches, 1):
        yield f"{pad}union {below.gathers}" if below.gathers else f"{pad}branch {number}"
        yield from _branch(below, segment, pad + "  ")
    if branch.emits:
        yield f"{pad}→ the step behind"


def _frame(frame: Frame, pad: str) -> Iterator[str]:
    match frame:
        case Read(segment=segment, schema=schema, watermark=watermark):
            yield from _segment(segment, pad)
            yield f"{pad}  handed over: {_fields(schema)}"
            if watermark is not None:
                idle = f"; idle after {watermark.idle_seconds:g} s: what is open closes" if watermark.idle_seconds else ""
                what = "time of reading" if watermark.arrival else watermark.field
                yield f"{pad}  watermark: {what}, {watermark.late_seconds:g} s late at most{idle}"
        case Native(name=name, source=source, schema=schema):
            yield f"{pad}source {name}: Spark reads it, {'a stream' if source.streaming else 'once, as a whole'}"
            yield f"{pad}    {_fields(schema)}"
        case Apply(node=node, child=child):
            yield from _frame(child, pad)
            yield f"{pad}{node.id}: Spark{_why(node)}"
            yield f"{pad}    {_fields(node.outgoing)}"
        case Stateful(node=node, child=child):
            yield from _frame(child, pad)
            yield f"{pad}{node.id}: Arrow, keeps state in {PARTS} parts"
            if isinstance(node.step, StatefulStep):
                yield from (f"{pad}    {note}" for note in node.step.notes(node.incoming))
            yield f"{pad}    {_fields(node.outgoing)}"
        case Map(branch=branch, child=child):
            yield from _frame(child, pad)
            yield from _branch(branch, Segment({}, {}), pad)
        case Union(children=children):
            for child in children:
                yield from _frame(child, pad)
            yield f"{pad}union by field name"


def _why(node: StepNode) -> str:
    reason = node.step.spark_reason(node.incoming) if isinstance(node.step, ArrowStep) else None
    if reason:
        return f", because {reason}"
    return ", keeps state" if getattr(node.step, "stateful", False) else ""


def _fields(schema: Schema) -> str:
    return ", ".join(f"{f.name} {_type(f.type)}" for f in visible(schema)) or "no fields"


def _type(type_: object) -> str:
    name = format_type(type_)
    return "(type known at run)" if name == "void" else name
