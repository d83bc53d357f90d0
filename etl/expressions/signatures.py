"""The argument and result types of Spark's functions and operators, from `signatures.json`, which is read at first use.

Types are distinguished as far as `signature_types.CODES` distinguish them. For other types, for constants other than texts and
whole numbers, and for calls that were not probed, nothing is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from etl.api import format_type, parse_type
from etl.expressions.arguments import MisuseError
from etl.expressions.bound_node import BoundNode
from etl.expressions.signature_types import CODES, CONSTANT_INT, CONSTANT_TEXT, PAIRED
from etl.expressions.widening import INT32, NULL, STRING

_FILE = Path(__file__).with_name("signatures.json")
_ANY = (1 << len(CODES)) - 1
_BIT = {code: 1 << at for at, code in enumerate(CODES)}
_SINGLE = sum(bit for code, bit in _BIT.items() if "<" not in code)
"""Types of single values, to which a constant may be cast."""
_MOST_ASKED = 8
_STANDS_FOR = {"smallint": "tinyint", "decimal(5,0)": "decimal(10,2)"}
"""Types that were not probed in pairs → types that behave alike."""


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return found


@cache
def many_rows() -> frozenset[str]:
    """Functions of several rows, or with several rows or a table as their result: they have no meaning for one event."""
    return frozenset(_table()["many_rows"]) | {"window", "session_window"}


class _Given(NamedTuple):
    """An argument: its type, and the kind of constant it is."""

    type: pa.DataType
    code: str | None = None
    """`CONSTANT_TEXT` or `CONSTANT_INT` for a literal of that type."""
    constant: bool = False


def result_type(name: str, args: Sequence[BoundNode]) -> pa.DataType:
    """The type of a call, ``null`` if it is unknown. Raises MisuseError for a call that Spark refuses."""
    shapes = _table()["signatures"].get(name)
    if not shapes or (len(args) > _MOST_ASKED and str(_MOST_ASKED) in shapes):
        return NULL
    shape = shapes.get(str(len(args)))
    if shape is None:
        raise MisuseError(_miscounted(name, shapes, len(args)), hint=_COUNT_HINTS.get((name, len(args))))
    type_ = _result(name, shape, [_given(arg) for arg in args]) if shape else NULL
    derive = _DERIVED.get(name)
    return derive(args[0].type) if derive and args[0].type != NULL else type_


_DERIVED: Mapping[str, Callable[[pa.DataType], pa.DataType]] = {
    "map_keys": lambda type_: pa.list_(type_.key_type) if pa.types.is_map(type_) else NULL,
    "map_values": lambda type_: pa.list_(type_.item_type) if pa.types.is_map(type_) else NULL,
    "flatten": lambda type_: type_.value_type if pa.types.is_list(type_) else NULL,
    **dict.fromkeys(
        ("element_at", "try_element_at", "get", "array_min", "array_max"),
        lambda type_: type_.value_type if pa.types.is_list(type_) else type_.item_type if pa.types.is_map(type_) else NULL,
    ),
}
"""Results that follow from the parts of the first argument's type."""


def operator_type(name: str, *args: BoundNode) -> pa.DataType:
    """The type of an operator or cast, which treats constants as it treats fields. Raises MisuseError likewise."""
    shape = _table()["signatures"].get(name, {}).get(str(len(args)))
    given = [_given(arg) for arg in args]
    return (
        _result(name, shape, [one if one.type in (STRING, NULL) else one._replace(constant=False) for one in given])
        if shape
        else NULL
    )


def _given(arg: BoundNode) -> _Given:
    if arg.is_literal and arg.type in (STRING, INT32):
        return _Given(arg.type, CONSTANT_TEXT if arg.type == STRING else CONSTANT_INT)
    return _Given(arg.type, None, arg.constant)


def _result(name: str, shape: Mapping[str, Any], given: Sequence[_Given]) -> pa.DataType:
    masks = [_mask(one) for one in given]
    if any(one.constant and one.type == NULL for one in given):  # Spark accepts null even if it accepts no other constant
        return _gives(shape.get("gives"), [one.type for one in given])
    for at, (mask, accepted) in enumerate(zip(masks, shape["at"], strict=True)):
        if not mask & int(accepted, 16):
            raise MisuseError(_refused(name, at, given[at].type, int(accepted, 16)), hint=_hint(name, at, given))
    if "pairs" in shape and not _pair_fits(shape["pairs"], masks, alike=name in _OF_EQUAL_KINDS):
        raise MisuseError(_refused_pair(name, given), hint=_hint(name, 1, given))
    return _gives(shape.get("gives"), [one.type for one in given])


@lru_cache(maxsize=512)
def _mask(given: _Given) -> int:
    """The type codes of an argument, as bits."""
    if given.code:
        return _BIT[given.code]
    if given.type == NULL:
        return _ANY
    if given.constant and not pa.types.is_nested(given.type):
        return _SINGLE
    exact = _BIT.get(format_type(given.type))
    if exact:
        return exact
    kind = next((prefix for test, prefix in _KINDS if test(given.type)), None)
    return sum(bit for code, bit in _BIT.items() if code.startswith(kind)) if kind else _ANY


_KINDS = (
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_list, "array<"),
    (pa.types.is_map, "map<"),
    (pa.types.is_struct, "struct<"),
)


