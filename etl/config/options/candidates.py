"""Values that an option accepts, from its JSON schema. They replace wrong values of the file while the rest is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etl.config.model import OptionPath

Json = Mapping[str, Any]

REMOVED = object()
"""Marks an option that is left out."""
TEXTS = ("first_name", "second_name")
"""Two texts that are also field names; findings and fields that contain them depend on the wrong value."""
_OTHER_TEXTS = (
    *("void", "string", "null", "1s", "30d", "1KiB", "1GiB", "https://a.example", "https://b.example"),
    *("tcp://a.example:1", "tcp://b.example:1", "640", "600", "[]", "{}"),
)
"""Types, an expression, durations, sizes, URLs, modes: texts for options with a syntax of their own."""
_EXPRESSION = "spark-sql"


@dataclass(frozen=True)
class ValueSchemas:
    """The schemas of a value (one a branch), and whether the value is optional."""

    schemas: tuple[Json, ...]
    optional: bool


def candidates(component: Json, path: OptionPath, defs: Json) -> list[Any]:
    """Values for the option at ``path`` of a component with this schema; none for a path that the schema does not have."""
    spot = ValueSchemas((component,), False)
    for part in path:
        spot = _inside(spot, part, defs)
    found = [value for schema in spot.schemas for value in _values(schema)]
    return [REMOVED, *found] if spot.optional else found


def _inside(spot: ValueSchemas, part: str | int, defs: Json) -> ValueSchemas:
    for schema in (branch for one in spot.schemas for branch in branches(one, defs)):
        if isinstance(part, int) and "items" in schema:
            return ValueSchemas(tuple(branches(schema["items"], defs)), False)
        if part in schema.get("properties", ()):
            return ValueSchemas(tuple(branches(schema["properties"][part], defs)), part not in schema.get("required", ()))
        values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        if isinstance(part, str) and isinstance(values[0], dict):
            return ValueSchemas(tuple(branches(values[0], defs)), False)
    return ValueSchemas((), False)


def branches(schema: Json, defs: Json) -> Iterator[Json]:
    """The schema without references, or each of its alternatives."""
    if "$ref" in schema:
        yield from branches(defs[schema["$ref"].rpartition("/")[2]], defs)
    elif "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from branches(branch, defs)
    else:
        yield schema


def _values(schema: Json) -> Sequence[Any]:
    if "enum" in schema or "const" in schema:
        return schema["enum"] if "enum" in schema else [schema["const"]]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        low = max(schema.get("minimum", 0), schema.get("exclusiveMinimum", 0) + 1)
        return [low, min(low + 7, schema.get("maximum", low + 7))]
    if kind == "string":
        return _texts(schema)
    if kind == "array":
        return [list(_values(schema.get("items", {}))[:1])] if schema.get("minItems") else [[]]
    if kind == "object":
        return [dict.fromkeys(TEXTS[:1], *_entry(schema))] if schema.get("minProperties") else [{}]
    plain: Mapping[str, Sequence[Any]] = {"boolean": [True, False], "null": [None]}
    return plain.get(str(kind), ())


def _entry(schema: Json) -> Sequence[Any]:
    """At most one value for a mapping that needs an entry."""
    values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    return _values(values[0])[:1] if isinstance(values[0], dict) else ()


def _texts(schema: Json) -> Sequence[str]:
    if schema.get("format") == _EXPRESSION:
        return ["null"]
    texts = (*TEXTS, *_OTHER_TEXTS)
    return [text for text in texts if re.search(schema["pattern"], text)] if "pattern" in schema else texts
