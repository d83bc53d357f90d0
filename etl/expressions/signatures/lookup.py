"""The argument and result types of Spark's functions and operators, from `signatures.json`, which is read at first use.

Types are distinguished as far as `types.CODES` distinguish them. For other types, for constants other than texts and
whole numbers, and for calls that were not probed, nothing is refusal_message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import TIMESTAMP, format_type, parse_type
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.signatures.derived_types import derive_type
from etl.expressions.signatures.messages import COUNT_HINTS, count_message, misuse_hint, pair_message, refusal_message
from etl.expressions.signatures.types import BITS, CODES, COMBINED_IN_PAIRS, CONSTANT_INT, CONSTANT_TEXT, MAX_PROBED, Argument
from etl.expressions.widening import BOOLEAN, DATE, INT32, NULL, STRING

_FILE = Path(__file__).with_name("signatures.json")
_ANY = (1 << len(CODES)) - 1
_SINGLE = sum(bit for code, bit in BITS.items() if "<" not in code)
"""Types of single values, to which a constant may be cast."""
_NOT_CAST = (BOOLEAN, DATE, TIMESTAMP)
"""Types of constants that Spark casts no more than fields."""
_CONSTANT_FORMATS = {"to_number": 1, "try_to_number": 1}
"""Functions with a format that is a constant, which no text of the probe is → the position of that argument."""
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


def result_type(name: str, args: Sequence[BoundNode]) -> pa.DataType:
    """The type of a call, ``null`` if it is unknown. Raises MisuseError for a call that Spark refuses."""
    shapes = _table()["signatures"].get(name)
    if not shapes or (len(args) > MAX_PROBED and str(MAX_PROBED) in shapes):
        return NULL
    shape = shapes.get(str(len(args)))
    if shape is None:
        raise MisuseError(count_message(name, shapes, len(args)), hint=COUNT_HINTS.get((name, len(args))))
    at = _CONSTANT_FORMATS.get(name)
    if at is not None and not (args[at].is_literal or args[at].constant):
        raise MisuseError(refusal_message(name, at, args[at].type, BITS[CONSTANT_TEXT]))
    type_ = _result(name, shape, [_to_argument(arg) for arg in args]) if shape else NULL
    derived = derive_type(name, args)
    return type_ if derived is None else derived


def operator_type(name: str, *args: BoundNode) -> pa.DataType:
    """The type of an operator or cast, which treats constants as it treats fields. Raises MisuseError likewise."""
    shape = _table()["signatures"].get(name, {}).get(str(len(args)))
    given = [_to_argument(arg) for arg in args]
    return (
        _result(name, shape, [one if one.type in (STRING, NULL) else one._replace(constant=False) for one in given])
        if shape
        else NULL
    )


def _to_argument(arg: BoundNode) -> Argument:
    if arg.is_literal and arg.type in (STRING, INT32):
        return Argument(arg.type, CONSTANT_TEXT if arg.type == STRING else CONSTANT_INT)
    return Argument(arg.type, None, arg.constant)


def _result(name: str, shape: Mapping[str, Any], given: Sequence[Argument]) -> pa.DataType:
    masks = [_mask(one) for one in given]
    if any(one.constant and one.type == NULL for one in given):  # Spark accepts null even if it accepts no other constant
        return _result_type(shape.get("gives"), [one.type for one in given])
    for at, (mask, accepted) in enumerate(zip(masks, shape["at"], strict=True)):
        if not mask & int(accepted, 16):
            raise MisuseError(refusal_message(name, at, given[at].type, int(accepted, 16)), hint=misuse_hint(name, at, given))
    if "pairs" in shape and not _pair_fits(shape["pairs"], masks, alike=name in _OF_EQUAL_KINDS):
        raise MisuseError(pair_message(name, given), hint=misuse_hint(name, 1, given))
    return _result_type(shape.get("gives"), [one.type for one in given])


@lru_cache(maxsize=512)
def _mask(given: Argument) -> int:
    """The type codes of an argument, as bits."""
    if given.code:
        return BITS[given.code]
    if given.type == NULL:
        return _ANY
    if given.constant and not pa.types.is_nested(given.type) and given.type not in _NOT_CAST:
        return _SINGLE
    exact = BITS.get(format_type(given.type))
    if exact:
        return exact
    kind = next((prefix for test, prefix in _KINDS if test(given.type)), None)
    return sum(bit for code, bit in BITS.items() if code.startswith(kind)) if kind else _ANY


_KINDS = (
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_list, "array<"),
    (pa.types.is_map, "map<"),
    (pa.types.is_struct, "struct<"),
)


_OF_EQUAL_KINDS = frozenset(f"operator {sign}" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>", "||", "in", "+", "-", "*"))
"""Operators that do not accept an array, map or struct together with another kind of type."""


def _pair_fits(pairs: Mapping[str, str], masks: Sequence[int], *, alike: bool) -> bool:
    first, second = (_paired_code(mask) for mask in masks)
    if first and second:
        return bool(int(pairs[first], 16) & BITS[second])
    kinds = {_nesting_of(mask) for mask in masks}
    return not alike or None in kinds or len(kinds) == 1


@lru_cache(maxsize=512)
def _nesting_of(mask: int) -> str | None:
    """``array<``, ``map<``, ``struct<``, or empty for a plain type; None if the mask has several kinds."""
    kinds = {code[: code.find("<") + 1] for code, bit in BITS.items() if mask & bit}
    return kinds.pop() if len(kinds) == 1 else None


@lru_cache(maxsize=512)
def _paired_code(mask: int) -> str | None:
    """The code that was probed in pairs, if the mask is that of one."""
    code = next((code for code, bit in BITS.items() if bit == mask), None)
    if code is None and mask == BITS["decimal(10,2)"] | BITS["decimal(5,0)"]:
        code = "decimal(10,2)"
    code = _STANDS_FOR.get(code, code) if code else None
    return code if code in COMBINED_IN_PAIRS else None


def _result_type(rule: Any, types: Sequence[pa.DataType]) -> pa.DataType:
    if isinstance(rule, dict):
        return _parse_name(rule["types"].get(format_type(types[rule["by"]]), ""))
    if not rule:
        return NULL
    kind, _, number = rule.rpartition(" ") if " " in rule else (rule[:1], "", rule[1:])
    if not number.isdigit():
        return _parse_name(rule)
    type_ = types[int(number)]
    if type_ == NULL or (kind == "element" and not pa.types.is_list(type_)):
        return NULL
    return {"=": lambda: type_, "element": lambda: type_.value_type, "array": lambda: pa.list_(type_)}[kind]()


@lru_cache(maxsize=512)
def _parse_name(name: str) -> pa.DataType:
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
        return bool(_mask(_to_argument(source)) in (_ANY, _SINGLE))
    name = "decimal(10,2)" if pa.types.is_decimal(target) else format_type(target)
    try:
        operator_type(f"{'try_cast' if safe else 'cast'} {name}", source)
    except MisuseError:
        return False
    return True
