"""Script functions that convert values: texts, numbers, bytes and Base64."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.casts import cast
from etl.expressions.library.function import rsql_functions
from etl.expressions.library.rsql.arguments import as_whole, by_text, constant_text, text_of
from etl.expressions.widening import BOOLEAN, INT32, INT64, STRING


def _cast(value: BoundNode, type_: BoundNode) -> BoundNode:
    name = constant_text(type_, "the type").lower()
    targets = {
        **dict.fromkeys(("int", "integer"), INT32),
        **dict.fromkeys(("long", "bigint"), INT64),
        **dict.fromkeys(("double", "float", "number", "decimal"), pa.float64()),
        "boolean": BOOLEAN,
    }
    if name in ("string", "varchar"):
        return text_of(value)
    if name in ("date", "timestamp", "datetime"):
        from etl.expressions.library.rsql.times import to_date

        return to_date(value)
    if name not in targets:
        raise MisuseError(f"there is no type {name!r}", hint=f"one of: {', '.join((*targets, 'string', 'date'))}")
    node = as_whole(value) if targets[name] in (INT32, INT64) else value
    return cast(node, targets[name], safe=True)


def _to_base64(value: BoundNode) -> BoundNode:
    def run(data: bytes) -> str:
        import base64

        return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()

    from etl.expressions.library.kernels import by_value

    node = value if pa.types.is_binary(value.type) else text_of(value)
    return by_value(STRING, run, fails=False)(node)


def _from_base64(text: str) -> bytes | None:
    import base64
    import binascii

    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _bytes_text(value: BoundNode, charset: BoundNode) -> BoundNode:
    from etl.expressions.library.kernels import by_value

    if not pa.types.is_binary(value.type):
        return b.apply(STRING, lambda x: _no_texts(x), text_of(value))
    name = constant_text(charset, "the character set")
    try:
        "".encode(name)
    except LookupError as error:
        raise MisuseError(f"there is no character set {name!r}") from error
    return by_value(STRING, lambda data: data.decode(name, "replace"), fails=False)(value)


def _no_texts(values: Any) -> Any:
    return pa.scalar(None, STRING) if isinstance(values, pa.Scalar) else pa.nulls(len(values), STRING)


rsql_function = rsql_functions()

FUNCTIONS = (
    rsql_function("tostring", "value: any", "string", text_of, "The text of a value.", "tostring(2.5)", "2.5"),
    rsql_function(
        "cast",
        "value: any, type: string",
        "the type that is named",
        _cast,
        "A value as int, long, double, string, boolean or date.",
        "cast('7', 'int')",
        7,
        "null if the value is null or cannot be converted",
    ),
    rsql_function(
        "tobase64", "value: any", "string", _to_base64, "Base64 of bytes or of a text.", "tobase64('abc')", "YWJj", loops=True
    ),
    rsql_function(
        "frombase64",
        "text: any",
        "binary",
        by_text(pa.binary(), _from_base64),
        "The bytes of a Base64 text.",
        "byte2string(rsql_frombase64('YWJj'), 'utf-8')",
        "abc",
        "null if the argument is null or no Base64",
        loops=True,
    ),
    rsql_function(
        "byte2string",
        "value: any, charset: string",
        "string",
        _bytes_text,
        "The text of bytes in a character set.",
        "byte2string(rsql_frombase64('YWJj'), 'utf-8')",
        "abc",
        "null for null and for what are not bytes",
        loops=True,
    ),
)
