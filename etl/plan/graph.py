"""A pipeline as a graph of nodes: each node's schema, inputs and outputs, and whether Arrow or Spark runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from etl.api import FrameSource, Schema, Source, Step
from etl.config.model import OptionPath, Pipeline, YamlLocation
from etl.config.stream_schemas import incoming_schema, merge
from etl.plan.segments import Output, StepNode, runs_on_arrow

EMPTY = pa.schema([])
_STEP = 4
"""Parts of a step's path in the file: streams, name, steps, number."""

PlanNode: TypeAlias = tuple[str, int]
"""``(stream, index)``: the output of the stream's step number ``index``; index -1 is the union of its inputs, or a source."""


class Graph:
    """The graph of a pipeline, with the schema of each node."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.steps: dict[PlanNode, StepNode] = {}
        self._schemas: dict[PlanNode, Schema] = {}
        self._lengths: dict[str, int] = {}
        """Stream → number of its steps, where a step of several parts counts as several."""
        of_step: dict[OptionPath, dict[OptionPath, YamlLocation]] = {}
        for at, location in pipeline.locations.items():
            if at[:1] == ("streams",) and len(at) > _STEP:
                of_step.setdefault(at[:_STEP], {})[at] = location
        for stream in pipeline.streams.values():
            self._lengths[stream.name] = 0
            for index, step in enumerate(stream.steps, stream.first_step):
                path = "streams", stream.name, "steps", index
                options = {at[_STEP:]: location for at, location in of_step.get(path, {}).items()}
                for part in _parts_of(step, self.schema(self.end(stream.name))):
                    name = f"{stream.name}[{index}] {part.type}"
                    self._append(
                        stream.name, StepNode(name, part, EMPTY, EMPTY, location=pipeline.locations.get(path), options=options)
                    )

    def _append(self, stream: str, node: StepNode) -> None:
        incoming = self.schema(self.end(stream))
        self.steps[stream, self._lengths[stream]] = replace(node, incoming=incoming, outgoing=node.step.fields(incoming))
        self._lengths[stream] += 1

    def schema(self, node: PlanNode) -> Schema:
        """The fields of a node's output."""
        if node not in self._schemas:
            self._schemas[node] = self._schema(node)
        return self._schemas[node]

    def _schema(self, node: PlanNode) -> Schema:
        name, index = node
        if name in self.pipeline.sources:
            return self.pipeline.sources[name].fields()
        if index < 0:
            return incoming_schema(self.pipeline.streams[name], self.input_schemas(name))
        return self.steps[node].outgoing

    def input_schemas(self, stream: str) -> dict[str, Schema]:
        """The fields of each input of a stream."""
        return {name: self.schema(self.end(name)) for name in self.pipeline.streams[stream].inputs}

    def end(self, name: str) -> PlanNode:
        """The last node of a stream, or the node of a source."""
        return (name, -1) if name in self.pipeline.sources else (name, self._lengths[name] - 1)

    def on_spark(self, node: PlanNode) -> bool:
        """Whether Spark produces the node's output: it is a Spark step, or a source that Spark reads."""
        if node in self.steps:
            step = self.steps[node]
            return not runs_on_arrow(step.step, step.incoming)
        return isinstance(self.pipeline.sources.get(node[0]), FrameSource)

    def upstream(self, node: PlanNode) -> list[PlanNode]:
        """The nodes directly upstream."""
        name, index = node
        if name in self.pipeline.sources:
            return []
        return [self.end(one) for one in self.pipeline.streams[name].inputs] if index < 0 else [(name, index - 1)]

    def followers(self, node: PlanNode) -> list[PlanNode]:
        """The nodes directly downstream."""
        name, index = node
        if (name, index + 1) in self.steps:
            return [(name, index + 1)]
        return [(s.name, -1) for s in self.pipeline.streams.values() if name in s.inputs]

    def sinks(self, node: PlanNode) -> list[str]:
        """The sinks that read the output of this node."""
        if node != self.end(node[0]):
            return []
        return [output.name for output in self.pipeline.sinks.values() if node[0] in output.inputs]

    def boundaries(self, node: PlanNode) -> set[PlanNode]:
        """The nearest nodes upstream that Spark produces, and the sources of ours before which there is none."""
        if self.on_spark(node) or not self.upstream(node):
            return {node}
        return set().union(*(self.boundaries(one) for one in self.upstream(node)))

    def query_name(self, node: PlanNode) -> str:
        """Stream and type of a Spark step, numbered if the stream has several of the type: row-wise steps do not change it."""
        if node not in self.steps:
            return node[0]
        name, index = node
        kind = self.steps[node].step.type
        own = self.steps[node].id
        before = len({step.id for at in range(index) if (step := self.steps[name, at]).step.type == kind} - {own})
        return f"{name}-{kind}{f'-{before + 1}' if before else ''}"

    def split_sources(self, names: Iterable[str]) -> dict[str, Source]:
        """The sources among these that are read as splits, not by Spark itself."""
        return {name: s for name in names if isinstance(s := self.pipeline.sources[name], Source)}

    def output(self, name: str) -> Output:
        """A sink with the merged fields of its inputs."""
        output = self.pipeline.sinks[name]
        return Output(name, output.sink, merge([self.schema(self.end(one)) for one in output.inputs]))


def _parts_of(step: Step, incoming: Schema) -> Iterator[Step]:
    """The steps that a step is executed as, and that its parts are executed as."""
    for part in step.parts(incoming):
        if part is step:
            yield step
        else:
            yield from _parts_of(part, incoming)
        incoming = part.fields(incoming)
