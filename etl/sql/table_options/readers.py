"""How options of other tools are read: the options of ours that a text gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

Path = tuple[str | int, ...]
Value = tuple[Path, Any]
Reader = Callable[[str], list[Value]]
"""Reads an option's text: the values that it gives, each with the path in the component's options."""


def to_option(*path: str) -> Reader:
    return lambda text: [(path, text)]


def to_list(*path: str) -> Reader:
    return lambda text: [(path, [part.strip() for part in re.split("[;,]", text) if part.strip()])]


def to_number(*path: str) -> Reader:
    return lambda text: [(path, int(text) if text.strip().isdecimal() else text)]


def to_time(*path: str) -> Reader:
    """Milliseconds since 1970 as a time in UTC; another text stays as it is."""
    return lambda text: [(path, _time_text(text))]


def _time_text(text: str) -> str:
    millis = int(text) if re.fullmatch(r"[0-9]{1,14}", text) else None
    return text if millis is None else (datetime(1970, 1, 1) + timedelta(milliseconds=millis)).isoformat()


def ignored(text: str) -> list[Value]:
    return []


class OptionValueError(ValueError):
    """The value of an option is invalid; the hint says which values are accepted."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


_STARTS = {
    "earliest-offset": "earliest",
    "latest-offset": "latest",
    "group-offsets": "group",
    "timestamp": "timestamp",
    "specific-offsets": "offsets",
}
"""Flink's words for where a topic is read from → those of the source here."""


def startup(text: str) -> list[Value]:
    """Flink's ``scan.startup.mode``. Raises OptionValueError for another word."""
    if text not in _STARTS:
        near = get_close_matches(text, _STARTS, 1)
        hint = f"is {near[0]!r} meant?" if near else f"write {', '.join(map(repr, _STARTS))}"
        raise OptionValueError(f"{text!r} is not a scan.startup.mode", hint)
    return [(("start",), _STARTS[text])]


_GUARANTEES = {"exactly-once": "exactly_once", "at-least-once": "at_least_once", "none": "at_least_once"}
"""Flink's ``sink.delivery-guarantee`` → ``delivery`` of the sink here."""


def delivery(text: str) -> list[Value]:
    """Flink's ``sink.delivery-guarantee``. Raises OptionValueError for another word."""
    if text not in _GUARANTEES:
        raise OptionValueError(f"{text!r} is not a sink.delivery-guarantee", f"write {', '.join(map(repr, _GUARANTEES))}")
    return [(("delivery",), _GUARANTEES[text])]


_UNITS = {
    "ms": "ms",
    "milli": "ms",
    "s": "s",
    "sec": "s",
    "second": "s",
    "m": "m",
    "min": "m",
    "minute": "m",
    "h": "h",
    "hour": "h",
}
_UNITS |= {"millisecond": "ms", "d": "d", "day": "d"}
"""Flink's units of durations → those of options here."""


def to_duration(*path: str) -> Reader:
    """Flink's durations, ``5 min``; milliseconds without a unit, as in Flink."""

    def read(text: str) -> list[Value]:
        found = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]*)\s*", text.lower())
        unit = _UNITS.get(found[2] if found[2] in _UNITS else found[2].rstrip("s") or "ms") if found else None
        if found is None or unit is None:
            raise OptionValueError(f"{text!r} is not a duration", "write '5 min', '10 s' or '500 ms'")
        return [(path, f"{int(found[1])}{unit}")]

    return read


_OFFSETS = re.compile(r"partition:(\d+),offset:(\d+)")


def read_offsets(text: str) -> dict[str, int]:
    """``partition:0,offset:42;partition:1,offset:300`` → offsets by partition. Raises OptionValueError."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    found = [_OFFSETS.fullmatch(re.sub(r"\s", "", part)) for part in parts]
    if not parts or None in found:
        raise OptionValueError(f"{text!r} has no offsets of partitions", "write 'partition:0,offset:42;partition:1,offset:300'")
    return {one[1]: int(one[2]) for one in found if one}


def milliseconds(*path: str) -> Reader:
    return lambda text: [(path, f"{text}ms" if text.isdecimal() else text)]


@dataclass(frozen=True)
class Connector:
    """A connector of another tool: the types of ours that it becomes, and its options by name; of ``prefixes`` the rest of the
    name is a key below the path."""

    source: str | None
    sink: str | None
    table: str | None = None
    options: Mapping[str, Reader] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
