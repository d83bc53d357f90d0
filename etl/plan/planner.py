"""Pipeline → queries: where each step runs, and what shares a pass over the data.

One query serves all sinks that row-wise steps reach from the same sources; each last Spark step in front of sinks
has a query of its own, with everything upstream of it. A step that runs in several queries reports in the first.
"""

from __future__ import annotations

from etl.api import PlanError, Schema, Sink, SparkStep
from etl.config.model import Pipeline
from etl.plan.arrow_queries import arrow_queries
from etl.plan.graph import Graph
from etl.plan.model import Output, Plan, QueryPlan, spark_nodes
from etl.plan.reporting import reporting_once
from etl.plan.spark_queries import spark_queries


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """The queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = Graph(pipeline)
    queries = [*arrow_queries(graph), *spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is reached from a source")
    for query in queries:
        _check_states(query)
    return Plan(pipeline.name, reporting_once(queries), Output("dead_letters", dead_letters, dead_letters_schema))


def _check_states(query: QueryPlan) -> None:
    """Raises PlanError when a step that keeps state stands where Spark has no watermark for it."""
    last = None
    for node in spark_nodes(query.frame):
        if not isinstance(node.step, SparkStep) or not node.step.stateful:
            continue
        if last is not None:
            advice = "write the results to a sink, and read them in a pipeline of their own"
            raise PlanError(f"{node.id} keeps state, which Spark does not allow behind {last}: {advice}")
        last = node.id if node.step.ends_state else None
