"""Faults of values: of another type, out of bounds, none of the choices, or written otherwise than the option asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etl.api import cut, nearest
from etl.config.document.scalars import quote_text, scalar_value
from etl.config.options.fault import FaultContext, Json, SchemaViolation, is_secret
from etl.config.options.foreign_options import CHOICES, nested_option_hint
from etl.config.options.pattern_words import pattern_words

WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
"""Types of JSON Schema in plain words."""
_FOUND: Mapping[type, str] = {dict: "a mapping", list: "a list", type(None): "nothing"}
_TRAPS = {
    **dict.fromkeys(("yes", "Yes", "on", "On", "y"), "write true: YAML 1.2 reads {!r} as text"),
    **dict.fromkeys(("no", "No", "off", "Off", "n"), "write false: YAML 1.2 reads {!r} as text"),
}
LONGEST_SHOWN = 60
"""Characters of a text that a hint shows."""
_KEBAB = re.compile(r"(?<=[a-z])(?=[A-Z])")


def type_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """A value of another type."""
    accepted = error.kind.types if hasattr(error.kind, "types") else error.kind.value
    yield wrong_type(error, [accepted] if isinstance(accepted, str) else list(accepted), context)


def wrong_type(error: Any, accepted: list[str], context: FaultContext) -> SchemaViolation:
    """The fault of a value that has none of these types."""
    path, value = tuple(error.instance_path), context.value(error)
    words = " or ".join(dict.fromkeys(WORDS[name] for name in accepted if name != "null" or len(accepted) == 1))
    message = f"{_FOUND.get(type(value)) or context.shown(error)} is not {words}"
    return SchemaViolation(path, "type", message, _type_hint(value, accepted, error, context), soft=True)


def _type_hint(value: Any, accepted: list[str], error: Any, context: FaultContext) -> str | None:
    """What to write instead of a value of another type."""
    path, schema = tuple(error.instance_path), context.parent(error)
    if isinstance(value, dict):
        return _mapping_hint(value, accepted, path)
    if isinstance(value, list):
        return _list_hint(value, accepted, path)
    if isinstance(value, bool | int | float) and accepted == ["string"] and "pattern" not in schema:
        return "put it in quotes" if is_secret(schema) else f"put it in quotes: '{str(value).lower()}'"
    if isinstance(value, str) and (hint := _text_hint(value, accepted, path in context.report.substituted)) is not None:
        return hint or None
    if isinstance(value, str | int | float) and accepted == ["object"] and not is_secret(schema):
        return nested_option_hint(value, path, schema)
    return None


def _mapping_hint(value: Mapping[str, Any], accepted: list[str], path: tuple[str | int, ...]) -> str | None:
    if accepted == ["string"] and "fields" in path[-2:-1]:
        return f"members have dots in their names: {path[-1]}.{next(iter(value), 'name')}: …"
    if accepted == ["string"] and len(value) == 1:
        ((inner, text),) = value.items()
        return f"write {text}" if inner in ("codec", "type", "name") and isinstance(text, str) else None
    if "array" in accepted and len(value) == 1 and isinstance(text := next(iter(value.values())), str):
        return f"write {cut(quote_text(text), LONGEST_SHOWN)}"
    if accepted == ["array"]:
        return "put '- ' before its first key, or [ ] around it: a list of one"
    return None


def _list_hint(value: list[Any], accepted: list[str], path: tuple[str | int, ...]) -> str | None:
    if accepted == ["string"] and "fields" in path[-2:-1]:
        return f"write array<{value[0]}>" if len(value) == 1 and isinstance(value[0], str) else None
    if accepted == ["string"]:
        return "one text is taken here, not several"
    return "write keys and values: {NAME: …}, or each in a line of its own without '-'" if accepted == ["object"] else None


def _text_hint(value: str, accepted: list[str], is_substituted: bool) -> str | None:
    """The hint for a text that is a number or truth value in quotes, empty where there is none, or None for another text."""
    unquoted = scalar_value(value)
    if "boolean" in accepted and value in _TRAPS:
        return _TRAPS[value].format(value)
    is_number = type(unquoted) in (int, float) and {"integer", "number"} & set(accepted)
    if is_number or ("boolean" in accepted and isinstance(unquoted, bool)):
        return "" if is_substituted else f"write it without quotes: {value}"
    return None


def choice_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """A value that is not one of the option's choices."""
    value = context.value(error)
    options = list(getattr(error.kind, "options", None) or context.parent(error).get("enum", ()))
    names = [str(option) for option in options or [getattr(error.kind, "expected_value", None)]]
    message = f"{context.shown(error)} is not one of: {', '.join(names)}"
    yield SchemaViolation(
        tuple(error.instance_path), "enum", message, _choice_hint(value, names) if isinstance(value, str) else None
    )


def _choice_hint(value: str, names: list[str]) -> str | None:
    if value in ("json", "avro", "csv") and "text" in names:
        return f"take text, and put a step {value} after it" if value != "avro" else "Avro is not read"
    if meant := [name for name in names if value.lower() in CHOICES.get(name, ())]:
        return f"did you mean {meant[0]!r}?"
    same = [name for name in names if name.lower() == value.lower()]
    return f"did you mean {same[0]!r}?" if same else nearest(value, names)


def bound_faults(words: str) -> Callable[[Any, FaultContext], Iterator[SchemaViolation]]:
    """Numbers out of bounds; ``{}`` in the words stands for the bound."""

    def explain(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
        limit = context.parent(error).get(error.kind.name)
        message = f"{context.shown(error)} {words.format(limit)}"
        yield SchemaViolation(tuple(error.instance_path), code_of(error.kind.name), message)

    return explain


def size_faults(words: str) -> Callable[[Any, FaultContext], Iterator[SchemaViolation]]:
    """Texts, lists and mappings that are too short or too long."""

    def explain(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
        limit = context.parent(error).get(error.kind.name)
        yield SchemaViolation(
            tuple(error.instance_path), code_of(error.kind.name), words.format(limit, "" if limit == 1 else "s")
        )

    return explain


def pattern_faults(error: Any, context: FaultContext) -> Iterator[SchemaViolation]:
    """Texts that are not written as the option asks."""
    schema, path, value = context.parent(error), tuple(error.instance_path), context.value(error)
    pattern, secret = str(schema.get("pattern")), is_secret(schema)
    hidden = secret or path in context.report.substituted
    words = pattern_words("" if hidden else str(value), schema, pattern)
    several = re.split(r"[,;]\s*", value) if isinstance(value, str) and not secret else []
    is_list = len(several) > 1 and all(part and re.search(pattern, part) for part in several)
    hint = f"several are a list: [{', '.join(several)}]" if is_list else None
    if "*" in str(value) and "(\\.\\*)?$" in pattern:
        hint = "a prefix stands for all fields below it: source, or source.*; other patterns are not known"
    yield SchemaViolation(path, "pattern", f"{context.shown(error)} {words}", hint, soft=True)


def branches(error: Any, context: FaultContext) -> Iterator[Json]:
    """The schemas of which the value may have any."""
    for branch in context.parent(error).get("anyOf", ()):
        yield context.schema["$defs"][branch["$ref"].rpartition("/")[2]] if "$ref" in branch else branch


def code_of(name: str) -> str:
    """``exclusiveMinimum`` → ``exclusive-minimum``."""
    return _KEBAB.sub("-", name).lower()
