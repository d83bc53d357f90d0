"""The fields that are known before a component, where components before it may have errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from etl.api import Component, Finding, Schema, Step
from etl.config.model import OptionPath
from etl.config.options.candidates import TEXTS
from etl.config.options.read_options import with_reads
from etl.config.options.variants import ComponentVariant, attributes

UNKNOWN_FIELD = "unknown-field"
ABOUT_FIELDS = frozenset({UNKNOWN_FIELD, "wrong-type", "field-conflict", "union-type-conflict", "not-boolean"})
"""Codes of findings that do not change the output fields of a step."""

ABOUT_OTHERS = frozenset({"bad-rule", "unused-option", "useless-option"})
"""Codes of findings that may be consequences of an error in another option or in a part of the value."""

_NAMED = re.compile(r"(?:there is no|the stream has no|side has no|neither side has a) field '([^']+)'")
_PROBE = "a_field_that_no_step_names"


@dataclass(frozen=True)
class Fields:
    """The fields of the events that arrive at a component. An ``open`` schema holds the known ones; there may be others."""

    schema: Schema
    open: bool = False
    causes: frozenset[OptionPath] = frozenset()
    """The components with errors because of which fields are unknown."""
    possible: frozenset[str] = frozenset()
    """Further fields that may exist, of unknown types, although the schema is not open."""

    def may_have(self, name: str) -> bool:
        """Whether a field that is not in the schema may exist."""
        return self.open or name in self.possible


NOTHING_KNOWN = Fields(pa.schema([]), open=True)


def source_fields(made: ComponentVariant) -> Fields:
    """The fields of a source that do not depend on its wrong options."""
    return _common_fields(made, lambda source: source.fields())


def output_fields(made: ComponentVariant, incoming: Fields, findings: Sequence[Finding]) -> Fields:
    """The output fields of a step with these input fields and findings."""
    known = with_named(incoming, findings)
    given = _common_fields(made, lambda step: step.fields(known.schema))
    passed = known.schema.names if made.has_unknown else ()  # the option may be one by which the step does not drop them
    guessed = _is_guess(made.component, known.schema, findings, given.schema)
    stays_open = incoming.open and _passes_others(made, incoming, known)
    schema = _remove_types(given.schema) if guessed else given.schema
    return Fields(
        schema, given.open or guessed or stays_open, possible=incoming.possible | made.mentioned | set(passed) - set(schema.names)
    )


def with_named(fields: Fields, findings: Iterable[Finding]) -> Fields:
    """The fields with those that findings report as unknown and that may exist, with any type."""
    missed = {name: pa.null() for one in findings if (name := missed_field(one)) and fields.may_have(name)}
    known = {field.name: field.type for field in fields.schema}
    return replace(fields, schema=pa.schema(list((missed | known).items()))) if missed else fields


def missed_field(finding: Finding) -> str | None:
    """The field that a finding reports as unknown, or None."""
    found = _NAMED.search(finding.message) if finding.code in (UNKNOWN_FIELD, "bad-rule") else None
    return found[1] if found else None


def _common_fields(made: ComponentVariant, compute: Callable[[Any], Schema]) -> Fields:
    """The fields that all variants give; open if they differ, or if a text that was not tried may give more."""
    if made.whole:
        return Fields(compute(made.component))
    results = [with_reads(one, compute) for one in made.variants]
    schemas, read = [schema for schema, _ in results], frozenset[str]().union(*(reads for _, reads in results))
    wrong, free = (_find_deciding(made.component, names & read) for names in (made.wrong, made.free))
    if not wrong:
        return Fields(schemas[0])
    names = [set(schema.names) for schema in schemas]
    common = set.intersection(*names)
    types = [(field.name, _type(field.name, schemas)) for field in schemas[0] if field.name in common - set(TEXTS)]
    if free:
        return Fields(_remove_types(pa.schema(types)), open=True)
    return Fields(pa.schema(types), open=any(one != common for one in names))


def _find_deciding(component: Component, names: Iterable[str]) -> set[str]:
    """Attributes with errors on which the output fields may depend."""
    return {name for name in names if not isinstance(component, Step) or component.fields_depend_on((name,))}


def _type(name: str, schemas: Sequence[Schema]) -> pa.DataType:
    """The type that all schemas have, else null, which fits every use."""
    types = [schema.field(name).type for schema in schemas]
    return types[0] if all(type_.equals(types[0]) for type_ in types) else pa.null()


def _is_guess(component: Any, incoming: Schema, findings: Iterable[Finding], given: Schema) -> bool:
    """Whether an error may change the output fields: it is in an option that makes fields, and not in a key that is the field."""
    errors = [one for one in findings if one.severity == "error" and one.code not in ABOUT_FIELDS and one.path]
    suspects = {str(one.path[0]) for one in errors if one.path[-1] not in given.names and component.fields_depend_on(one.path)}
    if not suspects:
        return False
    _, read = with_reads(component, lambda step: step.fields(incoming))
    return bool(attributes(type(component), suspects) & read)


def _passes_others(made: ComponentVariant, incoming: Fields, known: Fields) -> bool:
    """Whether unknown fields may pass the step: those that no component names, or those that the step names."""
    component: Any = made.component
    probed = pa.schema([*known.schema, pa.field(_PROBE, pa.string())])
    if _PROBE in component.fields(probed).names:
        return True
    return component.fields(known.schema).names != component.fields(incoming.schema).names


def _remove_types(schema: Schema) -> Schema:
    return pa.schema([(name, pa.null()) for name in schema.names])


def common_findings(made: ComponentVariant, check: Callable[[Any], Iterable[Finding]]) -> list[Finding]:
    """The findings of a component that do not depend on its wrong options."""
    found = list(check(made.component))
    if not made.whole:
        found = [one for one in found if not any(text in one.message for text in TEXTS)]
    for other in made.others:
        same = {(one.code, one.path, one.message, one.at) for one in _findings(other, check)}
        found = [one for one in found if (one.code, one.path, one.message, one.at) in same]
    return found


def _findings(component: Component, check: Callable[[Any], Iterable[Finding]]) -> Iterable[Finding]:
    try:
        return list(check(component))
    except Exception:  # a check that fails because of a stand-in shows nothing about the corrected component
        return ()
