"""JSON paths as Calcite reads them: ``lax`` or ``strict``, then members, indexes, ``*``, ``..name``."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

_STEP = re.compile(
    r"\.\.(?P<deep>[^.\[\]]+|\*)|\.(?P<name>[^.\[\]]+)|\.?\[\s*(?P<index>-?\d+)\s*\]|\.?\[\s*(?P<any>\*)\s*\]"
    r"|\.?\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]|\.?\[\s*\"(?P<double>(?:[^\"\\]|\\.)*)\"\s*\]"
)


class JsonPath(NamedTuple):
    """Steps: a name, an index, ``*`` as None, or a tuple with the name that is searched at any depth."""

    steps: tuple[Any, ...]
    is_strict: bool
    is_definite: bool
    """Whether it leads to one value at most."""


class PathError(ValueError):
    """The path is invalid, or has no value in strict mode."""


@lru_cache(maxsize=256)
def parse_path(text: str) -> JsonPath:
    """The path of a text. Raises PathError."""
    mode = re.match(r"\s*(lax|strict)\s+", text)
    is_strict, text = bool(mode and mode[1] == "strict"), text[mode.end() if mode else 0 :].strip()
    if not text.startswith("$"):
        text = f"$.{text}"
    steps: list[Any] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise PathError(f"{text!r} is not a JSON path")
        at = found.end()
        steps.append(_step(found))
    is_definite = all(isinstance(step, str | int) for step in steps)
    return JsonPath(tuple(steps), is_strict, is_definite)


def _step(found: re.Match[str]) -> Any:
    if found["deep"]:
        return (found["deep"],)
    if found["index"]:
        return int(found["index"])
    if found["any"] or found["name"] == "*":
        return None
    return found["name"] or (found["single"] if found["single"] is not None else found["double"])


class NoValue:
    """What a path finds where the JSON has nothing: not the same as a JSON null."""


MISSING = NoValue()


def select(value: Any, path: JsonPath) -> Any:
    """The value at a path, the list of values of one that is not definite; MISSING without any. Raises PathError if strict."""
    found = [value]
    for step in path.steps:
        found = [child for one in found for child in _children(one, step)]
    if path.is_definite:
        if not found and path.is_strict:
            raise PathError("no value at the path")
        return found[0] if found else MISSING
    return found


def _children(value: Any, step: Any) -> list[Any]:
    if isinstance(step, tuple):
        return [child for one in _descend(value) for child in _children(one, None if step[0] == "*" else step[0])]
    if step is None:
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if isinstance(step, int):
        return [value[step]] if isinstance(value, list) and -len(value) <= step < len(value) else []
    return [value[step]] if isinstance(value, dict) and step in value else []


def _descend(value: Any) -> list[Any]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(one for child in children for one in _descend(child))]


def read_json(text: str) -> Any:
    """The value of a JSON text; numbers keep their digits. Raises ValueError."""
    return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def write_json(value: Any) -> str:
    """Compact JSON, keys in the order of the object, digits as they were."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(key)}:{write_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    if isinstance(value, str):
        return quote(value)
    return number_text(value)


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def number_text(value: Any) -> str:
    """A number, boolean or null as JSON; a decimal as Java's BigDecimal writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
