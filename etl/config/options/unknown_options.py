"""Faults of options that the schema does not have, and of options that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from etl.config.nested_values import as_mapping
from etl.config.options.fault import FaultContext, Json, SchemaViolation, is_secret
from etl.config.options.foreign_options import foreign_option_hint
from etl.config.options.option_names import meant_option
from etl.config.options.pattern_words import pattern_words

_OF_SIGMA = ("detection", "logsource", "correlation")
"""Keys of Sigma's rules."""
SIGMA_HINT = "rules of Sigma stand in files of their own: files: [rules/*.yml]"


def unknown_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """Keys that a mapping may not have."""
    path, parent = tuple(error.instance_path), context.parent(error)
    if "patternProperties" in parent:
        pattern = next(iter(parent["patternProperties"]))
        for name in error.kind.unexpected:
            message = f"the key {name!r} {pattern_words(name, parent, pattern)}"
            dotted = re.sub(r"[\[\].]+", ".", name).strip(".")
            hint = f"write {dotted}" if dotted != name and re.search(pattern, dotted) else None
            yield SchemaViolation((*path, name), "property-names", message, hint, key=True)
        return
    given, options = as_mapping(context.value(error)), parent.get("properties", {})
    for name in error.kind.unexpected:
        inner = given.get(name)
        if isinstance(inner, dict) and inner and inner.keys() <= options.keys() - given.keys():
            hint = f"write {', '.join(inner)} beside the other options, without {name!r}"
            yield SchemaViolation((*path, name), "unknown-option", f"has no option {name!r}", hint, key=True, lifts=True)
        else:
            yield _unknown_option(name, (*path, name), given, options)


def _unknown_option(
    name: str, path: tuple[str | int, ...], given: Mapping[str, Any], options: Mapping[str, Json]
) -> SchemaViolation:
    if (option := glued_option(name)) in options:
        secret = is_secret(options[option])
        hint = f"{option} needs a colon and a blank after it: {option}: …"
        found = repr(option if secret else name)
        meant = None if secret or option in given else option
        return SchemaViolation(path, "unknown-option", f"has no option {found}", hint, key=True, meant=meant)
    message = f"has no option {name!r}"
    if advice := foreign_option_hint(name, given.get(name), options):
        return SchemaViolation(path, "unknown-option", message, advice, key=True, replaces_missing=True)
    if name in _OF_SIGMA and "where" in options:
        return SchemaViolation(path, "unknown-option", message, SIGMA_HINT, key=True)
    meant = meant_option(name, options)
    if meant in given or (_holds_more(given.get(name)) and options.get(meant or "", {}).get("type") == "string"):
        meant = None  # it would be wrong
    hint = f"did you mean {meant!r}?" if meant else f"options here are: {', '.join(options)}"
    return SchemaViolation(path, "unknown-option", message, hint, key=True, meant=meant)


def _holds_more(value: object) -> bool:
    """Whether a value is a mapping of more than one text."""
    return isinstance(value, dict) and not (len(value) == 1 and all(isinstance(one, str) for one in value.values()))


def glued_option(name: str) -> str:
    """The option that a key such as ``path:a.log`` may contain, where its colon lacks the blank after it."""
    return re.split("[: ]", name, maxsplit=1)[0]


def misplaced_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """`from` where there is only one thing to read."""
    path = tuple(error.instance_path)
    if path[-1:] == ("from",):
        yield SchemaViolation(path, "unknown-option", "has no option 'from'", "here is only one thing it could read", key=True)


def missing_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """A required option that is not given."""
    path, name = tuple(error.instance_path), error.kind.property
    if name == "type" and (*path, "type") in context.report.broken:
        return
    schema = context.parent(error)
    option = schema.get("properties", {}).get(name, {})
    if name == "from":
        option = {"description": "The source or stream to deliver."}
    yield SchemaViolation(path, "missing-option", f"needs {name!r}", option.get("description"), option=name, schema=schema)
