"""A pipeline as a graph of nodes: what fields are there, what feeds them, whether Arrow or Spark runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from etl.api import FrameSource, Schema, Source, Step
from etl.config.model import Pipeline
from etl.config.schemas import merge
from etl.plan.model import Output, StepNode, runs_on_arrow

PlanNode: TypeAlias = tuple[str, int]
"""Behind part ``index`` of a stream's steps; index -1 is where its inputs come together. A source is ``(name, -1)``."""


class Graph:
    """The pipeline with every node's schema and lane."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.steps: dict[PlanNode, StepNode] = {}
        self._schemas: dict[PlanNode, Schema] = {}
        self._lengths: dict[str, int] = {}
        """Of each stream how many steps it has, each taken apart into its parts."""
        for stream in pipeline.streams.values():
            self._lengths[stream.name] = 0
            for index, step in enumerate(stream.steps):
                location = pipeline.locations.get(("streams", stream.name, "steps", index))
                for part in step.parts(self.schema(self.end(stream.name))):
                    self._append(stream.name, f"{stream.name}[{index}] {part.type}", part, location)

    def _append(self, stream: str, name: str, step: Step, location: tuple[int, int] | None) -> None:
        incoming = self.schema(self.end(stream))
        self.steps[stream, self._lengths[stream]] = StepNode(name, step, incoming, step.fields(incoming), location)
        self._lengths[stream] += 1

    def schema(self, node: PlanNode) -> Schema:
        """What leaves a node."""
        if node not in self._schemas:
            self._schemas[node] = self._schema(node)
        return self._schemas[node]

    def _schema(self, node: PlanNode) -> Schema:
        name, index = node
        if name in self.pipeline.sources:
            return self.pipeline.sources[name].fields()
        if index < 0:
            return merge([self.schema(self.end(feed)) for feed in self.pipeline.streams[name].inputs])
        return self.steps[node].outgoing

    def end(self, name: str) -> PlanNode:
        """The node whose events leave a stream or source."""
        return (name, -1) if name in self.pipeline.sources else (name, self._lengths[name] - 1)

    def on_spark(self, node: PlanNode) -> bool:
        """Whether the events at this node come out of Spark: a Spark step, or a source that Spark reads."""
        if node in self.steps:
            step = self.steps[node]
            return not runs_on_arrow(step.step, step.incoming)
        return isinstance(self.pipeline.sources.get(node[0]), FrameSource)

    def feeds(self, node: PlanNode) -> list[PlanNode]:
        """The nodes directly upstream."""
        name, index = node
        if name in self.pipeline.sources:
            return []
        return [self.end(feed) for feed in self.pipeline.streams[name].inputs] if index < 0 else [(name, index - 1)]

    def followers(self, node: PlanNode) -> list[PlanNode]:
        """The nodes directly downstream."""
        name, index = node
        if (name, index + 1) in self.steps:
            return [(name, index + 1)]
        return [(s.name, -1) for s in self.pipeline.streams.values() if name in s.inputs]

    def sinks(self, node: PlanNode) -> list[str]:
        """The sinks that take the events of this node."""
        if node != self.end(node[0]):
            return []
        return [output.name for output in self.pipeline.sinks.values() if node[0] in output.inputs]

    def boundaries(self, node: PlanNode) -> set[PlanNode]:
        """Where the events at a node come from last: Spark nodes and our own sources."""
        if self.on_spark(node) or not self.feeds(node):
            return {node}
        return set().union(*(self.boundaries(feed) for feed in self.feeds(node)))

    def query_name(self, node: PlanNode) -> str:
        """After the stream and its Spark step, by their order: steps that come or go in front of it change nothing."""
        if node not in self.steps:
            return node[0]
        name, index = node
        kind = self.steps[node].step.type
        before = sum(self.steps[name, at].step.type == kind for at in range(index))
        return f"{name}-{kind}{f'-{before + 1}' if before else ''}"

    def ours(self, names: Iterable[str]) -> dict[str, Source]:
        """The sources that hand out splits."""
        return {name: s for name in names if isinstance(s := self.pipeline.sources[name], Source)}

    def output(self, name: str) -> Output:
        """A sink with the fields that reach it."""
        output = self.pipeline.sinks[name]
        return Output(name, output.sink, merge([self.schema(self.end(feed)) for feed in output.inputs]))
