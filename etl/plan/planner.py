"""Planning a pipeline: which queries it becomes, and where each step runs.

One query serves all sinks that row-wise steps reach from the same sources. Each Spark step that is the last before sinks has its
own query, with everything upstream of it. A step that runs in several queries over the same events is reported by the first of
them.
"""

from __future__ import annotations

from etl.api import PlanError, Schema, Sink
from etl.config.model import Pipeline
from etl.plan.arrow_queries import arrow_queries
from etl.plan.graph import Graph
from etl.plan.query_plan import Plan
from etl.plan.reporting import mark_reporting_queries
from etl.plan.segments import Output
from etl.plan.spark_queries import spark_queries


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """Plan the queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = Graph(pipeline)
    queries = [*arrow_queries(graph), *spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is connected to a source")
    return Plan(pipeline.name, mark_reporting_queries(queries), Output("dead_letters", dead_letters, dead_letters_schema))
