"""What scripts of Painless do on values in Python, with the meaning that they have in Java.

The functions that an import writes into a pipeline call this module. A value of the wrong kind raises an error, as in Java.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from etl.migration.ingest.painless.python_methods import ANY, METHODS, Builder, Tokenizer, raise_error, text
from etl.migration.ingest.painless.python_methods import STATICS as STATICS  # the functions of imports call them
from etl.migration.ingest.painless.python_times import CONSTANTS as CONSTANTS
from etl.migration.ingest.painless.python_times import from_milliseconds

MAX_ROUNDS = 1_000_000
"""Rounds of one loop with a condition: the limit that Painless has."""


def nested(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as objects: ``{"a.b": 1}`` is ``{"a": {"b": 1}}``; members that are null are missing."""
    found: dict[str, Any] = {}
    for name, value in event.items():
        if value is not None:
            put(found, tuple(name.split(".")), list(value) if isinstance(value, list) else value)
    return found


def flat(context: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """The fields of an event in their types; null where a value does not fit."""
    return {name: _typed(get(context, *name.split(".")), type_) for name, type_ in types.items()}


def _typed(value: Any, type_: str) -> Any:
    if value is None or isinstance(value, dict):
        return None
    if type_.startswith("array<"):
        items = list(value) if isinstance(value, (list, set, tuple)) else [value]
        return [_typed(one, type_[6:-1]) for one in items]
    if isinstance(value, (list, set, tuple)):
        value = ", ".join(text(one) for one in value)
    try:
        match type_:
            case "string":
                return text(value)
            case "boolean":
                return value if isinstance(value, bool) else text(value).lower() == "true"
            case "timestamp":
                return value if isinstance(value, datetime) else None
            case "int" | "bigint":
                return int(value)
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def get(target: Any, *path: Any) -> Any:
    """A member of an object, an item of a list, or the length of either; null where an object before it is missing."""
    for name in path:
        if target is None:
            return None
        if isinstance(target, Mapping):
            target = target.get(name)
        elif isinstance(name, int):
            target = target[name] if name >= 0 else raise_error(IndexError(name))
        elif name == "length":
            target = len(target)
        else:
            raise TypeError(f"{type(target).__name__} has no member {name}")
    return target


def put(target: Any, path: tuple[Any, ...], value: Any) -> None:
    """Set a member; objects before it are made where they are missing."""
    for name in path[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict):
            inner = target[name] = {}
        target = inner
    target[path[-1]] = value


def plus(one: Any, other: Any) -> Any:
    """A sum, or texts joined."""
    if isinstance(one, str) or isinstance(other, str):
        return text(one) + text(other)
    return one + other


def divide(one: Any, other: Any) -> Any:
    """A quotient; of whole numbers a whole number, toward zero."""
    return math.trunc(one / other) if isinstance(one, int) and isinstance(other, int) else one / other


def remainder(one: Any, other: Any) -> Any:
    """What a division leaves, with the sign of the dividend."""
    return int(math.fmod(one, other)) if isinstance(one, int) and isinstance(other, int) else math.fmod(one, other)


def matches(value: Any, pattern: str, whole: bool) -> bool:
    """Whether a text holds, or is, a match of a regular expression."""
    return bool(re.fullmatch(pattern, value) if whole else re.search(pattern, value))


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "String": lambda x: isinstance(x, str),
    "Map": lambda x: isinstance(x, dict),
    "List": lambda x: isinstance(x, list),
    "Collection": lambda x: isinstance(x, (list, set)),
    "Boolean": lambda x: isinstance(x, bool),
    "Integer": lambda x: isinstance(x, int) and not isinstance(x, bool),
    "Double": lambda x: isinstance(x, float),
    "Number": lambda x: isinstance(x, (int, float)) and not isinstance(x, bool),
}
_SAME_KINDS = {
    **dict.fromkeys(("Long", "Short", "int", "long"), "Integer"),
    **dict.fromkeys(("Float", "double", "float"), "Double"),
    "ArrayList": "List",
    "HashMap": "Map",
    "boolean": "Boolean",
}


KINDS = frozenset({*_KINDS, *_SAME_KINDS})
"""Types that ``instanceof`` knows."""


def is_kind(value: Any, type_: str) -> bool:
    """``instanceof``."""
    return _KINDS[_SAME_KINDS.get(type_, type_)](value)


def items(value: Any) -> Iterable[Any]:
    """What a loop goes over."""
    if value is None or isinstance(value, (str, dict)):
        raise TypeError("a loop over something that is not a list")
    return list(value)


def rounds() -> Iterator[int]:
    """The rounds of a loop with a condition. Raises RuntimeError after ``MAX_ROUNDS``, as Painless ends such a script."""
    yield from range(MAX_ROUNDS)
    raise RuntimeError(f"a loop of more than {MAX_ROUNDS:,} rounds")


def create(type_: str, *arguments: Any) -> Any:
    """A new object."""
    match type_:
        case "Date":
            return from_milliseconds(*arguments)
        case "StringTokenizer":
            return Tokenizer(*arguments)
        case "StringBuilder" | "StringBuffer":
            return Builder(*arguments)
        case "HashSet" | "LinkedHashSet" | "TreeSet":
            return list(dict.fromkeys(items(arguments[0]))) if arguments else []
        case "ArrayList" | "LinkedList":
            return list(items(arguments[0])) if arguments and not isinstance(arguments[0], int) else []
        case "HashMap" | "TreeMap" | "LinkedHashMap":
            return dict(arguments[0]) if arguments and isinstance(arguments[0], dict) else {}
        case "String":
            return "".join(items(arguments[0])) if arguments and isinstance(arguments[0], list) else "".join(arguments)
    raise TypeError(f"new {type_}")


CREATED = frozenset(
    [
        *("StringTokenizer", "StringBuilder", "StringBuffer", "HashSet", "LinkedHashSet", "TreeSet", "ArrayList", "LinkedList"),
        *("HashMap", "TreeMap", "LinkedHashMap", "String", "Date"),
    ]
)


def call(target: Any, name: str, *arguments: Any) -> Any:
    """A method of a value."""
    if target is None:
        raise TypeError(f"null has no method {name}")
    for kind, methods in METHODS:
        if isinstance(target, kind) and name in methods:
            return methods[name](target, *arguments)
    if name in ANY:
        return ANY[name](target, *arguments)
    raise TypeError(f"{type(target).__name__} has no method {name}")
