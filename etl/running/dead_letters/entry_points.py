"""Where dead letters enter their pipeline again: the part of it from the step or sink on that rejected them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from etl.api import CHANGE, ArrowStep, EtlError, FrameSource, JoiningStep, Schema, Source, SparkStep, StatefulStep, Step
from etl.config.model import Output, Pipeline, Stream
from etl.config.stream_schemas import merge
from etl.plan.graph import Graph
from etl.running.dead_letters.replayed_events import ReplaySource

_STEP = re.compile(r"(?P<stream>.+)\[(?P<index>\d+)\] (?P<type>\w+)")

_LETTERS = " letters"
"""The input of a stream or sink that the letters are; no stream has this name."""


class NoEntryError(EtlError):
    """The pipeline, as it is now, cannot take letters again; the text is the reason."""


@dataclass(frozen=True)
class EntryPoint:
    """The part of a pipeline that letters run through."""

    at: str
    """The step, sink or source that rejected them."""
    fields: Schema
    """The fields that events have there."""
    streams: Mapping[str, Stream]
    sinks: Mapping[str, Output]
    missing: Mapping[str, Schema]
    """Inputs of unions and sinks that the letters do not come from, with their fields."""
    left_out: tuple[str, ...]
    """Steps with state behind it. Letters do not reach them: their windows are over, or they would count them by themselves."""

    def pipeline(self, whole: Pipeline, name: str, path: str) -> Pipeline:
        """The part as a pipeline whose source ``name`` reads the letters of a file."""
        sources: dict[str, Source | FrameSource] = {name: ReplaySource(columns=self.fields, name=name, path=path)}
        names = {_LETTERS: name, **{one: f"{name}-{one}" for one in self.missing}}
        for one, schema in self.missing.items():
            sources[names[one]] = ReplaySource(columns=schema, name=names[one])
        return replace(
            whole,
            sources=sources,
            streams={key: replace(one, inputs=_rename(one.inputs, names)) for key, one in self.streams.items()},
            sinks={key: replace(one, inputs=_rename(one.inputs, names)) for key, one in self.sinks.items()},
            tests=(),
        )


def _rename(inputs: Collection[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(one, one) for one in inputs)


def entry_point(pipeline: Pipeline, at: str) -> EntryPoint:
    """Where letters rejected ``at`` enter. Raises NoEntryError."""
    graph = Graph(pipeline)
    kind, _, name = at.partition(" ")
    if kind == "source" and name in pipeline.sources:
        return _ReachableGraph(graph, letters=frozenset({name})).entry_point(at, pipeline.sources[name].fields())
    if kind == "sink" and name in pipeline.sinks:
        output = pipeline.sinks[name]
        fields = merge([graph.schema(graph.end(one)) for one in output.inputs])
        _refuse_changes(at, fields)
        return EntryPoint(at, fields, {}, {name: replace(output, inputs=(_LETTERS,))}, {}, ())
    if step := _STEP.fullmatch(at):
        stream, index = _step(pipeline, at, **step.groupdict())
        parts = [node for node in graph.steps.values() if node.id.startswith(f"{stream.name}[{index}] ")]
        fields = parts[0].incoming
        if _keeps_state(stream.steps[index]):
            raise NoEntryError("the step keeps state: windows and other results of it do not take events again")
        if any(isinstance(part.step, ArrowStep) and part.step.may_multiply_events() for part in parts[:-1]):
            raise NoEntryError("the step makes several rows of an event: those that it has passed would come again")
        _refuse_changes(at, fields)
        cut = Stream(stream.name, (_LETTERS,), stream.steps[index:], first_step=index)
        return _ReachableGraph(graph, cut=cut).entry_point(at, fields)
    raise NoEntryError(f"the pipeline has no {at} now")


def _refuse_changes(at: str, fields: Schema) -> None:
    if CHANGE in fields.names:
        raise NoEntryError(f"{at} takes results that change: a letter does not say what it added or removed")


def _step(pipeline: Pipeline, at: str, stream: str, index: str, type: str) -> tuple[Stream, int]:
    """The step that is meant: the one of this number, else the only one of its type in the stream. Raises NoEntryError."""
    found = pipeline.streams.get(stream)
    if found is None:
        raise NoEntryError(f"the pipeline has no stream {stream!r} now")
    number = int(index)
    if number < len(found.steps) and found.steps[number].type == type:
        return found, number
    others = [at for at, one in enumerate(found.steps) if one.type == type]
    if len(others) != 1:
        raise NoEntryError(f"the pipeline has no {at} now, and {'no' if not others else 'several'} {type} in {stream!r}")
    return found, others[0]


def _keeps_state(step: Step) -> bool:
    return isinstance(step, (StatefulStep, JoiningStep)) or (isinstance(step, SparkStep) and step.stateful)


@dataclass
class _ReachableGraph:
    """The streams and sinks that letters reach, followed from where they enter."""

    graph: Graph
    letters: frozenset[str] = frozenset()
    """A source in whose place they enter."""
    cut: Stream | None = None
    """A stream in which they enter, from its step on."""
    streams: dict[str, Stream] = field(default_factory=dict)
    missing: dict[str, Schema] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def entry_point(self, at: str, fields: Schema) -> EntryPoint:
        """All that is reached. Raises NoEntryError if no sink is."""
        for stream in self.graph.pipeline.streams.values():
            if self.cut is not None and stream.name == self.cut.name:
                self._add(self.cut)
            elif self._is_reachable(stream.inputs):
                self._add(stream, self._inputs(stream.inputs))
        outputs = self.graph.pipeline.sinks.values()
        sinks = {one.name: replace(one, inputs=self._inputs(one.inputs)) for one in outputs if self._is_reachable(one.inputs)}
        if not sinks:
            raise NoEntryError(f"only {', '.join(self.left_out)} would get its events, which keep state")
        return EntryPoint(at, fields, self.streams, sinks, self.missing, tuple(self.left_out))

    def _add(self, stream: Stream, inputs: tuple[str, ...] | None = None) -> None:
        for index, step in enumerate(stream.steps, stream.first_step):
            if _keeps_state(step):
                self.left_out.append(f"{stream.name}[{index}] {step.type}")
                return
        self.streams[stream.name] = replace(stream, inputs=inputs) if inputs else stream

    def _is_reachable(self, inputs: Collection[str]) -> bool:
        return any(one in self.streams or one in self.letters for one in inputs)

    def _inputs(self, inputs: Collection[str]) -> tuple[str, ...]:
        """Inputs in which the letters have the place of their source; the others are noted with their fields."""
        for one in inputs:
            if not self._is_reachable((one,)):
                self.missing[one] = self.graph.schema(self.graph.end(one))
        return tuple(_LETTERS if one in self.letters else one for one in inputs)
