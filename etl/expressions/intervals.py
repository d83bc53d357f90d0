"""Intervals of a fixed length, as they are written in an expression: ``interval 90 minutes``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_MICROS = {
    "week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000,
    "millisecond": 1_000, "microsecond": 1,
}  # fmt: skip
"""Unit → its microseconds; months and years have no fixed length."""

_LONGEST = 10**17
"""Microseconds of about 3,000 years: sums with times of the calendar stay within 64 bits."""

_PART = re.compile(r"\s*([-+]?\d{1,9})\s+([a-zA-Z]+)\s*")


def micros_of(node: Node) -> tuple[int, bool] | None:
    """The microseconds of an interval literal, and whether it has a unit below a day, which makes a timestamp of a date. None for
    other nodes, for months and years, and for intervals written in another way."""
    if type(node).__name__ == "Paren":
        return micros_of(node.this)
    if type(node).__name__ != "Interval" or type(node.this).__name__ != "Literal":
        return None
    unit = node.args.get("unit")
    text = node.this.name if unit is None else f"{node.this.name} {unit.name}"
    if unit is not None and type(unit).__name__ != "Var":
        return None
    total, below_day, at = 0, False, 0
    while at < len(text):
        part = _PART.match(text, at)
        name = part[2].lower() if part else ""
        micros = _MICROS.get(name) or _MICROS.get(name.removesuffix("s"))
        if part is None or micros is None:
            return None
        total, below_day, at = total + int(part[1]) * micros, below_day or micros < _MICROS["day"], part.end()
    return (total, below_day) if abs(total) < _LONGEST else None
