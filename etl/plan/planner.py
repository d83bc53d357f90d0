"""Pipeline → queries: where each step runs, and what shares a pass over the data.

One query serves all sinks that row-wise steps reach from the same sources; each last Spark step in front of sinks
has a query of its own, with everything upstream of it. A step that runs in several queries reports in the first.
"""

from __future__ import annotations

from etl.api import PlanError, Schema, Sink
from etl.config.model import Pipeline
from etl.plan.arrow_queries import arrow_queries
from etl.plan.graph import Graph
from etl.plan.model import Output, Plan
from etl.plan.reporting import reporting_once
from etl.plan.spark_queries import spark_queries


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """The queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = Graph(pipeline)
    queries = [*arrow_queries(graph), *spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is reached from a source")
    return Plan(pipeline.name, reporting_once(queries), Output("dead_letters", dead_letters, dead_letters_schema))
