"""Options → components, and the faults of options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError

from etl.api import Component
from etl.catalogue import Catalogue
from etl.config.layout import Layout, Part
from etl.config.model import OptionPath, RunOptions
from etl.config.options.fault import SchemaViolation
from etl.config.options.variants import ComponentVariant, attributes, free_options, texts_in, variants
from etl.config.report import Report

Json = Mapping[str, Any]

_PREFIXES = ("Value error, ", "Assertion failed, ")
_OWN_WORDS = ("value_error", "assertion_error")
_SECRET = re.compile(r"auth|cookie|credential|key|pass|secret|token", re.IGNORECASE)
"""Names of options that are surely secrets: all headers are masked in messages, but only few must not stand in the file."""


_REPORTED_BY_SCHEMA = ("missing", "extra_forbidden")


@dataclass(frozen=True)
class ValidationFailure:
    """Why a model refuses a value; ``own_words``: the message is that of the option's own type."""

    message: str
    own_words: bool


def build(
    layout: Layout, root: Mapping[str, Any], catalogue: Catalogue, schema: Json, faults: Iterable[SchemaViolation], report: Report
) -> tuple[dict[OptionPath, ComponentVariant], RunOptions]:
    """Construct every part and the run options; report the faults that the schema has found and those of the construction."""
    refused: dict[OptionPath, ValidationFailure] = {}
    for part in layout.parts():
        for path, secret in secrets(cls, part.options, part.path) if (cls := _class(part, catalogue)) else ():
            report.mask(secret, "***")
            _warn_of_secret(path, secret, report)
    for part in layout.parts():
        refused |= _refusals(_class(part, catalogue), part.options, part.path)
    refused |= _refusals(RunOptions, root.get("run", {}), ("run",))
    report_faults(list(faults), refused, report)
    built = {part.path: made for part in layout.parts() if (made := _build(part, catalogue, schema, report))}
    return built, _run_options(root, schema, report)


def _class(part: Part, catalogue: Catalogue) -> type[Component] | None:
    name = part.options.get("type")
    return catalogue.families[part.family].get(name) if isinstance(name, str) else None


def _build(part: Part, catalogue: Catalogue, schema: Json, report: Report) -> ComponentVariant | None:
    cls = _class(part, catalogue)
    if cls is None:
        return None
    bad = report.broken_below(part.path)
    of_type = schema["$defs"][f"{part.family}.{part.options['type']}"]
    made = variants(cls, part.options, bad, of_type, schema["$defs"])
    if not made:
        return None
    wrong = attributes(cls, {str(path[0]) for path in bad})
    unknown = [part.options[name] for name in wrong - cls.model_fields.keys() if name in part.options]
    mentioned = frozenset(text for value in unknown for text in texts_in(value))
    return ComponentVariant(made[0], tuple(made[1:]), wrong, attributes(cls, free_options(made, bad)), mentioned)


def _run_options(root: Mapping[str, Any], schema: Json, report: Report) -> RunOptions:
    given = root.get("run")
    options = given if isinstance(given, dict) else {}
    bad = report.broken_below(("run",))
    made = variants(RunOptions, options, bad, schema["$defs"]["RunOptions"], schema["$defs"])
    return made[0] if made else RunOptions()


def _refusals(cls: type[BaseModel] | None, options: object, path: OptionPath) -> dict[OptionPath, ValidationFailure]:
    """Path → the model's message against the value there."""
    if cls is None or not isinstance(options, dict):
        return {}
    try:
        cls.model_validate(options)
    except ValidationError as error:
        found = [item for item in error.errors(include_url=False) if item["type"] not in _REPORTED_BY_SCHEMA]
        found.sort(key=lambda item: item["type"] in _OWN_WORDS)
        return {
            (*path, *_path_of(options, item["loc"])): ValidationFailure(_message(item["msg"]), item["type"] in _OWN_WORDS)
            for item in found
        }
    return {}


