"""Nodes of an expression with their types, and calls of functions as nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from etl.sql.functions.script_dialect import is_rsql
from etl.sql.statements import ScriptError

FRACTIONS = frozenset(("double",))


WHOLE_NUMBERS = frozenset(("tinyint", "smallint", "int", "bigint"))


def sql_type(node: Any) -> str | None:
    """Spark's name of a translated node's type, None if it is not known here."""
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return sql_type(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return "string"
        return "double" if "e" in node.this.lower() else "decimal" if "." in node.this else _whole_type(int(node.this))
    known = node.meta.get("sql_type")
    return str(known) if known else None


def _whole_type(number: int) -> str:
    return "int" if number < 2**31 else "bigint"


def typed(node: Any, type_: str | None, precision: int | None = None) -> Any:
    """The node with its type noted; ``precision`` is the digits of a time's fraction."""
    if type_:
        node.meta["sql_type"] = type_
    if precision is not None:
        node.meta["precision"] = precision
    return node


def call(name: str, *arguments: Any) -> Any:
    """A call of a function; texts and numbers of Python become literals."""
    from sqlglot import exp

    given = [
        exp.Literal.string(one) if isinstance(one, str) else exp.Literal.number(one) if isinstance(one, int) else one
        for one in arguments
    ]
    return exp.Anonymous(this=name, expressions=given)


def unwrapped(node: Any) -> Any:
    """The node without brackets, for an argument."""
    from sqlglot import exp

    return node.this if isinstance(node, exp.Paren) else node


def type_name(type_: Any) -> str:
    """The name of a type as `flink_cast` takes it."""
    from sqlglot import exp

    text = str(type_.sql(dialect="spark")).lower().replace(" ", "") if isinstance(type_, exp.DataType) else str(type_)
    if "length" in type_.meta:
        return "{}({})".format(*type_.meta["length"]).lower()
    if type_.this == exp.DType.STRUCT:
        members = (f"{one.name}:{type_name(one.args['kind'])}" for one in type_.expressions)
        return f"struct<{','.join(members)}>"
    if type_.this == exp.DType.TIME:
        return "time"
    return text.replace("timestamp_ntz", "timestamp").replace("timestampltz", "timestamp_ltz")


def number_literal(value: int) -> Any:
    from sqlglot import exp

    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)


NUMBERS = frozenset(("tinyint", "smallint", "int", "bigint", "double", "float", "decimal"))


def with_floats(nodes: list[Any]) -> list[Any]:
    """Whole numbers beside FLOAT become FLOAT, as in Flink; in Spark both would be DOUBLE, and 0.1 0.10000000149."""
    from sqlglot import exp

    types = [sql_type(one) for one in nodes]
    is_null = [isinstance(unwrapped(one), exp.Null) for one in nodes]
    if "float" not in types or any(
        not null and one != "float" and one not in WHOLE_NUMBERS for one, null in zip(types, is_null, strict=True)
    ):
        return nodes
    return [
        typed(exp.Cast(this=unwrapped(one), to=exp.DataType.build("float")), "float") if type_ in WHOLE_NUMBERS else one
        for one, type_ in zip(nodes, types, strict=True)
    ]


def refuse_mixture(nodes: Iterable[Any], at: int) -> None:
    """Raise ScriptError for texts beside numbers, which only scripts of RocketMQ Streams mix."""
    types = {(sql_type(one) or "").partition("(")[0] for one in nodes}
    if "string" in types and types & NUMBERS and not is_rsql():
        raise ScriptError("wrong-type", "a text stands beside a number here", at, "CAST one of them: CAST(x AS STRING)")
