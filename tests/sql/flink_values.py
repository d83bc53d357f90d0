"""Values and types of expressions as `flink_functions` of the acceptance data writes them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from etl.api import format_type


def flink_type(text: str) -> str:
    """Flink's name of a type without NOT NULL, lengths of texts, precisions of times and names of members."""
    text = text.replace(" NOT NULL", "")
    for pattern, name in (
        (r"(?:VAR)?CHAR\(\d+\)", "STRING"),
        (r"TIMESTAMP(?:_LTZ)?\(\d\)", "TIMESTAMP"),
        (r"TIME\(\d\)", "TIME"),
        (r"INTERVAL (?:YEAR|MONTH).*", "INTERVAL_MONTHS"),
        (r"INTERVAL .*", "INTERVAL_MILLIS"),
        (r"(?:VAR)?BINARY\(\d+\)|BYTES", "BINARY"),
        (r"`[\w$]+` ", ""),
        (r", ", ","),
    ):
        text = re.sub(pattern, name, text)
    return text.lower()


def arrow_type(type_: pa.DataType) -> str:
    """An Arrow type as Flink names it."""
    if pa.types.is_list(type_):
        return f"array<{arrow_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{arrow_type(type_.key_type)},{arrow_type(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"row<{','.join(arrow_type(field.type) for field in type_)}>"
    if pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return "interval_millis" if pa.types.is_duration(type_) else "interval_months"
    return "time" if pa.types.is_time(type_) else format_type(type_)


def written(value: Any, type_: str) -> Any:
    """A Python value as the data writes it; ``type_`` is Flink's type, whose precision a time is written with."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return _float(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case timedelta():
            return _interval(value)
        case pa.MonthDayNano():
            return f"P{value.months}M"
        case datetime():
            return _timestamp(value, type_)
        case date():
            return value.isoformat()
        case time():
            return value.strftime("%H:%M:%S")
        case dict():
            return [written(one, type_) for one in value.values()]
        case tuple() | list():
            return [written(one, type_) for one in value]
    raise TypeError(type(value))


def _float(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _interval(value: timedelta) -> str:
    """Java's text of a duration."""
    millis = abs(round(value.total_seconds() * 1000))
    hours, minutes, seconds = millis // 3_600_000, millis // 60_000 % 60, millis % 60_000
    sign = "-" if value < timedelta(0) else ""
    shown = [f"{sign}{hours}H" if hours else "", f"{sign}{minutes}M" if minutes else ""]
    shown.append(f"{sign}{seconds / 1000:g}S" if seconds or not any(shown) else "")
    return "PT" + "".join(shown)


def _timestamp(value: datetime, type_: str) -> str:
    found = re.search(r"TIMESTAMP(?:_LTZ)?\((\d)\)", type_)
    digits = int(found[1]) if found else 0
    text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return text[: 20 + digits if digits else 19] + ("Z" if "LTZ" in type_ else "")


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal; fractions may differ in the last digit."""
    if isinstance(found, float) and isinstance(expected, float):
        return abs(found - expected) <= 2 * math.ulp(expected)
    return bool(found == expected and isinstance(found, bool) == isinstance(expected, bool))
