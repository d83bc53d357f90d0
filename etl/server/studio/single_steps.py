"""A pipeline whose streams have one step each, so that the events between any two steps can be captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from etl.api import ArrowStep, Schema, StatefulStep, Step
from etl.config.model import Pipeline, Stream
from etl.config.stream_schemas import step_schemas
from etl.plan.segments import runs_on_arrow

MARK = "~"
"""Between a stream's name and the number of a step; names of streams have no such character."""


@dataclass(frozen=True)
class SingleStep:
    """A step of a stream. ``stream`` is the stream of `single_steps` that ends with it; ``inputs`` give it its events."""

    id: str
    owner: str
    index: int
    step: Step
    stream: str
    inputs: tuple[str, ...]
    incoming: Schema
    outgoing: Schema

    @property
    def runs_on(self) -> str:
        """What runs it: ``arrow``, ``state`` (Arrow, with state in files) or ``spark``."""
        if runs_on_arrow(self.step, self.incoming):
            return "arrow"
        return "state" if isinstance(self.step, StatefulStep) else "spark"

    @property
    def spark_reason(self) -> str | None:
        """Why Spark runs a step that Arrow could run with other options."""
        return self.step.spark_reason(self.incoming) if isinstance(self.step, ArrowStep) else None


def single_steps(pipeline: Pipeline) -> tuple[Pipeline, list[SingleStep]]:
    """The pipeline with a stream for each step, and the steps in the order of the streams."""
    found = [step for stream in pipeline.streams.values() for step in _steps_of(pipeline, stream)]
    alone = {
        one.stream: Stream(one.stream, one.inputs, (one.step,), pipeline.streams[one.owner].first_step + one.index)
        for one in found
    }
    empty = {name: stream for name, stream in pipeline.streams.items() if not stream.steps}
    return replace(pipeline, streams=_in_order(pipeline, alone, empty)), found


def _steps_of(pipeline: Pipeline, stream: Stream) -> Iterator[SingleStep]:
    schemas = step_schemas(pipeline, stream.name)
    inputs = stream.inputs
    for index, step in enumerate(stream.steps):
        name = stream.name if index + 1 == len(stream.steps) else f"{stream.name}{MARK}{index}"
        shown = f"{stream.name}[{stream.first_step + index}]"
        yield SingleStep(shown, stream.name, index, step, name, inputs, schemas[index], schemas[index + 1])
        inputs = (name,)


def _in_order(pipeline: Pipeline, alone: Mapping[str, Stream], empty: Mapping[str, Stream]) -> dict[str, Stream]:
    """Each stream after its inputs."""
    ordered: dict[str, Stream] = {}
    for name, stream in pipeline.streams.items():
        for index in range(len(stream.steps) - 1):
            part = f"{name}{MARK}{index}"
            ordered[part] = alone[part]
        ordered[name] = alone.get(name) or empty[name]
    return ordered
