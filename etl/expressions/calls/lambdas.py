"""Higher-order functions, whose arguments are lambdas: ``transform(tags, x -> upper(x))``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from etl.api import format_type
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.widening import BOOLEAN, INT32, NULL, STRING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from etl.expressions.binder import Binder

Types = list[pa.DataType]


class _Function(NamedTuple):
    """The types of the lambda's variables, by the arguments before it; the type of the call, by these and the lambda's type."""

    variables: Callable[[Types], Types]
    result: Callable[[Types, pa.DataType], pa.DataType]
    condition: bool = False
    """Whether the lambda must be boolean."""


def _item(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_list(type_) else NULL


def _key(type_: pa.DataType) -> pa.DataType:
    return type_.key_type if pa.types.is_map(type_) else NULL


def _value(type_: pa.DataType) -> pa.DataType:
    return type_.item_type if pa.types.is_map(type_) else NULL


def _list(type_: pa.DataType) -> pa.DataType:
    return NULL if type_ == NULL else pa.list_(type_)


def _map(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return NULL if NULL in (key, value) else pa.map_(key, value)


_FUNCTIONS = {
    "transform": _Function(lambda args: [_item(args[0]), INT32], lambda args, body: _list(body)),
    "filter": _Function(lambda args: [_item(args[0]), INT32], lambda args, body: args[0], condition=True),
    "exists": _Function(lambda args: [_item(args[0])], lambda args, body: BOOLEAN, condition=True),
    "forall": _Function(lambda args: [_item(args[0])], lambda args, body: BOOLEAN, condition=True),
    "aggregate": _Function(lambda args: [NULL, _item(args[0])], lambda args, body: NULL),
    "reduce": _Function(lambda args: [NULL, _item(args[0])], lambda args, body: NULL),
    "zip_with": _Function(lambda args: [_item(args[0]), _item(args[1])], lambda args, body: _list(body)),
    "array_sort": _Function(lambda args: [_item(args[0]), _item(args[0])], lambda args, body: args[0]),
    "map_filter": _Function(lambda args: [_key(args[0]), _value(args[0])], lambda args, body: args[0], condition=True),
    "transform_keys": _Function(lambda args: [_key(args[0]), _value(args[0])], lambda args, body: _map(body, _value(args[0]))),
    "transform_values": _Function(lambda args: [_key(args[0]), _value(args[0])], lambda args, body: _map(_key(args[0]), body)),
    "map_zip_with": _Function(
        lambda args: [_key(args[0]), _value(args[0]), _value(args[1])], lambda args, body: _map(_key(args[0]), body)
    ),
}


def call(binder: Binder, name: str, node: Node) -> BoundNode:
    """Bind a call with lambdas among its arguments."""
    args = [part for part in node.expressions if type(part).__name__ != "Lambda"]
    lambdas = [part for part in node.expressions if type(part).__name__ == "Lambda"]
    types = [binder.bind(part).type for part in args]
    function = _FUNCTIONS.get(name)
    if function is None:
        for part in lambdas:
            binder.bind_body(part, [])
        return b.spark_only(f"{name}() with a lambda has no Arrow form")
    try:
        variables = function.variables(types)
    except IndexError:
        raise MisuseError(f"{name}() takes more arguments before its lambda") from None
    _check_first(name, types[0])
    bodies = [binder.bind_body(part, variables) for part in lambdas]
    if function.condition and bodies[0].type not in (BOOLEAN, STRING, NULL):
        raise MisuseError(f"the lambda of {name}() has to be true or false, and this is {format_type(bodies[0].type)}")
    return b.spark_only(f"{name}() has no Arrow form", function.result(types, bodies[0].type))


def _check_first(name: str, type_: pa.DataType) -> None:
    accepted, fits = ("a map", pa.types.is_map) if name in _OF_MAPS else ("an array", pa.types.is_list)
    if type_ != NULL and not fits(type_):
        found = "a text" if type_ == STRING else format_type(type_)
        hint = "an array of a text: split(text, ',')" if type_ == STRING and accepted == "an array" else None
        raise MisuseError(f"{name}() takes {accepted} as its first argument, and this is {found}", hint=hint)


_OF_MAPS: Sequence[str] = ("map_filter", "transform_keys", "transform_values", "map_zip_with")
