"""JSON paths as Calcite and Jayway's JsonPath read them: ``lax`` or ``strict``, which is the default, then members, indexes,
``*``, ``..name``, slices, several members, filters, and a function at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NamedTuple

from etl.expressions.library.flink.json.filters import FilterError, parse_filter

_STEP = re.compile(
    r"""
      \.\.(?P<deep>[^.\[\]]+|\*) | (?P<all>\.\.)(?=\[)
    | \.(?P<function>[a-z]+)\(\)\Z | \.(?P<name>[^.\[\]]+)
    | \.?\[\s*(?P<index>-?\d+)\s*\] | \.?\[\s*(?P<any>\*)\s*\]
    | \.?\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\] | \.?\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    | \.?\[\s*(?P<first>-?\d*)\s*:\s*(?P<last>-?\d*)\s*\]
    | \.?\[\s*(?P<indexes>-?\d+(?:\s*,\s*-?\d+)+)\s*\]
    | \.?\[\s*(?P<names>'[^']*'(?:\s*,\s*'[^']*')+|"[^"]*"(?:\s*,\s*"[^"]*")+)\s*\]
    | \.?\[\s*\?\s*\((?P<filter>(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|[^'"/])*?)\)\s*\]
    """,
    re.VERBOSE,
)


class JsonPath(NamedTuple):
    """Steps: a name, an index, ``*`` as None, a tuple with the name that is searched at any depth, or a function that gives the
    values below one."""

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
    is_strict, text = not mode or mode[1] == "strict", text[mode.end() if mode else 0 :].strip()
    steps, is_definite = _parse_steps(text)
    return JsonPath(steps, is_strict, is_definite)


def _parse_steps(text: str) -> tuple[tuple[Any, ...], bool]:
    """The steps of a path without its mode, and whether they lead to one value at most. Raises PathError."""
    if not text.startswith("$"):
        text = f"$.{text}"
    steps: list[Any] = []
    at, is_definite = 1, True
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise PathError(f"{text!r} is not a JSON path")
        at = found.end()
        try:
            steps.append(_step(found))
        except FilterError as error:
            raise PathError(str(error)) from error
        is_definite &= isinstance(steps[-1], str | int) or bool(found["names"] or found["function"])
    return tuple(steps), is_definite


def _step(found: re.Match[str]) -> Any:
    if found["filter"] is not None:
        return partial(_filtered, parse_filter(found["filter"], _finder))
    if found["all"]:
        return _descend
    if found["function"]:
        return _function(found["function"])
    if found["first"] is not None:
        return partial(_sliced, *(int(found[name]) if found[name] else None for name in ("first", "last")))
    if found["indexes"]:
        return partial(_items, [int(one) for one in found["indexes"].split(",")])
    if found["names"]:
        return partial(_members, [one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", found["names"])])
    if found["deep"]:
        return (found["deep"],)
    if found["index"]:
        return int(found["index"])
    if found["any"] or found["name"] == "*":
        return None
    return found["name"] or (found["single"] if found["single"] is not None else found["double"])


def _finder(text: str) -> Callable[[Any], list[Any]]:
    """What finds the values at a path of a filter."""
    steps, _ = _parse_steps(text)
    return lambda value: _find(value, steps)


def _filtered(test: Callable[[Any], bool], value: Any) -> list[Any]:
    return [one for one in (value if isinstance(value, list) else [value] if isinstance(value, dict) else []) if test(one)]


def _sliced(first: int | None, last: int | None, value: Any) -> list[Any]:
    return value[first:last] if isinstance(value, list) else []


def _items(indexes: list[int], value: Any) -> list[Any]:
    return [one for index in indexes for one in _children(value, index)]


def _members(names: list[str], value: Any) -> list[Any]:
    return [{name: value[name] for name in names if name in value}] if isinstance(value, dict) else []


_OF_NUMBERS: dict[str, Callable[[list[Decimal]], Any]] = {
    "sum": sum, "min": min, "max": max, "avg": lambda numbers: sum(numbers) / len(numbers),
}  # fmt: skip
"""Functions of the numbers of an array; their results are fractions."""


def _function(name: str) -> Callable[[Any], list[Any]]:
    """A function at the end of a path. Raises PathError if there is none of this name."""
    if name in ("length", "size"):
        return lambda value: [len(value)] if isinstance(value, list | dict | str) else []
    if name == "keys":
        return lambda value: [list(value)] if isinstance(value, dict) else []
    compute = _OF_NUMBERS.get(name)
    if compute is None:
        raise PathError(f"JSON paths have no function {name}(); they have {', '.join(_OF_NUMBERS)}, length, size and keys")

    def run(value: Any) -> list[Any]:
        numbers = [one for one in value if isinstance(one, int | Decimal) and not isinstance(one, bool)]
        return [Decimal(str(float(compute([Decimal(one) for one in numbers]))))] if numbers else []

    return lambda value: run(value) if isinstance(value, list) else []


class NoValue:
    """What a path finds where the JSON has nothing: not the same as a JSON null."""


MISSING = NoValue()


def select(value: Any, path: JsonPath) -> Any:
    """The value at a path, the list of values of one that is not definite; MISSING without any. Raises PathError if strict."""
    found = _find(value, path.steps)
    if path.is_definite:
        if not found and path.is_strict:
            raise PathError("no value at the path")
        return found[0] if found else MISSING
    return found


def _find(value: Any, steps: tuple[Any, ...]) -> list[Any]:
    found = [value]
    for step in steps:
        found = [child for one in found for child in _children(one, step)]
    return found


def _children(value: Any, step: Any) -> list[Any]:
    if callable(step):
        return list(step(value))
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
