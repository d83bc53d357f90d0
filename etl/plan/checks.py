"""What a pipeline without other problems has that no plan can be made of: the loader reports it as a problem of the file."""

from __future__ import annotations

from etl.api import FrameSource, StatefulStep
from etl.config.model import Pipeline
from etl.plan.graph import Graph
from etl.plan.segments import StepNode, StepPlanError, runs_on_arrow
from etl.plan.spark_queries import spark_queries


def unplanned_step(pipeline: Pipeline) -> StepPlanError | None:
    """The first step that cannot run where it is."""
    graph = Graph(pipeline)
    on_spark = any(isinstance(source, FrameSource) for source in pipeline.sources.values())
    if not on_spark and not any(_may_need_spark(node) for node in graph.steps.values()):
        return None
    try:
        for _ in spark_queries(graph):
            pass
    except StepPlanError as error:
        return error
    return None


def _may_need_spark(node: StepNode) -> bool:
    """Whether Spark computes a step."""
    return not isinstance(node.step, StatefulStep) and not runs_on_arrow(node.step, node.incoming)
