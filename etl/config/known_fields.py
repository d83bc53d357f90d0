"""The fields that are known at a place of the file, where components in front of it may have errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from etl.api import Component, Finding, Schema, Step
from etl.config.candidates import TEXTS
from etl.config.model import OptionPath
from etl.config.reads import with_reads
from etl.config.variants import Built, attributes

UNKNOWN_FIELD = "unknown-field"
ABOUT_FIELDS = frozenset({UNKNOWN_FIELD, "wrong-type", "field-conflict", "union-type-conflict", "not-boolean"})
"""Findings after which the fields that a step gives are those it would give without them."""

ABOUT_OTHERS = frozenset({"bad-rule", "unused-option", "useless-option"})
"""Findings that may follow from another option, or from a part of the value, that has an error of its own."""

_NAMED = re.compile(r"(?:there is|the stream has) no field '([^']+)'")
_PROBE = "a_field_that_no_step_names"


@dataclass(frozen=True)
class Fields:
    """What reaches a place. An ``open`` schema holds the fields that are known; there may be others."""

    schema: Schema
    open: bool = False
    causes: frozenset[OptionPath] = frozenset()
    """The components with errors that keep fields unknown."""


NOTHING_KNOWN = Fields(pa.schema([]), open=True)


def source_fields(made: Built) -> Fields:
    """What a source gives whatever its wrong options are meant to be."""
    return _agreed(made, lambda source: source.fields())


def outgoing(made: Built, incoming: Fields, findings: Sequence[Finding]) -> Fields:
    """The fields behind a step in front of which these are known, and which has these findings."""
    known = with_named(incoming, findings)
    given = _agreed(made, lambda step: step.fields(known.schema))
    guessed = _is_guess(made.component, known.schema, findings, given.schema)
    stays_open = incoming.open and _passes_others(made, incoming, known)
    return Fields(_untyped(given.schema) if guessed else given.schema, given.open or guessed or stays_open)


def with_named(fields: Fields, findings: Iterable[Finding]) -> Fields:
    """An open schema with the fields that findings miss: they may be there, of any type."""
    if not fields.open:
        return fields
    missed = {name: pa.null() for one in findings if (name := missed_field(one))}
    known = {field.name: field.type for field in fields.schema}
    return Fields(pa.schema(list((missed | known).items())), open=True)


def missed_field(finding: Finding) -> str | None:
    """The field that a finding says is not there."""
    found = _NAMED.search(finding.message) if finding.code in (UNKNOWN_FIELD, "bad-rule") else None
    return found[1] if found else None


def _agreed(made: Built, ask: Callable[[Any], Schema]) -> Fields:
    """What all variants give; open where they differ, or where another text than those tried may bring about more."""
    if made.whole:
        return Fields(ask(made.component))
    answers = [with_reads(one, ask) for one in made.variants]
    schemas, read = [schema for schema, _ in answers], frozenset[str]().union(*(reads for _, reads in answers))
    wrong, free = (_deciding(made.component, names & read) for names in (made.wrong, made.free))
    if not wrong:
        return Fields(schemas[0])
    names = [set(schema.names) for schema in schemas]
    common = set.intersection(*names)
    types = [(field.name, _type(field.name, schemas)) for field in schemas[0] if field.name in common - set(TEXTS)]
    if free:
        return Fields(_untyped(pa.schema(types)), open=True)
    return Fields(pa.schema(types), open=any(one != common for one in names))


def _deciding(component: Component, names: Iterable[str]) -> set[str]:
    """Attributes with errors by which fields may be others."""
    return {name for name in names if not isinstance(component, Step) or component.gives_by((name,))}


def _type(name: str, schemas: Sequence[Schema]) -> pa.DataType:
    """The type that all agree upon, else the one that goes with every use."""
    types = [schema.field(name).type for schema in schemas]
    return types[0] if all(type_.equals(types[0]) for type_ in types) else pa.null()


def _is_guess(component: Any, incoming: Schema, findings: Iterable[Finding], given: Schema) -> bool:
    """Whether an error may keep fields away: one of an option that makes fields, and not of a key that is the field itself."""
    errors = [one for one in findings if one.severity == "error" and one.code not in ABOUT_FIELDS and one.path]
    suspects = {str(one.path[0]) for one in errors if one.path[-1] not in given.names and component.gives_by(one.path)}
    if not suspects:
        return False
    _, read = with_reads(component, lambda step: step.fields(incoming))
    return bool(attributes(type(component), suspects) & read)


def _passes_others(made: Built, incoming: Fields, known: Fields) -> bool:
    """Whether fields that are not known may pass the step: those that nobody names, or those that it names itself."""
    component: Any = made.component
    probed = pa.schema([*known.schema, pa.field(_PROBE, pa.string())])
    if _PROBE in component.fields(probed).names:
        return True
    return component.fields(known.schema).names != component.fields(incoming.schema).names


def _untyped(schema: Schema) -> Schema:
    return pa.schema([(name, pa.null()) for name in schema.names])


def common_findings(made: Built, ask: Callable[[Any], Iterable[Finding]]) -> list[Finding]:
    """What is said of a component whatever its wrong options are meant to be."""
    found = list(ask(made.component))
    if not made.whole:
        found = [one for one in found if not any(text in one.message for text in TEXTS)]
    for other in made.others:
        same = {(one.code, one.path, one.message, one.at) for one in _asked(other, ask)}
        found = [one for one in found if (one.code, one.path, one.message, one.at) in same]
    return found


def _asked(component: Component, ask: Callable[[Any], Iterable[Finding]]) -> Iterable[Finding]:
    try:
        return list(ask(component))
    except Exception:  # a check that a stand-in breaks says nothing about the component that is meant
        return ()
