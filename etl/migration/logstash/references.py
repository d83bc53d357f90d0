"""References to fields, ``[a][b]``, and texts with them, ``%{[a][b]}`` and ``%{+YYYY}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from etl.expressions.quoting import quoted_text
from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.values import NULL, TEXT, TIME, Value, as_type, call, constant, text_value

_SLOT = re.compile(r"%\{([^{}]+)\}")
_INDEX = re.compile(r"-?\d+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_.][\w.]*)(?::([^{}]*))?\}")

TIME_FIELD = "@timestamp"


def field_name(text: Any) -> str:
    """``[a][b]`` or ``a`` as a field's name."""
    if not isinstance(text, str):
        raise NoCounterpartError(f"{str(text)[:40]!r} is not the name of a field")
    if _SLOT.search(text):
        raise NoCounterpartError(f"a field whose name depends on the event, {text}")
    parts = re.findall(r"\[([^\[\]]+)\]", text) if text.startswith("[") else [text]
    return clean_name(".".join(parts))


def reference(draft: Draft, text: str) -> Value:
    """The value of a reference; ``[tags][0]`` is an item."""
    parts = re.findall(r"\[([^\[\]]+)\]", text) if text.startswith("[") else [text]
    if len(parts) > 1 and _INDEX.fullmatch(parts[-1]):
        items = draft.field(clean_name(".".join(parts[:-1])))
        if items.is_array:
            at = parts[-1] if not parts[-1].startswith("-") else f"size({items.sql}) - {parts[-1][1:]}"
            return Value(f"get({items.sql}, {at})", items.type[6:-1], items.reads)
        return NULL
    return draft.field(clean_name(".".join(parts)))


def interpolated(draft: Draft, value: Any) -> Value:
    """The value of an option: a text in which ``%{…}`` stands for fields. The text stays where a field is missing."""
    if not isinstance(value, str):
        return constant(value)
    parts: list[Value] = []
    at = 0
    for found in _SLOT.finditer(value):
        if found.start() > at:
            parts.append(text_value(environment(value[at : found.start()])))
        parts.append(_slot(draft, found[1], found[0]))
        at = found.end()
    if at < len(value) or not parts:
        parts.append(text_value(environment(value[at:])))
    return parts[0] if len(parts) == 1 else call("concat", parts, TEXT)


def _slot(draft: Draft, name: str, written: str) -> Value:
    if name.startswith("+"):
        if draft.types.get(TIME_FIELD) != TIME:
            raise NoCounterpartError(f"{written} needs the time of events: a filter date before it")
        return call("date_format", [draft.field(TIME_FIELD), text_value(java_letters(name[1:]))], TEXT)
    found = reference(draft, name)
    if found.is_null:
        return text_value(written)
    return Value(f"coalesce({as_type(found, TEXT).sql}, {quoted_text(written)})", TEXT, found.reads)


def java_letters(pattern: str) -> str:
    """A pattern of Joda-Time in Java's letters."""
    parts = re.split(r"('[^']*')", pattern)
    return "".join(part if part.startswith("'") else re.sub("Y", "y", part) for part in parts)


def sink_text(value: Any) -> str:
    """A text with references in an output, as sinks write it: ``{field}`` and ``{yyyy.MM.dd}``."""

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        return "{" + (java_letters(name[1:]) if name.startswith("+") else field_name(name)) + "}"

    return environment(_SLOT.sub(replace, str(value)))


def resolved_references(draft: Draft, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The options of an output in whose texts the names of fields that no step gives stand for these, and these fields by option.

    An option that is nothing but one reference stays: what reads it takes a field, and not a text.
    """
    made, missing = dict(options), dict[str, str]()
    for option, text in options.items():
        if not isinstance(text, str) or _SLOT.fullmatch(text):
            continue
        for name in {found[1] for found in _SLOT.finditer(text) if not found[1].startswith("+")}:
            if reference(draft, name).is_null:
                missing[option] = field_name(name)
                made[option] = made[option].replace(f"%{{{name}}}", missing[option].split(".")[-1])
    return made, missing


def environment(value: Any) -> Any:
    """Variables of the environment: ``${NAME:default}`` is ``${NAME:-default}``."""
    if isinstance(value, list):
        return [environment(one) for one in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda found: f"${{{found[1]}}}" if found[2] is None else f"${{{found[1]}:-{found[2]}}}", value)
