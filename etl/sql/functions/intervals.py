"""Intervals of scripts, and times to which an interval is added."""

from __future__ import annotations

import re
from typing import Any

from etl.sql.functions.script_dialect import is_rsql
from etl.sql.functions.typed_nodes import NUMBERS, call, number_literal, refuse_mixture, sql_type, typed, unwrapped
from etl.sql.statements import ScriptError, start

_UNITS = {
    "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "WEEK": 604_800_000, "MILLISECOND": 1,
}  # fmt: skip


_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_parts(node: Any) -> tuple[int, int]:
    """Months and milliseconds of an interval. Raises ScriptError."""
    unit = node.args.get("unit")
    names = [str(unit.this.name), str(unit.expression.name)] if type(unit).__name__ == "IntervalSpan" else [str(unit or "")]
    names = [name.upper().rstrip("S") if name.upper() != "S" else name for name in names]
    text = node.this.name if node.this is not None else ""
    sign = -1 if node.args.get("negative") else 1
    sign, text = (-sign, text[1:]) if text.startswith("-") else (sign, text)
    try:
        if names[0] in _MONTHS:
            numbers = [int(one) for one in text.split("-")]
            return sign * sum(number * _MONTHS[name] for number, name in zip(numbers, names, strict=True)), 0
        units = _ORDER[_ORDER.index(names[0]) : _ORDER.index(names[-1]) + 1] if len(names) > 1 else names
        amounts = [float(one) for one in re.split("[ :]", text)]
        return 0, sign * round(sum(amount * _UNITS[name] for amount, name in zip(amounts, units, strict=True)))
    except (ValueError, KeyError):
        raise ScriptError(
            "bad-interval", f"{node.sql(dialect='spark')} is not an interval", start(node), "write INTERVAL '10' SECOND"
        ) from None


def shifted_time(time: Any, interval: Any, sign: int) -> Any:
    """A time and an interval; a timestamp and days to seconds stay as Spark writes them."""
    from sqlglot import exp

    months, millis = interval_parts(interval)
    type_ = sql_type(time)
    if type_ == "timestamp" and not months and _is_plain(interval):
        operator = exp.Sub if sign < 0 else exp.Add
        return typed(operator(this=time, expression=interval), "timestamp", time.meta.get("precision"))
    if months:
        return typed(
            call("flink_timestampadd", "month", number_literal(sign * months), unwrapped(time)), type_, time.meta.get("precision")
        )
    if type_ == "date":  # a date and hours is a date
        made = call("flink_timestampadd", "day", number_literal(sign * int(millis / _UNITS["DAY"])), unwrapped(time))
        return typed(made, type_)
    unit, size = next((name, size) for name, size in _SIZES if millis % size == 0)
    made = call("flink_timestampadd", unit, number_literal(sign * millis // size), unwrapped(time))
    return typed(made, type_, time.meta.get("precision"))


def _is_plain(interval: Any) -> bool:
    """Whether an interval is a whole number of one unit, which Spark writes in the same way."""
    is_span = type(interval.args.get("unit")).__name__ == "IntervalSpan"
    return not is_span and interval.this.name.isdigit() and "negative" not in interval.args


_SIZES = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000), ("millisecond", 1))

MILLIS, MONTHS = "interval_millis", "interval_months"
INTERVAL_TYPES = (MILLIS, MONTHS)
"""Types of nodes and columns that are intervals."""


def is_interval(node: Any) -> bool:
    """Whether a translated node is an interval, written or computed."""
    return type(unwrapped(node)).__name__ == "Interval" or sql_type(node) in (MILLIS, MONTHS)


def interval_value(node: Any) -> Any:
    """An interval as a value of an expression. Raises ScriptError."""
    inner = unwrapped(node)
    if type(inner).__name__ != "Interval":
        return inner
    months, millis = interval_parts(inner)
    return _of_number(number_literal(months), MONTHS) if months else _of_number(number_literal(millis), MILLIS)


def interval_number(node: Any) -> Any:
    """The months or milliseconds of an interval."""
    value = interval_value(node)
    given = value.expressions[0] if str(getattr(value, "this", "")) in (f"flink_{MILLIS}", f"flink_{MONTHS}") else None
    return typed(given.copy() if given is not None else call("flink_interval_number", value), "bigint")


def interval_arithmetic(name: str, left: Any, right: Any, at: int) -> Any:
    """``+ - * /`` of intervals, and of an interval and a time or a number. Raises ScriptError."""
    kinds = [sql_type(interval_value(one)) if is_interval(one) else None for one in (left, right)]
    kind = str(kinds[0] or kinds[1])
    if None not in kinds:
        if name not in ("add", "subtract") or kinds[0] != kinds[1]:
            hint = "intervals of one kind are added: days to milliseconds, or years and months"
            raise ScriptError("wrong-type", f"these intervals have no {name}", at, hint)
        return _of_number(call(f"flink_{name}", interval_number(left), interval_number(right)), kind)
    interval, other = (left, right) if kinds[0] else (right, left)
    if name in ("multiply", "divide"):
        whole = call("flink_cast", call(f"flink_{name}", interval_number(interval), unwrapped(other)), "bigint")
        return _of_number(whole, kind)
    number = interval_number(interval)
    unit = "month" if kind == MONTHS else "millisecond"
    signed = call("flink_negate", number) if name == "subtract" else number
    return typed(call("flink_timestampadd", unit, signed, unwrapped(other)), sql_type(other), other.meta.get("precision"))


def time_distance(node: Any, unit: str) -> Any:
    """``(a - b) DAY`` of two times: an interval."""
    first, last = node.expressions[2].copy(), node.expressions[1].copy()
    if unit.upper() in _MONTHS:
        return _of_number(call("flink_timestampdiff", "month", first, last), MONTHS)
    if {sql_type(first), sql_type(last)} <= {"timestamp", "date"}:
        millis = (call("unix_millis", call("flink_cast", one, "timestamp")) for one in (last, first))
        return _of_number(call("flink_subtract", *millis), MILLIS)
    seconds = call("flink_timestampdiff", "second", first, last)
    return _of_number(call("flink_multiply", seconds, call("flink_cast", number_literal(1000), "bigint")), MILLIS)


def _of_number(number: Any, kind: str) -> Any:
    return typed(call(f"flink_{kind}", number), kind)


def rewrite_comparison(node: Any, written: Any) -> Any:
    """Intervals are compared by their months or milliseconds, a text beside another value as a value of its type, floats as
    doubles with their digits; a text equals no number. Raises ScriptError."""
    left, right = node.this, node.expression
    if is_interval(left) and is_interval(right):
        node.set("this", interval_number(left))
        node.set("expression", interval_number(right))
        return node
    types = [(sql_type(one) or "").partition("(")[0] for one in (left, right)]
    for key, at in (("this", 0), ("expression", 1)):
        own, other = types[at], types[1 - at]
        is_ordered = type(node).__name__ not in ("EQ", "NEQ")
        if own == "string" and (other == "time" or (is_ordered and other in NUMBERS and not is_rsql())):
            node.set(key, call("flink_cast", unwrapped(node.args[key]), "double" if other == "decimal" else other))
            return node
        if own == "float" and other in ("double", "decimal"):
            node.set(key, call("flink_cast", unwrapped(node.args[key]), "double"))
            return node
    refuse_mixture([left, right], start(written))
    return node
