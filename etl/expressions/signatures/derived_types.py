"""Result types that follow from the arguments' types by a rule of Spark's, where the table of signatures has none.

Source: the data types of the expressions in Spark's catalyst; compared with Spark by the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from etl.api import TIMESTAMP, format_type
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.widening import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    common_type,
    common_type_of,
    decimal_of,
    decimal_result,
    is_decimal,
    is_number,
)

Derive: TypeAlias = Callable[[Sequence[BoundNode]], pa.DataType | None]
"""The type of a call with these arguments; ``null`` if it is unknown, None where the table of signatures decides."""


def derive_type(name: str, args: Sequence[BoundNode]) -> pa.DataType | None:
    """The type of a call; ``null`` if it is unknown, None for a function without such a rule. Raises MisuseError for a call that
    Spark refuses."""
    if not args:
        return None
    if args[0].is_literal and args[0].value is None and name in _OF_NULL:
        return _OF_NULL[name]
    derive = _RULES.get(name)
    return derive(args) if derive else None


def _of_first(rule: Callable[[pa.DataType], pa.DataType]) -> Derive:
    """A rule about the first argument, if its type is known."""
    return lambda args: rule(args[0].type) if args[0].type != NULL else None


def _keys(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_.key_type) if pa.types.is_map(type_) else NULL


def _values(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_.item_type) if pa.types.is_map(type_) else NULL


def _item(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_map(type_):
        return type_.item_type
    return type_.value_type if pa.types.is_list(type_) else NULL


def _common_list(args: Sequence[BoundNode]) -> pa.DataType | None:
    """Of two arrays. Raises MisuseError for those whose values have no common type."""
    type_ = common_type(args[0].type, args[1].type)
    if type_ is None and not _are_unknown(args):
        shown = " together with ".join(format_type(arg.type) for arg in args)
        raise MisuseError(f"two arrays of values of one type are needed, and these are {shown}")
    return type_ if type_ is not None and pa.types.is_list(type_) and not _are_unknown(args) else NULL


def _list_and_item(item: int) -> Derive:
    """Of an array, and of a value that is argument number ``item``."""

    def derive(args: Sequence[BoundNode]) -> pa.DataType | None:
        if _are_unknown(args) or not pa.types.is_list(args[0].type):
            return NULL
        type_ = common_type(args[0].type.value_type, args[item].type)
        return NULL if type_ is None else pa.list_(type_)

    return derive


def _padded_type(args: Sequence[BoundNode]) -> pa.DataType | None:
    """Binary if what is padded and the padding are, else a text."""
    texts = {args[0].type, args[-1].type} if len(args) == 3 else {args[0].type}
    return NULL if _are_unknown(args) else pa.binary() if texts == {pa.binary()} else STRING


def _rounded_type(args: Sequence[BoundNode]) -> pa.DataType | None:
    """A decimal with fewer digits after the point."""
    type_, digits = args[0].type, args[1] if len(args) > 1 else None
    if not is_decimal(type_):
        return None
    decimals = 0 if digits is None else digits.value if digits.is_literal else None
    if not isinstance(decimals, int):
        return NULL
    whole = type_.precision - type_.scale + 1
    if decimals < 0:
        return pa.decimal128(min(38, max(whole, 1 - decimals)), 0)
    scale = min(type_.scale, decimals)
    return pa.decimal128(min(38, whole + scale), scale)


def _whole(args: Sequence[BoundNode]) -> pa.DataType | None:
    """A decimal without digits after the point."""
    type_ = args[0].type
    if not is_decimal(type_) or len(args) > 1:
        return _rounded_type(args)
    return type_ if type_.scale == 0 else pa.decimal128(min(38, type_.precision - type_.scale + 1), 0)


def _sequence(args: Sequence[BoundNode]) -> pa.DataType | None:
    """An array of the common type of its ends."""
    type_ = common_type_of(arg.type for arg in args[:2])
    return NULL if type_ is None or _are_unknown(args[:2]) else pa.list_(type_)


def _map(args: Sequence[BoundNode]) -> pa.DataType | None:
    """The common types of keys and of values."""
    key, value = (common_type_of(arg.type for arg in args[first::2]) for first in (0, 1))
    if key is None or value is None or NULL in (key, value) or _are_unknown(args):
        return NULL
    return pa.map_(key, value)


def _common_map(args: Sequence[BoundNode]) -> pa.DataType | None:
    """Of several maps."""
    type_ = common_type_of(arg.type for arg in args)
    return NULL if type_ is None or _are_unknown(args) else type_


def _map_of_entries(args: Sequence[BoundNode]) -> pa.DataType | None:
    """An array of structs of a key and a value."""
    entry = _item(args[0].type)
    return pa.map_(entry[0].type, entry[1].type) if pa.types.is_struct(entry) and entry.num_fields == 2 else NULL


def _map_of_lists(args: Sequence[BoundNode]) -> pa.DataType | None:
    """An array of keys, and one of values."""
    if not all(pa.types.is_list(arg.type) for arg in args):
        return NULL
    return pa.map_(args[0].type.value_type, args[1].type.value_type)


def _arithmetic(operator: str) -> Derive:
    """Numbers as the operator gives them."""

    def derive(args: Sequence[BoundNode]) -> pa.DataType | None:
        types = {arg.type for arg in args} - {NULL} or {DOUBLE}
        type_ = common_type_of(types)
        if type_ is None or _are_unknown(args) or not all(is_number(one) for one in types):
            return NULL
        if is_decimal(type_):
            return decimal_result(operator, *(_decimal(arg, type_) for arg in args))
        return DOUBLE if operator == "/" and type_ in INTEGERS else type_

    return derive


def _decimal(arg: BoundNode, of_null: pa.DataType) -> pa.DataType:
    """That of a literal has only the digits that it needs."""
    if arg.is_literal and arg.type in INTEGERS:
        return pa.decimal128(len(str(abs(arg.value))), 0)
    return of_null if arg.type == NULL else decimal_of(arg.type)


def _same_decimal(args: Sequence[BoundNode]) -> pa.DataType | None:
    return args[0].type if is_decimal(args[0].type) else None


def _texts(args: Sequence[BoundNode]) -> pa.DataType | None:
    """A text, unless some are binary or arrays."""
    known = [arg.type for arg in args if arg.type != NULL]
    plain = (STRING, BOOLEAN, DATE, TIMESTAMP, *INTEGERS, *FLOATS)
    return None if _are_unknown(args) or not all(type_ in plain or is_decimal(type_) for type_ in known) else STRING


def _common(args: Sequence[BoundNode]) -> pa.DataType | None:
    """An array of values of a common type."""
    type_ = common_type_of(arg.type for arg in args)
    return NULL if type_ in (None, NULL) or _are_unknown(args) else pa.list_(type_)


def _not_nan(args: Sequence[BoundNode]) -> pa.DataType | None:
    return FLOAT if {arg.type for arg in args} == {FLOAT} else NULL if _are_unknown(args) else DOUBLE


def _are_unknown(args: Sequence[BoundNode]) -> bool:
    """Whether the type of one is unknown. That of a null is known, and fits any other."""
    return any(arg.unknown for arg in args)


_OF_NULL: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("abs", "positive", "negative", "round", "bround"), DOUBLE),
    **dict.fromkeys(("floor", "ceil", "ceiling"), INT64),
    **dict.fromkeys(("reverse", "elt", "overlay"), STRING),
}
"""The types that functions of several types give for a null."""

_RULES: Mapping[str, Derive] = {
    "map_keys": _of_first(_keys),
    "map_values": _of_first(_values),
    "flatten": _of_first(_item),
    **dict.fromkeys(("element_at", "try_element_at", "get", "array_min", "array_max"), _of_first(_item)),
    **dict.fromkeys(("array_union", "array_except", "array_intersect"), _common_list),
    **dict.fromkeys(("array_append", "array_prepend", "array_remove"), _list_and_item(1)),
    "array_insert": _list_and_item(2),
    **dict.fromkeys(("lpad", "rpad"), _padded_type),
    **dict.fromkeys(("round", "bround"), _rounded_type),
    **dict.fromkeys(("abs", "positive", "negative"), _same_decimal),
    "concat": _texts,
    "elt": lambda args: _texts(args[1:]),
    "array": _common,
    "nanvl": _not_nan,
    **dict.fromkeys(("floor", "ceil", "ceiling"), _whole),
    "sequence": _sequence,
    "map": _map,
    "map_concat": _common_map,
    "map_from_arrays": _map_of_lists,
    "map_from_entries": _map_of_entries,
    **{name: _arithmetic(operator) for name, operator in (("try_divide", "/"), ("try_add", "+"), ("try_subtract", "-"))},
    **{name: _arithmetic(operator) for name, operator in (("try_multiply", "*"), ("try_mod", "%"), ("pmod", "%"), ("mod", "%"))},
}