def _warn_of_secret(path: OptionPath, secret: str, report: Report) -> None:
    """Warn of a secret in the file itself, which everyone can read who can read the file."""
    outside = path in report.substituted or any(path[: len(part)] == part for part in report.overridden)
    if secret and not outside and _SECRET.search(str(path[-1])):
        hint = "write ${NAME}, and set NAME in the environment or in a file given by --env-file"
        report.add(path, "secret-in-file", "a secret stands in the file", hint, severity="warning")


def secrets(cls: type[BaseModel], options: Mapping[str, Any], path: OptionPath = ()) -> Iterator[tuple[OptionPath, str]]:
    """Texts of secret options, with their paths."""
    for name, field in cls.model_fields.items():
        key = field.alias or name
        value, here = options.get(key), (*path, key)
        for member in _members(field.annotation):
            if member is SecretStr and isinstance(value, str):
                yield here, value
            elif get_origin(member) is dict and get_args(member)[1] is SecretStr and isinstance(value, dict):
                yield from (((*here, name), text) for name, text in value.items() if isinstance(text, str))
            elif isinstance(member, type) and issubclass(member, BaseModel):
                items = [((*here, at), item) for at, item in enumerate(value)] if isinstance(value, list) else [(here, value)]
                for item_path, item in items:
                    if isinstance(item, dict):
                        yield from secrets(member, item, item_path)


def _members(annotation: Any) -> Iterator[Any]:
    """The types inside an annotation such as ``SecretStr | None``."""
    yield annotation
    for inner in get_args(annotation):
        yield from _members(inner)


def _path_of(options: Any, loc: Iterable[str | int]) -> OptionPath:
    """Pydantic's location without the names of union members, which the file does not have."""
    found: list[str | int] = []
    for part in loc:
        known = range(len(options)) if isinstance(options, list) else options if isinstance(options, dict) else ()
        if part in known:
            options = options[part]
            found.append(part)
    return tuple(found)


def _message(text: str) -> str:
    """The message of the option's own type, or pydantic's."""
    own = next((text.removeprefix(prefix) for prefix in _PREFIXES if text.startswith(prefix)), None)
    return own or f"{text[:1].lower()}{text[1:]}"


def report_faults(faults: list[SchemaViolation], refused: Mapping[OptionPath, ValidationFailure], report: Report) -> None:
    """Report the schema's faults, with the message of the option's own type if it has one, and refusals of the models."""
    reported = set()
    for fault in faults:
        own = refused.get(fault.path) if fault.soft else None
        message, code = (own.message, "invalid-value") if own and own.own_words else (fault.message, fault.code)
        if not fault.silent and not (_is_of_value(fault) and report.extend_hint(fault.path, message, fault.hint)):
            _report_fault(replace(fault, message=message, code=code), report)
        if fault.code != "missing-option":
            reported.add(fault.path)
            report.broken.add(fault.path)
        else:
            report.broken.add((*fault.path, fault.option))
    for path, refusal in refused.items():
        is_consequence = not refusal.own_words and report.broken_below(
            path
        )  # such as a list that is empty without its wrong items
        if not (_is_covered(path, reported) or report.is_broken(path) or is_consequence):
            if report.extend_hint(path, refusal.message, None):
                report.broken.add(path)
            else:
                report.fail(path, "invalid-value", refusal.message)


def _is_of_value(fault: SchemaViolation) -> bool:
    """Whether a fault is about a value itself, not about a key in it or one that it lacks."""
    return not fault.key and fault.code != "missing-option"


def _report_fault(fault: SchemaViolation, report: Report) -> None:
    if fault.key:
        location = report.location(fault.path)
        report.add_at(location.key or location.value, fault.path[:-1], fault.code, fault.message, fault.hint)
    else:
        report.add(fault.path, fault.code, fault.message, fault.hint)


def _is_covered(path: OptionPath, reported: set[OptionPath]) -> bool:
    return any(path[: len(other)] == other or other[: len(path)] == path for other in reported)
