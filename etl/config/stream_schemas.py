"""The fields of every stream, computed from the sources through each step before the first event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from etl.api import ArrowStep, Finding, JoiningStep, Schema, SparkStep, Step, nested_schema, refused_changes, visible
from etl.config.model import Pipeline, Stream
from etl.types import format_type, wider


def schemas_of(pipeline: Pipeline) -> Mapping[str, Schema]:
    """Name of a source or stream → the fields that leave it."""
    found: dict[str, Schema] = {name: source.fields() for name, source in pipeline.sources.items()}
    for stream in pipeline.streams.values():
        schema = incoming_schema(stream, {name: found[name] for name in stream.inputs})
        for step in stream.steps:
            schema = step.fields(schema)
        found[stream.name] = schema
    return found


def step_schemas(pipeline: Pipeline, stream: str) -> Sequence[Schema]:
    """The fields before each step of a stream, and last those that leave it."""
    known = schemas_of(pipeline)
    own = pipeline.streams[stream]
    schemas = [incoming_schema(own, {name: known[name] for name in own.inputs})]
    for step in own.steps:
        schemas.append(step.fields(schemas[-1]))
    return schemas


def incoming_schema(stream: Stream, inputs: Mapping[str, Schema]) -> Schema:
    """The fields before the first step of a stream: those of its sides if that joins them, else those of their union."""
    first = next(iter(stream.steps), None)
    return first.united(inputs) if isinstance(first, JoiningStep) else merge(inputs.values())


def merge(schemas: Iterable[Schema]) -> Schema:
    """Fields of all schemas by name, in order of appearance; the wider type of a field counts, else the first."""
    first, *others = [*schemas] or [pa.schema([])]
    if not others:
        return first
    types: dict[str, pa.DataType] = {}
    for schema in (first, *others):
        for field in schema:
            known = types.get(field.name, field.type)
            types[field.name] = wider(known, field.type) or known
    return pa.schema(list(types.items()))


def union_findings(inputs: Mapping[str, Schema]) -> Iterable[Finding]:
    """Fields that two inputs of a union have with incompatible types, or as a value in one and as a struct in the other."""
    first: dict[str, tuple[str, pa.DataType]] = {}
    for name, schema in inputs.items():
        for field in visible(schema):
            owner, known = first.setdefault(field.name, (name, field.type))
            wide = wider(known, field.type)
            if wide is None:
                message = f"field {field.name!r} is {format_type(known)} in {owner!r} and {format_type(field.type)} in {name!r}"
                yield Finding("union-type-conflict", message, hint="convert it in one of them with a convert step")
            else:
                first[field.name] = (owner, wide)
    reason = _nesting_error(pa.schema([(name, type_) for name, (_, type_) in first.items()]))
    if reason and not any(_nesting_error(visible(schema)) for schema in inputs.values()):
        yield Finding("field-conflict", reason, hint="rename or drop one of them in one of the inputs")


def nesting_findings(incoming: Schema, outgoing: Schema) -> Iterable[Finding]:
    """A field that would be a value and a struct at once because of the step."""
    new = [name for name in outgoing.names if incoming.get_field_index(name) < 0]
    if not new or not any("." in name for name in (*new, *outgoing.names)):
        return
    reason = _nesting_error(outgoing)
    if reason and not _nesting_error(incoming):
        yield Finding("field-conflict", reason, hint="rename or drop one of them")


def change_findings(step: Step, incoming: Schema) -> Iterable[Finding]:
    """A step that is wrong for events that replace or remove rows of a result."""
    hint = "put the step before the one whose results change, or let that give results once, when a window closes; "
    hint += "window without a size takes changes, and with changelog: true top and over"
    if not step.takes_changes():
        yield from refused_changes(incoming, f"{step.type} takes each event for a new one", hint)
    elif isinstance(step, ArrowStep) and (reason := step.spark_reason(incoming)):
        yield from refused_changes(incoming, f"Spark does not know of changes, which would compute this step: {reason}", hint)


def case_findings(step: Step, incoming: Schema) -> Iterable[Finding]:
    """Fields whose names differ only in case, which Spark takes for one, where Spark computes the step or a part of it."""
    if len({name.lower() for name in incoming.names}) == len(incoming.names):
        return
    needed = [name for part, given in _parts_on_spark(step, incoming) for name in _needed_names(part, given)]
    first: dict[str, str] = {}
    for name in dict.fromkeys(needed):
        other = first.setdefault(name.lower(), name)
        if other != name:
            message = f"Spark computes this step, and does not tell the fields {other!r} and {name!r} apart"
            yield Finding("field-conflict", message, hint="rename or drop one of them in an earlier step")


def _needed_names(step: Step, incoming: Schema) -> list[str]:
    needs = step.needs(incoming) if isinstance(step, SparkStep) else None
    return [name for name in incoming.names if needs is None or name in needs]


def _parts_on_spark(step: Step, incoming: Schema) -> Iterator[tuple[Step, Schema]]:
    """The parts of a step that Spark computes, with the fields that each is given."""
    if step.spark_reason(incoming) is not None if isinstance(step, ArrowStep) else isinstance(step, SparkStep):
        yield step, incoming
        return
    for part in step.parts(incoming):
        if part is not step:
            yield from _parts_on_spark(part, incoming)
            incoming = part.fields(incoming)


def _nesting_error(schema: Schema) -> str | None:
    try:
        nested_schema(schema)
    except ValueError as error:
        return str(error)
    return None