_OF_EQUAL_KINDS = frozenset(f"operator {sign}" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>", "||", "in", "+", "-", "*"))
"""Operators that do not accept an array, map or struct together with another kind of type."""


def _pair_fits(pairs: Mapping[str, str], masks: Sequence[int], *, alike: bool) -> bool:
    first, second = (_paired(mask) for mask in masks)
    if first and second:
        return bool(int(pairs[first], 16) & _BIT[second])
    kinds = {_nested(mask) for mask in masks}
    return not alike or None in kinds or len(kinds) == 1


@lru_cache(maxsize=512)
def _nested(mask: int) -> str | None:
    """``array<``, ``map<``, ``struct<``, or empty for a plain type; None if the mask has several kinds."""
    kinds = {code[: code.find("<") + 1] for code, bit in _BIT.items() if mask & bit}
    return kinds.pop() if len(kinds) == 1 else None


@lru_cache(maxsize=512)
def _paired(mask: int) -> str | None:
    """The code that was probed in pairs, if the mask is that of one."""
    code = next((code for code, bit in _BIT.items() if bit == mask), None)
    if code is None and mask == _BIT["decimal(10,2)"] | _BIT["decimal(5,0)"]:
        code = "decimal(10,2)"
    code = _STANDS_FOR.get(code, code) if code else None
    return code if code in PAIRED else None


def _gives(rule: Any, types: Sequence[pa.DataType]) -> pa.DataType:
    if isinstance(rule, dict):
        return _named(rule["types"].get(format_type(types[rule["by"]]), ""))
    if not rule:
        return NULL
    kind, _, number = rule.rpartition(" ") if " " in rule else (rule[:1], "", rule[1:])
    if not number.isdigit():
        return _named(rule)
    type_ = types[int(number)]
    if type_ == NULL or (kind == "element" and not pa.types.is_list(type_)):
        return NULL
    return {"=": lambda: type_, "element": lambda: type_.value_type, "array": lambda: pa.list_(type_)}[kind]()


@lru_cache(maxsize=512)
def _named(name: str) -> pa.DataType:
    """A type by its name; ``null`` for types that Arrow lacks, and for structs, whose members have the probe's names."""
    try:
        return NULL if "struct<" in name or "void" in name else parse_type(name)
    except ValueError:
        return NULL


def castable(source: BoundNode, target: pa.DataType, *, safe: bool) -> bool:
    """Whether Spark casts to a type; nested types are compared member by member. Unknown types are castable."""
    if NULL in (source.type, target):
        return True
    pair = (source.type, target)
    if all(map(pa.types.is_list, pair)):
        return castable(BoundNode(source.type.value_type), target.value_type, safe=safe)
    if all(map(pa.types.is_map, pair)):
        key = castable(BoundNode(source.type.key_type), target.key_type, safe=safe)
        return key and castable(BoundNode(source.type.item_type), target.item_type, safe=safe)
    if all(map(pa.types.is_struct, pair)):
        members = zip(source.type, target, strict=False)
        same = source.type.num_fields == target.num_fields
        return same and all(castable(BoundNode(one.type), other.type, safe=safe) for one, other in members)
    if pa.types.is_nested(target):
        return bool(_mask(_given(source)) in (_ANY, _SINGLE))
    name = "decimal(10,2)" if pa.types.is_decimal(target) else format_type(target)
    try:
        operator_type(f"{'try_cast' if safe else 'cast'} {name}", source)
    except MisuseError:
        return False
    return True


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────


def _miscounted(name: str, shapes: Mapping[str, Any], count: int) -> str:
    counts = sorted(int(number) for number in shapes)
    if counts[-1] >= _MOST_ASKED:
        accepted, last = f"{counts[0]} or more", 2
    else:
        accepted, last = " or ".join(str(number) for number in counts), counts[-1]
    return f"{name}() takes {accepted} argument{'' if last == 1 else 's'}, and here {'is' if count == 1 else 'are'} {count}"


_COUNT_HINTS = {("exists", 1): "a field that is there: x is not null", ("isnull", 0): "isnull(x), or x is null"}


def _refused(name: str, at: int, type_: pa.DataType, accepted: int) -> str:
    found = _shown(type_)
    operator = _operator(name)
    if name.startswith(("cast ", "try_cast ")):
        return f"Spark does not cast {found} to {name.split(' ', 1)[1]}"
    wanted = _listed(list(_accepted(accepted)))
    if operator:
        return f"{operator} takes {wanted}, and here is {found}"
    return f"{name}() takes {wanted} as its {_ORDINALS[at]} argument, and this is {found}"


def _refused_pair(name: str, given: Sequence[_Given]) -> str:
    first, second = (_shown(one.type) for one in given)
    return f"{_operator(name) or f'{name}()'} does not take {first} together with {second}"


def _operator(name: str) -> str | None:
    if not name.startswith("operator "):
        return None
    sign = name.split(" ", 1)[1]
    return {"[]": "reading an element […]", "negative": "'-'"}.get(sign, f"{sign!r}")


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


_PLAIN = sum(_BIT[code] for code in ("boolean", "int", "double", "string", "date", "timestamp"))


def _accepted(mask: int) -> Iterator[str]:
    """Describe the types of a mask in words."""
    codes = [code for code, bit in _BIT.items() if mask & bit]
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


def _listed(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _shown(type_: pa.DataType) -> str:
    return "a text" if type_ == STRING else format_type(type_)


def _hint(name: str, at: int, given: Sequence[_Given]) -> str | None:
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
