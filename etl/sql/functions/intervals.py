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
    made = _of_number(number_literal(months), MONTHS) if months else _of_number(number_literal(millis), MILLIS)
    made.meta["unit"] = unit_of(inner)
    return made


def interval_number(node: Any) -> Any:
    """The months or milliseconds of an interval."""
    value = interval_value(node)
    given = value.expressions[0] if str(getattr(value, "this", "")) in (f"flink_{MILLIS}", f"flink_{MONTHS}") else None
    return typed(given.copy() if given is not None else call("flink_interval_number", value), "bigint")


def unit_of(node: Any) -> str | None:
    """The smallest unit of an interval or of its type, in which a cast to a number counts; None where it is not known here."""
    inner = unwrapped(node)
    if type(inner).__name__ != "Interval":
        known = inner.meta.get("unit")
        return str(known) if known else None
    unit = inner.args.get("unit")
    name = str(unit.expression.name if type(unit).__name__ == "IntervalSpan" else unit or "").upper()
    return name.rstrip("S") if name != "S" else "SECOND"


def interval_as_number(node: Any, type_: str, at: int) -> Any:
    """``CAST(INTERVAL '5' DAY AS INT)`` is 5: whole units. Raises ScriptError."""
    unit = unit_of(node)
    if unit not in _SIZE_OF_UNIT:
        raise ScriptError("wrong-type", "the unit of this interval is not known", at, "take a part of it: EXTRACT(DAY FROM x)")
    number = call("flink_divide", interval_number(node), call("flink_cast", number_literal(_SIZE_OF_UNIT[unit]), "bigint"))
    return typed(call("flink_cast", number, type_), type_ if type_.startswith("decimal") else type_.partition("(")[0])


def number_as_interval(node: Any, written: Any) -> Any:
    """``CAST(5 AS INTERVAL DAY)``, and an interval as one of another unit. Raises ScriptError."""
    unit = written.args["to"].this.args.get("unit")
    name = unit_of(written.args["to"].this)
    kind, value = MONTHS if name in _MONTHS else MILLIS, unwrapped(node.this)
    if is_interval(node.this):
        if sql_type(interval_value(value)) != kind:
            raise ScriptError("wrong-type", "days have no months, and months no days", start(written), "EXTRACT takes a part")
        made = interval_value(value)
    elif sql_type(value) == "string" or name not in _SIZE_OF_UNIT or type(unit).__name__ == "IntervalSpan":
        hint = "write INTERVAL '5' DAY, or cast a number to one unit: CAST(5 AS INTERVAL DAY)"
        raise ScriptError("wrong-type", "only a number is cast to an interval, of one unit", start(written), hint)
    else:
        size = call("flink_cast", number_literal(_SIZE_OF_UNIT[name]), "bigint")
        made = _of_number(call("flink_cast", call("flink_multiply", value, size), "bigint"), kind)
    made.meta["unit"] = name
    return made


_SIZE_OF_UNIT = _UNITS | _MONTHS
"""Milliseconds or months of a unit."""


def interval_arithmetic(name: str, left: Any, right: Any, at: int) -> Any:
    """``+ - * /`` of intervals, and of an interval and a time or a number. Raises ScriptError."""
    kinds = [sql_type(interval_value(one)) if is_interval(one) else None for one in (left, right)]
    kind = str(kinds[0] or kinds[1])
    if None not in kinds:
        if name not in ("add", "subtract") or kinds[0] != kinds[1]:
            hint = "intervals of one kind are added: days to milliseconds, or years and months"
            raise ScriptError("wrong-type", f"these intervals have no {name}", at, hint)
        made = _of_number(call(f"flink_{name}", interval_number(left), interval_number(right)), kind)
        units = [unit for unit in map(unit_of, (left, right)) if unit in _SIZE_OF_UNIT]
        if len(units) == 2:
            made.meta["unit"] = min(units, key=_SIZE_OF_UNIT.__getitem__)
        return made
    interval, other = (left, right) if kinds[0] else (right, left)
    if name in ("multiply", "divide"):
        whole = call("flink_cast", call(f"flink_{name}", interval_number(interval), unwrapped(other)), "bigint")
        made = _of_number(whole, kind)
        made.meta["unit"] = unit_of(interval)
        return made
    number = interval_number(interval)
    unit = "month" if kind == MONTHS else "millisecond"
    signed = call("flink_negate", number) if name == "subtract" else number
    return typed(call("flink_timestampadd", unit, signed, unwrapped(other)), sql_type(other), other.meta.get("precision"))


def time_distance(node: Any, unit: str) -> Any:
    """``(a - b) DAY`` of two times: an interval."""
    made = _time_distance(node, unit)
    made.meta["unit"] = unit.upper()
    return made


def _time_distance(node: Any, unit: str) -> Any:
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
