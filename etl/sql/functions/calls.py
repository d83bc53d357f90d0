"""Calls of functions by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.expressions.hints import function_hint
from etl.expressions.library.catalogue import (
    find,
    functions,
    names_in_scripts,
    script_function,
    script_names,
    unsupported_functions,
)
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.rsql.script_names import library_name
from etl.sql.functions.intervals import time_distance
from etl.sql.functions.own_functions import is_foreign, own_function, refuse_foreign
from etl.sql.functions.special_forms import rewrite_current_time, rewrite_row, substring_call
from etl.sql.functions.typed_nodes import call, refuse_mixture, sql_type, typed, with_floats
from etl.sql.statements import ScriptError, start


def rewrite_function(node: Any, written: Any) -> Any:
    name = str(node.this).lower()
    if own_function(name) is not None:
        return node
    if name in ("current_watermark", "source_watermark"):
        why = f"because {unsupported_functions()[name]}"
        raise ScriptError("unknown-function", f"Flink has {name.upper()}, we do not", start(written), why)
    rewrite = _CALLS.get(name)
    if rewrite:
        return rewrite(node, written)
    if name in ("concat", "upper", "lower"):
        refuse_mixture([*node.expressions, _text("")], start(written))
    if (found := _function_name(name, len(node.expressions))) != name:
        node.set("this", found)
    elif name not in SPARK_FUNCTIONS and find(name) is None:
        refuse_foreign(str(node.this), start(written))
    type_ = _RESULTS.get(str(node.this).lower())
    return typed(node, type_, 3 if type_ == "timestamp" else None)


def has_function(name: str) -> bool:
    """Whether a script may call a function of this name that it does not declare."""
    name = name.lower()
    return name in _CALLS or name in SPARK_FUNCTIONS or find(name) is not None or _function_name(name, 1) != name


_WINDOWS = frozenset({"tumble", "hop", "session", "cumulate"})
"""Windows in GROUP BY, which are written as calls."""


def unknown_function(node: Any, at: int | None = None) -> ScriptError | None:
    """The error of a call, around this character of the script if one is given, whose function does not exist."""
    from sqlglot import exp

    for found in node.find_all(exp.Anonymous):
        name = str(found.name).lower()
        is_known = own_function(name) is not None or has_function(name) or is_foreign(name) or name in _WINDOWS
        if not is_known and (at is None or any(part.meta.get("start") == at for part in found.walk())):
            names = SPARK_FUNCTIONS | set(functions("own"))
            hint = function_hint(name, names, script_names(name), names_in_scripts())
            return ScriptError("unknown-function", f"there is no function {name!r}", start(found), hint)
    return None


def _function_name(name: str, count: int) -> str:
    """The function of expressions for a name in a script; RocketMQ Streams has several names for one function."""
    found = script_function(name)
    if found != name or found in SPARK_FUNCTIONS:
        return found
    return library_name(found, count) or found


def _unit_call(name: str) -> Callable[[Any, Any], Any]:
    """``TIMESTAMPADD(DAY, 1, x)``: the unit is a word."""

    def rewrite(node: Any, written: Any) -> Any:
        if len(node.expressions) != 3:
            raise ScriptError("wrong-arguments", f"{name.upper()} takes 3 arguments, not {len(node.expressions)}", start(written))
        unit = written.expressions[0].name.lower()
        third = node.expressions[2]
        made = call(f"flink_{name}", unit, *node.expressions[1:])
        return typed(made, sql_type(third) if name == "timestampadd" else "int", third.meta.get("precision"))

    return rewrite


def _time_part(unit: str) -> Callable[[Any, Any], Any]:
    return lambda node, written: typed(call("flink_extract", unit, *node.expressions), "bigint")


def _date_format(node: Any, written: Any) -> Any:
    """Also rsqldb's ``DATE_FORMAT(text, pattern, pattern of the result)``."""
    if not node.expressions:
        return call("flink_date_format")
    time, *patterns = node.expressions
    if len(patterns) == 2:
        time = call("flink_to_timestamp", time, patterns[0])
    return typed(call("flink_date_format", time, *patterns[-1:]), "string")


def _typeof(node: Any, written: Any) -> Any:
    if not node.expressions:
        return node
    value = node.expressions[0]
    precision = value.meta.get("precision")
    return typed(call("flink_typeof", value, *(() if precision is None else (precision,))), "string")


def _coalesce(node: Any, written: Any) -> Any:
    """``COALESCE(a, b)`` and ``IFNULL(a, b)``."""
    refuse_mixture(node.expressions, start(written))
    node.set("expressions", with_floats(node.expressions))
    types = {sql_type(one) for one in node.expressions}
    return typed(node, types.pop()) if len(types) == 1 else node


def _text(text: str) -> Any:
    from sqlglot import exp

    return exp.Literal.string(text)


def _unix_timestamp(node: Any, written: Any) -> Any:
    return typed(call("flink_unix_timestamp" if node.expressions else "flink_unix_time", *node.expressions), "bigint")


_CALLS: Mapping[str, Callable[[Any, Any], Any]] = {
    "timestampadd": _unit_call("timestampadd"),
    "timestampdiff": _unit_call("timestampdiff"),
    "substr": lambda node, written: substring_call(*node.expressions),
    "row": rewrite_row,
    "date_format": _date_format,
    "first_value": lambda node, written: call("first", *node.expressions),
    "last_value": lambda node, written: call("last", *node.expressions),
    "unix_timestamp": _unix_timestamp,
    "typeof": _typeof,
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "current_database": lambda node, written: typed(_text("default_database"), "string"),
    "time_distance": lambda node, written: time_distance(node, node.expressions[0].name),
    **{
        name: _time_part(unit)
        for name, unit in (
            ("year", "year"), ("quarter", "quarter"), ("month", "month"), ("week", "week"), ("dayofyear", "doy"),
            ("dayofmonth", "day"), ("dayofweek", "dow"), ("hour", "hour"), ("minute", "minute"), ("second", "second"),
        )
    },
    "localtimestamp": rewrite_current_time("current_timestamp"),
    "now": rewrite_current_time("current_timestamp"),
    "proctime": rewrite_current_time("current_timestamp"),
    "current_row_timestamp": rewrite_current_time("current_timestamp"),
}  # fmt: skip
"""Functions whose call is written otherwise."""


_RESULTS = {
    "flink_to_timestamp": "timestamp", "flink_to_timestamp_ltz": "timestamp", "flink_to_date": "date",
    "flink_date_format": "string", "upper": "string", "lower": "string", "concat": "string", "flink_char_length": "int",
    "flink_unix_timestamp": "bigint", "flink_power": "double", "flink_sqrt": "double",
}  # fmt: skip
