"""The types that options have: durations, sizes, field names, expressions, each parsed once at the border."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)")
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|KB|MB|GB|KiB|MiB|GiB)")


_UNIT_NAMES = {
    **dict.fromkeys(("millis", "millisecond", "milliseconds", "msec", "msecs"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
_SIZE_NAMES = {
    **dict.fromkeys(("byte", "bytes"), "B"),
    **{f"{letter}{end}": f"{letter.upper()}B" for letter in "kmg" for end in ("", "b")},
    **{f"{letter}ib": f"{letter.upper()}iB" for letter in "kmg"},
}
_COUNTED = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]+)")


_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d)")
_INTERVAL = re.compile(r"interval\s+'?(\d+)'?\s+([a-z]+)", re.IGNORECASE)


def _iso_length(text: str) -> str | None:
    """``1m`` for ``PT1M``, ``00:01:00`` and ``INTERVAL '1' MINUTE``."""
    if (found := _INTERVAL.fullmatch(text)) and (unit := _UNIT_NAMES.get(found[2].lower())):
        return f"{found[1]}{unit}"
    numbers = (0, *map(int, found.groups())) if (found := _CLOCK.fullmatch(text)) else None
    if numbers is None and (found := _ISO.fullmatch(text)) and any(found.groups()):
        numbers = tuple(int(number or 0) for number in found.groups())
    if numbers is None or not any(numbers):
        return None
    days, hours, minutes, seconds = numbers
    return format_duration(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))


def _with_unit(text: object, names: Mapping[str, str]) -> str | None:
    """``write 10m`` for ``10 minutes``."""
    if isinstance(text, int) and not isinstance(text, bool) and names is _UNIT_NAMES:
        return f"write the unit after it, such as {text}s or {text}m"
    if isinstance(text, str) and names is _UNIT_NAMES and (iso := _iso_length(text.strip())):
        return f"write {iso}"
    if isinstance(text, str) and names is _SIZE_NAMES and re.fullmatch(r"\d{1,3}([_,]\d{3})+", text):
        return f"write {re.sub('[_,]', '', text)}"
    found = _COUNTED.fullmatch(text.strip()) if isinstance(text, str) else None
    unit = names.get(found["unit"].lower()) if found else None
    return f"write {found['number']}{unit}" if found and unit else None


def parse_duration(text: object) -> timedelta:
    """``"1.5s"`` → timedelta. Raises ValueError that names the accepted forms."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, dict) and text:  # another member of a union is meant; the schema reports it where there is none
        raise PydanticCustomError("string_type", "not a duration")
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not found:
        cure = _with_unit(text, _UNIT_NAMES) or "write a number and a unit, such as 500ms, 30s, 10m, 6h or 1d"
        raise ValueError(f"{text!r} is not a duration; {cure}")
    return timedelta(seconds=float(found["number"]) * _UNITS[found["unit"]])


def format_duration(value: timedelta) -> str:
    """timedelta → the shortest text that `parse_duration` reads back."""
    millis = round(value.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if millis and millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"


def parse_size(text: object) -> int:
    """``"64KiB"`` → bytes; a bare number is bytes. Raises ValueError that names the accepted forms."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if not found:
        cure = _with_unit(text, _SIZE_NAMES) or "write a number and a unit, such as 512B, 64KiB, 10MB or 1GiB"
        raise ValueError(f"{text!r} is not a size; {cure}")
    return int(float(found["number"]) * _SIZES[found["unit"]])


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$".replace("?P<number>", "?:").replace("?P<unit>", "?:")}),
]
"""A length of time, written ``500ms 30s 10m 6h 1d``."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_SIZE.pattern}$".replace("?P<number>", "?:").replace("?P<unit>", "?:")},
                {"type": "integer", "minimum": 0},
            ]
        }
    ),
]
"""A number of bytes, written ``64KiB 10MB`` or as a plain number."""

FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_@][A-Za-z0-9_@\-]*(\.[A-Za-z_@][A-Za-z0-9_@\-]*)*$")]
"""A field of the event; dots lead into structs: ``source.ip``."""


class CallingText(str):
    """An expression with the functions of the user that it may call: they travel with the option."""

    functions: tuple[Any, ...]

    @classmethod
    def of(cls, text: str, functions: tuple[Any, ...]) -> CallingText:
        """The text with these functions."""
        made = cls(text)
        made.functions = functions
        return made


def _keep_functions(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """The validated text with the functions of the given one, which pydantic would drop."""
    text = validate(value)
    return CallingText.of(text, value.functions) if isinstance(value, CallingText) else text


Expression = Annotated[str, Field(min_length=1, json_schema_extra={"format": "spark-sql"}), WrapValidator(_keep_functions)]
"""A Spark SQL expression over the event's fields."""

Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "uniqueItems": True},
            ]
        }
    ),
]
"""One name, or a list of them."""
