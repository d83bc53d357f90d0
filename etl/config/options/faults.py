"""What the JSON Schema of pipelines has against a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from etl.catalogue import Catalogue
from etl.config.document.scalars import scalar_value
from etl.config.model import OptionPath
from etl.config.nested_values import value_at, with_value
from etl.config.options.fault import FaultContext, SchemaViolation, is_secret
from etl.config.options.unknown_options import SIGMA_HINT, misplaced_faults, missing_faults, unknown_faults
from etl.config.options.value_faults import (
    WORDS,
    bound_faults,
    branches,
    choice_faults,
    code_of,
    pattern_faults,
    size_faults,
    type_faults,
    wrong_type,
)
from etl.config.report import Report
from etl.config.schema import pipeline_schema

if TYPE_CHECKING:
    import jsonschema_rs


@lru_cache(maxsize=128)
def validator(catalogue: Catalogue) -> tuple[jsonschema_rs.Draft202012Validator, Mapping[str, Any]]:
    """The compiled schema of a catalogue, and the schema."""
    import jsonschema_rs

    schema = pipeline_schema(catalogue)
    return jsonschema_rs.Draft202012Validator(schema), schema


def coerce(root: Any, catalogue: Catalogue, report: Report) -> Any:
    """The document with numbers and truth values where the schema wants them: values from outside the file are text."""
    return typed_texts(root, catalogue, report.substituted.__contains__) if report.substituted else root


def typed_texts(root: Any, catalogue: Catalogue, is_chosen: Callable[[OptionPath], bool]) -> Any:
    """The document with numbers and truth values in place of the texts at chosen paths where the schema wants them."""
    compiled, _ = validator(catalogue)
    for error in compiled.iter_errors(root):
        path = tuple(error.instance_path)
        if is_chosen(path) and error.kind.name in ("type", "anyOf", "pattern", "enum", "const"):
            value = value_at(root, path)
            root = with_value(root, path, scalar_value(value)) if isinstance(value, str) else root
    return root


def faults(root: Any, catalogue: Catalogue, report: Report) -> list[SchemaViolation]:
    """All faults of a document, except those for which `etl.config.layout` has a better message."""
    return faults_by(*validator(catalogue), root, report)


def faults_by(
    compiled: jsonschema_rs.Draft202012Validator, schema: Mapping[str, Any], root: Any, report: Report
) -> list[SchemaViolation]:
    """All faults by a compiled schema."""
    context = FaultContext(root, schema, report)
    found = [fault for error in compiled.iter_errors(root) for fault in _explain(error, context)]
    # a part that is not YAML may be the option that is missing
    owners = {path[:length] for path in report.document.replaced_values for length in range(1, len(path))}
    found = [replace(one, silent=True) if one.code == "missing-option" and one.path in owners else one for one in found]
    return list(_without_consequences([fault for fault in found if not report.is_broken(fault.path)]))


def _without_consequences(faults: Sequence[SchemaViolation]) -> Iterator[SchemaViolation]:
    """The faults, of which consequences of others are silent: all but one of a rule of Sigma that stands among ours, and what is
    missing beside an option of another tool."""
    typed = {fault.path for fault in faults if fault.code == "type"}
    faults = [fault for fault in faults if fault.code != "enum" or fault.path not in typed]
    sigma: dict[OptionPath, SchemaViolation] = {}
    for fault in sorted(faults, key=lambda one: one.path[-1:] != ("detection",)):
        if fault.hint == SIGMA_HINT:
            sigma.setdefault(fault.path[:-1], fault)
    replaced: dict[tuple[OptionPath, str | None], SchemaViolation] = {}
    for fault in faults:
        if fault.replaces_missing:
            replaced.setdefault((fault.path[:-1], fault.hint), fault)
    owners = {path for path, _ in replaced}
    for fault in faults:
        is_missing = fault.code == "missing-option" and fault.path in owners
        is_repeated = fault.replaces_missing and replaced[fault.path[:-1], fault.hint] is not fault
        around = (sigma.get(fault.path[:length]) for length in range(len(fault.path) + 1))
        if is_missing or is_repeated or any(owner not in (None, fault) for owner in around):
            yield replace(fault, silent=True)
        else:
            yield fault


def _explain(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    if error.kind.name == "oneOf" and not error.instance_path:
        return
    yield from _EXPLAINERS.get(error.kind.name, _other_faults)(error, context)


def _any_of_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """The faults by the branch whose type fits; where none fits, one fault that names all types."""
    here = len(error.instance_path)
    for branch in error.kind.context:
        if not any(e.kind.name in ("type", "const") and len(e.instance_path) == here for e in branch):
            for inner in branch:
                yield from _explain(inner, context)
            return
    accepted = [str(branch.get("type")) for branch in branches(error, context)]
    if accepted and all(name in WORDS for name in accepted):
        yield wrong_type(error, accepted, context)
    else:
        yield SchemaViolation(
            tuple(error.instance_path), "any-of", f"{context.shown(error)} has none of the accepted forms", soft=True
        )


def _other_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    message = "is not accepted" if is_secret(context.parent(error)) else error.message
    yield SchemaViolation(tuple(error.instance_path), code_of(error.kind.name), message, soft=True)


_EXPLAINERS: Mapping[str, Callable[[Any, FaultContext], Iterator[SchemaViolation]]] = {
    "additionalProperties": unknown_faults,
    "falseSchema": misplaced_faults,
    "required": missing_faults,
    "type": type_faults,
    "enum": choice_faults,
    "const": choice_faults,
    "minimum": bound_faults("is less than the minimum of {}"),
    "maximum": bound_faults("is more than the maximum of {}"),
    "exclusiveMinimum": bound_faults("is not more than {}"),
    "exclusiveMaximum": bound_faults("is not less than {}"),
    "multipleOf": bound_faults("is not a multiple of {}"),
    "minLength": size_faults("needs at least {} character{}"),
    "maxLength": size_faults("has more than {} character{}"),
    "minItems": size_faults("needs at least {} item{}"),
    "maxItems": size_faults("has more than {} item{}"),
    "minProperties": size_faults("needs at least {} key{}"),
    "maxProperties": size_faults("has more than {} key{}"),
    "pattern": pattern_faults,
    "anyOf": _any_of_faults,
}
"""Keyword of JSON Schema → the function that explains its errors."""
