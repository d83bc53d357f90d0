"""Planning a pipeline: which queries it becomes, and where each step runs.

One query serves all sinks that row-wise steps reach from the same sources. Each Spark step that is the last before sinks has its
own query, with everything upstream of it. A step that runs in several queries is reported by the first.
"""

from __future__ import annotations

from etl.api import PlanError, Schema, Sink, SparkStep
from etl.config.model import Pipeline
from etl.plan.arrow_queries import arrow_queries
from etl.plan.graph import Graph
from etl.plan.model import Output, Plan, QueryPlan, spark_nodes
from etl.plan.reporting import mark_reporting_queries
from etl.plan.spark_queries import spark_queries


def plan(pipeline: Pipeline, dead_letters: Sink, dead_letters_schema: Schema) -> Plan:
    """The queries of a checked pipeline. Raises PlanError for what no check could find earlier."""
    graph = Graph(pipeline)
    queries = [*arrow_queries(graph), *spark_queries(graph)]
    if not queries:
        raise PlanError(f"pipeline {pipeline.name!r} delivers nothing: no sink is connected to a source")
    for query in queries:
        _check_states(query)
    return Plan(pipeline.name, mark_reporting_queries(queries), Output("dead_letters", dead_letters, dead_letters_schema))


def _check_states(query: QueryPlan) -> None:
    """Raises PlanError when a stateful step follows another after which Spark allows none."""
    ending: str | None = None
    stateful: str | None = None
    for node in spark_nodes(query.frame):
        if not isinstance(node.step, SparkStep) or not node.step.stateful:
            continue
        if front := ending or (stateful if node.step.ends_state else None):
            advice = "write the results to a sink, and read them in a pipeline of their own"
            raise PlanError(f"{node.id} keeps state, which Spark does not allow after {front}: {advice}")
        ending, stateful = node.id if node.step.ends_state else None, node.id
