"""Intervals of scripts, and times to which an interval is added."""

from __future__ import annotations

import re
from typing import Any

from etl.sql.functions.typed_nodes import call, number_literal, sql_type, typed, unwrapped
from etl.sql.statements import ScriptError, start

_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "WEEK": 604_800_000}


_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_parts(node: Any) -> tuple[int, int]:
    """Months and milliseconds of an interval. Raises ScriptError."""
    unit = node.args.get("unit")
    names = [str(unit.this.name), str(unit.expression.name)] if type(unit).__name__ == "IntervalSpan" else [str(unit or "")]
    names = [name.upper().rstrip("S") if name.upper() != "S" else name for name in names]
    text = node.this.name if node.this is not None else ""
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        if names[0] in _MONTHS:
            numbers = [int(one) for one in text.split("-")]
            return sign * sum(number * _MONTHS[name] for number, name in zip(numbers, names, strict=True)), 0
        units = _ORDER[_ORDER.index(names[0]) : _ORDER.index(names[-1]) + 1] if len(names) > 1 else names
        amounts = [float(one) for one in re.split("[ :]", text)]
        return 0, sign * round(sum(amount * _UNITS[name] for amount, name in zip(amounts, units, strict=True)))
    except (ValueError, KeyError):
        raise ScriptError(
            "bad-interval", f"{node.sql(dialect='spark')} is no interval", start(node), "write INTERVAL '10' SECOND"
        ) from None


def shifted_time(time: Any, interval: Any, sign: int) -> Any:
    """A time and an interval; a timestamp and days to seconds stay as Spark writes them."""
    from sqlglot import exp

    months, millis = interval_parts(interval)
    type_ = sql_type(time)
    if type_ == "timestamp" and not months and not isinstance(interval.args.get("unit"), exp.IntervalSpan):
        operator = exp.Sub if sign < 0 else exp.Add
        return typed(operator(this=time, expression=interval), "timestamp", time.meta.get("precision"))
    if months:
        return typed(
            call("flink_timestampadd", "month", number_literal(sign * months), unwrapped(time)), type_, time.meta.get("precision")
        )
    unit, size = next((name, size) for name, size in _SIZES if millis % size == 0)
    made = call("flink_timestampadd", unit, number_literal(sign * millis // size), unwrapped(time))
    return typed(made, type_, time.meta.get("precision"))


_SIZES = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000), ("millisecond", 1))
