"""Messages and hints for calls that Spark refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.api import format_type
from etl.expressions.signatures.types import BITS, CONSTANT_INT, CONSTANT_TEXT, MAX_PROBED, Argument
from etl.expressions.widening import STRING


def count_message(name: str, shapes: Mapping[str, Any], count: int) -> str:
    counts = sorted(int(number) for number in shapes)
    if counts[-1] >= MAX_PROBED:
        accepted, last = f"{counts[0]} or more", 2
    else:
        accepted, last = " or ".join(str(number) for number in counts), counts[-1]
    return f"{name}() takes {accepted} argument{'' if last == 1 else 's'}, and here {'is' if count == 1 else 'are'} {count}"


COUNT_HINTS = {("exists", 1): "a field that is there: x is not null", ("isnull", 0): "isnull(x), or x is null"}


def refusal_message(name: str, at: int, type_: pa.DataType, accepted: int) -> str:
    found = _describe(type_)
    operator = _operator(name)
    if name.startswith(("cast ", "try_cast ")):
        return f"Spark does not cast {found} to {name.split(' ', 1)[1]}"
    description = _join_words(list(_describe_accepted(accepted)))
    if operator:
        return f"{operator} takes {description}, and here is {found}"
    return f"{name}() takes {description} as its {_ORDINALS[at]} argument, and this is {found}"


def pair_message(name: str, given: Sequence[Argument]) -> str:
    first, second = (_describe(one.type) for one in given)
    return f"{_operator(name) or f'{name}()'} does not take {first} together with {second}"


def _operator(name: str) -> str | None:
    if not name.startswith("operator "):
        return None
    operator = name.split(" ", 1)[1]
    return {"[]": "reading an element […]", "negative": "'-'"}.get(operator, f"{operator!r}")


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

_GROUPS = (
    ("text", "a text"),
    ("tinyint", "a whole number"),
    ("double", "a number"),
    ("boolean", "true or false"),
    ("timestamp", "a timestamp"),
    ("date", "a date"),
    ("binary", "binary"),
    ("array<", "an array"),
    ("map<", "a map"),
    ("struct<", "a struct"),
    ("interval", "an interval"),
)


_PLAIN = sum(BITS[code] for code in ("boolean", "int", "double", "string", "date", "timestamp"))


def _describe_accepted(mask: int) -> Iterator[str]:
    """Describe the types of a mask in words."""
    codes = [code for code, bit in BITS.items() if mask & bit]
    if not any(code not in (CONSTANT_TEXT, CONSTANT_INT) for code in codes):
        yield "a constant whole number" if CONSTANT_INT in codes else "a constant text"
        return
    groups: tuple[tuple[str, str], ...] = _GROUPS
    if mask & _PLAIN == _PLAIN:
        yield "a single value"
        groups = tuple(group for group in groups if group[0][-1] == "<")
    for prefix, words in groups:
        if prefix == "tinyint" and "double" in codes:
            continue
        if (prefix == "text" and "string" in codes) or any(code.startswith(prefix) for code in codes):
            yield words


def _join_words(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _describe(type_: pa.DataType) -> str:
    return "a text" if type_ == STRING else format_type(type_)


def misuse_hint(name: str, at: int, given: Sequence[Argument]) -> str | None:
    """What the user most likely meant, if that is clear."""
    if name == "operator +" and given[0].type == given[1].type == STRING:
        return "texts are joined by ||"
    if name in ("operator =", "operator <>", "operator in") and sum(pa.types.is_list(one.type) for one in given) == 1:
        return "a value of an array: array_contains(array, value)"
    if given[0].type == STRING:
        return _OF_TEXTS.get(name)
    if name == "array_contains" and at == 1 and pa.types.is_list(given[0].type):
        return f"the values of the array are {format_type(given[0].type.value_type)}"
    return None


_OF_TEXTS = {
    "array_contains": "of a text: contains(text, part)",
    "operator []": "a part of a text: substring(text, 1, 1), split(text, ' ')[0]",
    "element_at": "a part of a text: split_part(text, ' ', 1)",
    "size": "of a text: length(text)",
    "array_size": "of a text: length(text)",
    "cardinality": "of a text: length(text)",
    "array_position": "of a text: instr(text, part)",
    "array_distinct": "an array of a text: split(text, ',')",
    "array_join": "an array of a text: split(text, ',')",
    "filter": "an array of a text: split(text, ',')",
    "transform": "an array of a text: split(text, ',')",
    "exists": "a field that is there: x is not null",
    "map_keys": "a map of a text: str_to_map(text, ',', '='), or the parser key_value",
    "map_values": "a map of a text: str_to_map(text, ',', '='), or the parser key_value",
}
