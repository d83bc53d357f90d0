"""Casts, and literals of dates and times."""

from __future__ import annotations

import re
from typing import Any

from etl.expressions.calls.functions import FUNCTIONS
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.sql.functions.intervals import interval_as_number, interval_value, is_interval, number_as_interval
from etl.sql.functions.typed_nodes import NUMBERS, WHOLE_NUMBERS, call, sql_type, type_name, typed, unwrapped
from etl.sql.statements import ScriptError, start

_SAME_CAST = {
    **{
        name: frozenset(("smallint", "int", "bigint", "double", "string")[at:]) for at, name in enumerate(("tinyint", "smallint"))
    },
    "int": frozenset(("bigint", "double", "string")),
    "bigint": frozenset(("string", "double")),
    "date": frozenset(("timestamp", "string")),
    "timestamp": frozenset(("date",)),
    "string": frozenset(),
}
"""Type → the types to which Spark casts its values exactly as Flink does."""


def rewrite_cast(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if isinstance(written, exp.Cast) and not isinstance(written, exp.TryCast):
        return _time_literal(node, written)
    if type(written.args["to"].this).__name__ == "Interval":
        return number_as_interval(node, written)
    name = type_name(written.args["to"])
    if is_interval(node.this) and name.partition("(")[0] in NUMBERS:
        return interval_as_number(node.this, name, start(written))
    if is_interval(node.this) and name.partition("(")[0] in ("string", "varchar", "char"):
        return typed(call("flink_interval_text", interval_value(node.this)), "string")
    plain, _, length = name.partition("(")
    source, value = sql_type(node.this), unwrapped(node.this)
    if isinstance(value, exp.Null):
        return (
            typed(exp.Cast(this=value, to=exp.DataType.build("string")), "string")
            if plain in ("char", "varchar")
            else _typed_null(name, value)
        )
    precision = node.this.meta.get("precision")
    if plain == "timestamp":
        precision = int(length.rstrip(")")) if length else 6
    if name == source and name in ("string", "double", *WHOLE_NUMBERS):
        return value
    if not written.args.get("safe") and name in _SAME_CAST.get(source or "", frozenset()):
        made: Any = exp.Cast(this=value, to=exp.DataType.build(name, dialect="spark"))
    else:
        function = "flink_try_cast" if written.args.get("safe") else "flink_cast"
        more = () if precision is None or plain not in ("string", "varchar", "char") else (precision,)
        made = call(function, value, name, *more)
    known = "string" if plain in ("char", "varchar") else name if plain == "decimal" else plain
    return typed(made, known, precision if plain in ("timestamp", "timestamp_ltz") else None)


_CALL = re.compile(r"'(?:[^']|'')*'|\b(\w+)\(")
"""A text, so that nothing in it is a call, or the name of a function."""
_TIMES = frozenset({"timestamp", "date"})


def implicit_cast(text: str, source: str | None, target: str) -> str:
    """The text of an expression as the column of a table that it is written to: Spark's cast, which reports numbers that do not
    fit, and Flink's for decimals and for what Arrow alone computes, unless Spark alone computes a part of it."""
    calls = {name.lower() for name in _CALL.findall(text)} - {"", "in", "and", "or", "not"}
    is_of_decimals = target.startswith("decimal") or (source or "").startswith("decimal")
    is_on_arrow = is_of_decimals or not calls <= SPARK_FUNCTIONS
    is_on_spark = bool(calls & SPARK_FUNCTIONS - FUNCTIONS.keys()) or target in _TIMES
    if is_on_spark or not is_on_arrow or target in _SAME_CAST.get(source or "", ()):
        return f"CAST({text} AS {target.upper()})"
    return f"flink_cast({text}, '{target}')"


def _typed_null(name: str, value: Any) -> Any:
    from sqlglot import exp

    if name.partition("(")[0] in ("time",):
        return call("flink_cast", value, name)
    plain = "timestamp" if name.startswith("timestamp") else "binary" if name == "bytes" else name
    return typed(exp.Cast(this=value, to=exp.DataType.build(plain, dialect="spark")), plain.partition("(")[0])


_DAY = r"\d{4}-\d{1,2}-\d{1,2}"


_CLOCK = r"\d{1,2}:\d{1,2}:\d{1,2}(?:\.(\d{1,9}))?"


def _time_literal(node: Any, written: Any) -> Any:
    """``DATE '…'``, ``TIMESTAMP '…'``, ``TIME '…'``: checked at once. Raises ScriptError."""
    from datetime import date, datetime, time

    from sqlglot import exp

    kind, text = written.args["to"].this, written.this.name
    form = {exp.DType.DATE: _DAY, exp.DType.TIME: _CLOCK}.get(kind, f"{_DAY} {_CLOCK}")
    found = re.fullmatch(form, text)
    try:
        if found is None:
            raise ValueError
        plain = text.partition(".")[0]
        if kind == exp.DType.DATE:
            date(*map(int, plain.split("-")))
        elif kind == exp.DType.TIME:
            time(*map(int, plain.split(":")))  # type: ignore[arg-type]
        else:
            datetime(*map(int, re.split("[- :]", plain)))  # type: ignore[arg-type]
    except ValueError:
        name = {exp.DType.DATE: "date", exp.DType.TIME: "time"}.get(kind, "timestamp")
        raise ScriptError(
            "wrong-type", f"{text!r} is not a {name}", start(written), "write TIMESTAMP '2024-01-31 12:00:00'"
        ) from None
    if kind == exp.DType.TIME:
        return typed(call("flink_cast", text, "time"), "time")
    digits = len(found[1] or "") if kind != exp.DType.DATE else None
    name = "date" if kind == exp.DType.DATE else "timestamp"
    return typed(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name)), name, digits)
