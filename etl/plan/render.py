"""A plan as text for ``etl explain``: queries, segments, where and why each step runs, fields, guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from etl.api import SIDE_PREFIXES, ArrowStep, Schema, SparkStep, StatefulStep, change_key, format_type, is_changing, visible
from etl.plan.frames import (
    AppliedSparkStep,
    Exchange,
    Frame,
    Map,
    Read,
    SparkInputs,
    SparkRead,
    Stage,
    StageInput,
    StateGraph,
    Union,
    exchange_of,
    spark_nodes,
)
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import Branch, Segment, StepNode
from etl.state.key_hash import PARTS
from etl.steps.spark_values import fields_without_values
from etl.udf.attaching import called_functions


def render_plan(plan: Plan) -> Iterator[str]:
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
    """Which tasks run what follows the last step that Spark or the state lane runs."""
    if not isinstance(frame, StateGraph):
        return "tasks of Spark's partitions"
    parts = "tasks of the state's parts"
    return f"the task that reads a small micro-batch, else in {parts}" if isinstance(frame.child, Read) else parts


def _segment(segment: Segment, pad: str, graph: StateGraph | None = None) -> Iterator[str]:
    for name, root in segment.roots.items():
        again = "" if segment.counts_source.get(name, True) else ", counted by an earlier query"
        yield f"{pad}source {name}{again}"
        yield from _branch(root, segment, pad + "  ", graph)


def _branch(branch: Branch, segment: Segment, pad: str, graph: StateGraph | None = None) -> Iterator[str]:
    for node in branch.steps:
        yield f"{pad}{node.id}: Arrow{'' if node.reports else ', counted by an earlier query'}"
        if isinstance(node.step, ArrowStep):
            yield from (f"{pad}    {note}" for note in node.step.notes(node.incoming))
        yield from _own_functions(node, pad)
        yield f"{pad}    {_fields(node.outgoing)}"
    for name in branch.sinks:
        sink = segment.outputs[name].sink
        yield f"{pad}→ sink {name} ({sink.type}): {sink.guaranteed()}"
    if branch.into:
        yield f"{pad}→ union {branch.into}"
    for number, below in enumerate(branch.branches, 1):
        yield f"{pad}union {below.gathers}" if below.gathers else f"{pad}branch {number}"
        yield from _branch(below, segment, pad + "  ", graph)
    if branch.emits:
        several = graph is not None and len(graph.inputs) > 1
        yield f"{pad}→ {_input_name(graph, graph.inputs[branch.to]) if graph and several else 'the next step'}"


def _frame(frame: Frame, pad: str) -> Iterator[str]:
    match frame:
        case Read(segment=segment, schema=schema, watermark=watermark):
            yield from _segment(segment, pad)
            yield from _exchange("emitted", Exchange(schema, watermark), pad + "  ")
        case SparkRead(name=name, source=source, schema=schema):
            yield f"{pad}source {name}: Spark reads it, {'a stream' if source.streaming else 'once, as a whole'}"
            yield f"{pad}    {_fields(schema)}"
        case AppliedSparkStep(node=node, child=child):
            yield from _frame(child, pad)
            yield f"{pad}{node.id}: Spark{_why(node)}"
            yield f"{pad}    {_fields(node.outgoing)}"
        case StateGraph():
            yield from _state_graph(frame, pad)
        case Map(branch=branch, child=child):
            yield from _frame(child, pad)
            yield from _branch(branch, Segment({}, {}), pad)
        case Union(children=children):
            for child in children:
                yield from _frame(child, pad)
            yield f"{pad}union by field name"


def _state_graph(graph: StateGraph, pad: str) -> Iterator[str]:
    if isinstance(graph.child, Read):
        yield from _segment(graph.child.segment, pad, graph)
        for one in graph.inputs:
            if one.sources:
                stage = graph.stages[one.stage]
                name = f"emitted to {_input_name(graph, one)}" if len(graph.inputs) > 1 else "emitted"
                given = replace(stage.exchange, schema=_own_side(stage, one, graph))
                yield from _exchange("emitted to Spark" if one.between else name, exchange_of(one, given), pad + "  ")
    else:
        yield from _spark_inputs(graph.child, graph, pad)
    for number, stage in enumerate(graph.stages):
        for one in graph.inputs:
            if one.stage == number and one.between:
                yield from _frame(one.between, pad)
        yield f"{pad}{stage.node.id}: Arrow, keeps state in {PARTS} parts"
        if isinstance(stage.node.step, StatefulStep):
            yield from (f"{pad}    {note}" for note in stage.node.step.notes(stage.node.incoming))
        yield from _own_functions(stage.node, pad)
        yield f"{pad}    {_fields(stage.node.outgoing)}"
        if number + 1 < len(graph.stages):
            yield from _branch(stage.downstream, Segment({}, {}), pad, graph)


def _spark_inputs(given: SparkInputs, graph: StateGraph, pad: str) -> Iterator[str]:
    for number, frame in given.frames.items():
        yield from _frame(frame, pad)
        if len(given.frames) > 1:
            yield f"{pad}→ {graph.stages[number].node.id}"


def _input_name(graph: StateGraph, one: StageInput) -> str:
    """``paid[0] join, left side``"""
    stage = graph.stages[one.stage]
    sides = [other.side for other in graph.inputs if other.stage == one.stage]
    return stage.node.id + (f", {('left', 'right')[one.side]} side" if len(sides) > 1 else "")


def _own_side(stage: Stage, one: StageInput, graph: StateGraph) -> Schema:
    """The fields of an input of a join, without those of its other side."""
    if all(other.side == one.side for other in graph.inputs if other.stage == one.stage):
        return stage.incoming
    other = SIDE_PREFIXES[1 - one.side]
    return pa.schema([field for field in stage.incoming if not field.name.startswith(other)])


def _exchange(what: str, given: Exchange, pad: str) -> Iterator[str]:
    yield f"{pad}{what}: {_fields(given.schema)}"
    watermark = given.watermark
    if watermark is not None:
        idle = f"; idle after {watermark.idle_seconds:g} s: what is open closes" if watermark.idle_seconds else ""
        what = "time of reading" if watermark.arrival else watermark.field
        yield f"{pad}watermark: {what}, {watermark.late_seconds:g} s late at most{idle}"


def _own_functions(node: StepNode, pad: str) -> Iterator[str]:
    """The functions of the user that a step calls, where they are, and how."""
    for function in dict.fromkeys(called_functions(node.step)):
        how = "once for each event" if function.kind == "values" else "once for each batch"
        yield f"{pad}    calls {function.name}() of {function.code.path}:{function.line}, Python, {how}"


def _why(node: StepNode) -> str:
    step = node.step
    reason = step.spark_reason(node.incoming) if isinstance(step, ArrowStep) else None
    reason = step.reason(node.incoming) if isinstance(step, SparkStep) and not reason else reason
    if reason:
        return f", because {reason}"
    return ", keeps state" if getattr(node.step, "stateful", False) else ""


def _fields(schema: Schema) -> str:
    return (", ".join(f"{f.name} {_type(f.type)}" for f in visible(fields_without_values(schema))) or "no fields") + _changes(
        schema
    )


def _type(type_: object) -> str:
    name = format_type(type_)
    return "(type known at run)" if name == "void" else name


def _changes(schema: Schema) -> str:
    """The words about a changelog; empty for other streams."""
    if not is_changing(schema):
        return ""
    key = change_key(schema)
    return "; rows change, without a key" if key is None else f"; rows change, by {', '.join(key) or 'no field'}"
