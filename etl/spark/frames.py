"""Building Spark DataFrames from a plan's frames."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from etl.api import OFFSET, EtlError, SparkStep
from etl.expressions import flatten, quote_name
from etl.plan.frames import AppliedSparkStep, EventFiles, Frame, Map, Read, SparkInputs, SparkRead, StateGraph, Union
from etl.plan.segments import Watermark
from etl.spark.partitions import run_branch, watermark_delays
from etl.spark.query_context import QueryContext
from etl.spark.reports.errors import explain_refused_step
from etl.spark.reports.progress import READ_METRIC
from etl.spark.splits import splits_source
from etl.steps.heartbeats import fence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build_frame(
    frame: Frame,
    session: SparkSession,
    query: QueryContext,
    numbers: Iterator[int] | None = None,
    results: DataFrame | None = None,
) -> DataFrame:
    """Build the DataFrame of a frame without starting it. ``numbers`` gives segment numbers in the order of `segments`;
    ``results`` are events that tasks of the state lane have written in a micro-batch, if the steps after these are built."""
    numbers = count() if numbers is None else numbers
    match frame:
        case Read():
            return _with_watermark(read(frame, session, query, next(numbers)), frame.watermark)
        case SparkRead():
            return _with_watermark(_read_with_spark(frame, session), frame.watermark)
        case AppliedSparkStep(node=node, child=child):
            assert isinstance(node.step, SparkStep)
            events = _with_late_watermark(build_frame(child, session, query, numbers, results), node.step)
            try:
                return node.step.apply(events)
            except EtlError:
                raise
            except Exception as error:  # any error of Spark's analyser
                raise explain_refused_step(node, error) from error
        case Map(branch=branch, child=child):
            events = build_frame(child, session, query, numbers, results)
            return run_branch(events, branch, query, next(numbers))
        case StateGraph() | EventFiles():
            assert results is not None, "Spark's frames end before the state lane"
            return results
        case SparkInputs():
            raise AssertionError("several frames are united by build_inputs")
        case Union(children=children):
            frames = [build_frame(child, session, query, numbers, results) for child in children]
            return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def read(frame: Read, session: SparkSession, query: QueryContext, number: int) -> DataFrame:
    """The events of splits as Spark's stream."""
    source = splits_source(query, frame.sources, frame.segment, frame, number)
    session.dataSource.register(source)
    return session.readStream.format(source.name()).load()


def _read_with_spark(frame: SparkRead, session: SparkSession) -> DataFrame:
    from pyspark.sql.functions import count, current_timestamp, lit

    events = flatten(frame.source.load(session)).withColumn(OFFSET, lit(0).cast("bigint"))
    if frame.watermark is not None and frame.watermark.arrival:
        events = events.withColumn(frame.watermark.field, current_timestamp())
    return events.observe(READ_METRIC + frame.name, count(lit(1)).alias("events")) if frame.reports else events


def _with_watermark(events: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return events
    return fence(events.withWatermark(quote_name(watermark.field), f"{watermark.late_seconds} seconds"))


def _with_late_watermark(events: DataFrame, step: SparkStep) -> DataFrame:
    """Set the watermark before a step if no read has set it, because a Spark step adds or replaces its field."""
    event_time = step.event_time()
    if event_time is None or watermark_delays(events, [event_time[0]]):
        return events
    return _with_watermark(events, Watermark(event_time[0], event_time[1].total_seconds()))
