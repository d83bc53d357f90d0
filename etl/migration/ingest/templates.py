"""Templates of values, ``{{a.b}}`` and ``{{{a.b}}}`` (Mustache) → expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.values import NULL, TEXT, Value, as_type, call, text_value

_SLOT = re.compile(r"\{\{\{\s*([^{}]+?)\s*\}\}\}|\{\{\s*([^{}]+?)\s*\}\}")

INGEST_TIME = "_ingest.timestamp"


def slots(text: str) -> list[str]:
    """The fields that a template names."""
    return [first or second for first, second in _SLOT.findall(text)]


def template_value(text: str, draft: Draft, constants: Mapping[str, Value]) -> Value:
    """The value of a template: a text in which a missing field is empty. Names of ``constants`` have those values."""
    parts: list[Value] = []
    at = 0
    for found in _SLOT.finditer(text):
        if found.start() > at:
            parts.append(text_value(text[at : found.start()]))
        parts.append(_slot(found[1] or found[2], draft, constants))
        at = found.end()
    if at < len(text) or not parts:
        parts.append(text_value(text[at:]))
    if len(parts) == 1:
        return parts[0]
    return call("concat", [_text_of(one) for one in parts], TEXT)


def _slot(name: str, draft: Draft, constants: Mapping[str, Value]) -> Value:
    name = name.removeprefix("&").strip().removeprefix("_source.").removeprefix("ctx.")
    if name[:1] in ("#", "/", "^", ">", "!"):
        raise NoCounterpartError(f"a section {{{{{name}}}}} in a template")
    if name in constants:
        return constants[name]
    if name == INGEST_TIME:
        draft.remark("the time of reading ({{_ingest.timestamp}}) is left out; current_timestamp() gives it, in Spark")
        return NULL
    if name.startswith("_ingest."):
        raise NoCounterpartError(f"{{{{{name}}}}} has no counterpart here")
    stem, _, index = name.rpartition(".")
    if index.isdigit():
        items = draft.field(clean_name(stem))
        return Value(f"get({items.sql}, {index})", items.type[6:-1], items.reads) if items.is_array else NULL
    return draft.field(clean_name(name))


def _text_of(value: Value) -> Value:
    if not value.reads and value.type == TEXT:
        return value
    return text_value("") if value.is_null else Value(f"coalesce({as_type(value, TEXT).sql}, '')", TEXT, value.reads)
