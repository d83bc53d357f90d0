"""Steps that Spark computes after the last stateful step of a query, or before one: in each micro-batch the events that tasks
have written become a DataFrame."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from etl.api import Schema
from etl.plan.frames import StageInput, segments, state_graph_of
from etl.plan.query_plan import QueryPlan
from etl.spark.lane.lane_stages import SparkFields
from etl.spark.lane.result_files import results_of
from etl.spark.partitions import arrow_schema
from etl.spark.query_context import QueryContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def has_spark_after_state(plan: QueryPlan) -> bool:
    """Whether Spark computes steps after the last stateful one."""
    graph = state_graph_of(plan.frame)
    return graph is not None and graph is not plan.frame


def apply_after_state(plan: QueryPlan, results: DataFrame, query: QueryContext) -> DataFrame:
    """The events after these steps, for results of the last stateful step."""
    from etl.spark.frames import build_frame  # imports what reads splits, which runs stages

    assert plan.frame is not None
    numbers = count(sum(1 for _ in segments(state_graph_of(plan.frame))))
    return build_frame(plan.frame, results.sparkSession, query, numbers, results)


def fields_after_state(plan: QueryPlan, results: Schema, session: SparkSession, query: QueryContext) -> Schema:
    """The fields after these steps, for results with these fields. Raises EtlError for what Spark's analyser refuses."""
    return arrow_schema(apply_after_state(plan, results_of(session, (), results), query))


def apply_between(plan: QueryPlan, given: StageInput, events: DataFrame, query: QueryContext) -> DataFrame:
    """The events after the steps that lead to an input of a stage."""
    from etl.spark.frames import build_frame

    graph = state_graph_of(plan.frame)
    assert graph is not None
    assert given.between is not None
    earlier = graph.inputs[: next(number for number, one in enumerate(graph.inputs) if one.name == given.name)]
    frames = (graph.child, *(one.between for one in earlier))
    return build_frame(given.between, events.sparkSession, query, count(sum(1 for one in frames for _ in segments(one))), events)


def fields_between(plan: QueryPlan, session: SparkSession, query: QueryContext) -> SparkFields:
    """The function that gives the fields after such steps. It raises EtlError for what Spark's analyser refuses."""
    return lambda given, fields: arrow_schema(apply_between(plan, given, results_of(session, (), fields), query))
