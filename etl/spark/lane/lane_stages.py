"""The stages of a query on the state lane, as its tasks run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from etl.api import Schema, StatefulStep
from etl.plan.frames import Exchange, StageInput, exchange_of, segments, state_graph_of
from etl.plan.query_plan import QueryPlan
from etl.plan.segments import Branch, Segment, Watermark, check_actual_types
from etl.receipts import NO_SEGMENT
from etl.spark.partitions import with_actual_types
from etl.steps.heartbeats import ARRIVAL


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stateful step of a query, and the steps or sinks after it."""

    step: StatefulStep
    incoming: Schema
    watermark: Watermark
    segment: Segment
    segment_number: int
    following: Mapping[int, int] = field(default_factory=dict)
    """Number of an exchange of the segment → the stage that it is for."""
    for_spark: Mapping[int, Schema] = field(default_factory=dict)
    """Number of an exchange of the segment → its fields, where Spark computes steps between it and the stage that it is for."""
    results_to_spark: bool = False
    """Whether the results go to Spark, which computes the next step."""
    id: str = ""
    """The name of the step in dead letters (`etl.plan.segments.StepNode`)."""
    reports: bool = True
    """Whether this query reports the events that the step rejects."""

    @property
    def exchange(self) -> Exchange:
        """What its inputs are."""
        return Exchange(self.incoming, self.watermark)


SparkFields: TypeAlias = Callable[[StageInput, Schema], Schema]
"""The fields after the steps that Spark computes before a stage, for events with these fields."""


def stages_of(
    plan: QueryPlan, incoming: Mapping[int, Schema] | None = None, spark_fields: SparkFields | None = None
) -> Iterator[Stage]:
    """The stages of a query; ``incoming`` are the fields that Spark hands over to some of them. Without ``spark_fields``
    those of other stages are as planned. Raises StepPlanError for types that a step refuses."""
    graph = state_graph_of(plan.frame)
    assert graph is not None
    reading = sum(1 for _ in segments(graph.child)) + sum(1 for one in graph.inputs for _ in segments(one.between))
    actual: dict[int, Schema] = dict(incoming or {})

    def arrive(given: StageInput, fields: Schema) -> None:
        """Note the types of what reaches a stage, where they may differ from the planned ones."""
        if given.between and spark_fields:
            fields = spark_fields(given, fields)
        if given.between or incoming is not None:
            actual[given.stage] = pa.schema([*actual.get(given.stage, ()), *fields])

    for one in graph.inputs:
        if one.sources and one.between:
            arrive(one, exchange_of(one, graph.stages[one.stage].exchange).schema)
    for number, stage in enumerate(graph.stages):
        assert isinstance(stage.node.step, StatefulStep)
        given = _with_types(stage.incoming, actual[number]) if number in actual else stage.incoming
        check_actual_types(stage.node, given)
        is_last, results_to_spark = number + 1 == len(graph.stages), graph is not plan.frame
        downstream = Branch((), stage.node.outgoing, emits=True) if is_last else stage.downstream
        whole = plan.segment if is_last and not results_to_spark else Segment({"": downstream}, {})
        events = pa.schema([field for field in given if field.name != ARRIVAL])
        segment = with_actual_types(whole, stage.node.step.fields(events))
        ends = [branch for branch in segment.roots[""].walk() if branch.emits and not is_last]
        for end in ends:
            arrive(graph.inputs[end.to], end.outgoing)
        yield Stage(
            step=stage.node.step,
            incoming=given,
            watermark=stage.watermark,
            segment=segment,
            segment_number=NO_SEGMENT if is_last and results_to_spark else reading + number,
            following={end.to: graph.inputs[end.to].stage for end in ends if not graph.inputs[end.to].between},
            for_spark={end.to: end.outgoing for end in ends if graph.inputs[end.to].between},
            results_to_spark=is_last and results_to_spark,
            id=stage.node.id,
            reports=stage.node.reports,
        )


def _with_types(planned: Schema, actual: Schema) -> Schema:
    """The planned fields with the types that Spark gives."""
    types = {field.name: field.type for field in actual}
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in planned])
