"""The events that Spark hands over to the stages of a query, where it reads a source: one DataFrame, as a micro-batch has one.

For several stages it has a struct column a stage; in each row that of the stage which gets the event is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import TIMESTAMP, Schema, visible
from etl.expressions import quote_name, schema_of
from etl.plan.frames import SparkInputs, StateGraph
from etl.spark.frames import build_frame
from etl.spark.lane.arrivals import RowTarget
from etl.spark.lane.lane_stages import Stage
from etl.spark.partitions import arrow_schema
from etl.spark.query_context import QueryContext
from etl.steps.heartbeats import ARRIVAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


def build_inputs(
    given: SparkInputs, session: SparkSession, query: QueryContext, clock: type[DataSource] | None = None
) -> DataFrame:
    """The events for all stages, without starting anything. ``clock``: a source without events that starts micro-batches; it is
    the last source of the frame."""
    numbers = count()
    frames = {stage: build_frame(frame, session, query, numbers) for stage, frame in given.frames.items()}
    several = len(frames) > 1
    events = _unite([_in_struct(frame, str(stage)) if several else frame for stage, frame in frames.items()])
    if clock is None:
        return events
    session.dataSource.register(clock)
    columns = [quote_name(name) for name in events.columns]
    return _unite([events, session.readStream.format(clock.name()).load()]).select(*columns)


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _in_struct(events: DataFrame, name: str) -> DataFrame:
    from pyspark.sql.functions import col, struct

    return events.select(struct(*(col(quote_name(one)).alias(one) for one in events.columns)).alias(name))


def input_schemas(given: SparkInputs, events: DataFrame) -> Mapping[int, Schema]:
    """Stage → the visible fields of its events, with Spark's types."""
    if len(given.frames) == 1:
        return dict.fromkeys(given.frames, arrow_schema(events))
    return {stage: visible(pa.schema(list(schema_of(events).field(str(stage)).type))) for stage in given.frames}


def row_targets(
    graph: StateGraph, stages: Sequence[Stage], schemas: Mapping[int, Schema], read_at: int | None
) -> Iterator[RowTarget]:
    """What gets the events, in the order of the struct columns; ``read_at`` as in `RowTarget`."""
    for number, incoming in schemas.items():
        stage = stages[number]
        given = {at: one for at, one in enumerate(graph.inputs) if one.stage == number and one.sources}
        lacks_time = ARRIVAL in stage.incoming.names and ARRIVAL not in incoming.names  # a step on Arrow has dropped it
        yield RowTarget(
            step=stage.step,
            incoming=incoming.append(pa.field(ARRIVAL, TIMESTAMP)) if lacks_time else incoming,
            id=stage.id,
            reports=stage.reports,
            reports_times=any(one.reports_times for one in given.values()),
            stage=number,
            inputs={one.side: at for at, one in given.items()},
            read_at=read_at,
        )
