"""Sizes, durations and MAC addresses that people and devices write in many ways."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.widening import DOUBLE, INT64, STRING

_SIZE = re.compile(r"([+-]?\d{1,30}(?:\.\d{1,30})?|[+-]?\.\d{1,30})\s*([a-z]*)", re.IGNORECASE)
_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_UNIT = re.compile(r"([kmgtpe]?)(i?)(?:b|byte|bytes|bit|bits)?")


def _size(text: str) -> int | None:
    """Bytes: k, M and G are 1000s, Ki, Mi and Gi 1024s."""
    found = _SIZE.fullmatch(text.strip())
    unit = _UNIT.fullmatch(found[2].lower()) if found else None
    if found is None or unit is None or (unit[2] and not unit[1]):
        return None
    factor = (1024 if unit[2] else 1000) ** _PREFIXES[unit[1]]
    number = int(Decimal(found[1]) * factor)
    return number if abs(number) < 2**63 else None


_STEP = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zµμ]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d{1,9})[dD. ]+)?(\d{1,9}):(\d{1,2})(?::(\d{1,2}(?:\.\d{1,9})?))?")
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_SECONDS: dict[str, float] = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_LONGEST = 200
"""Characters of a duration that are read."""


def _duration(text: str) -> float | None:
    """Seconds of ``1h30m``, ``2 days``, ``01:30:00`` or ``PT1H30M``."""
    text = text.strip()
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if not text or len(text) > _LONGEST:
        return None
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return sign * float(text)
    found = _CLOCK.fullmatch(text)
    if found:
        days, hours, minutes = (int(found[group] or 0) for group in (1, 2, 3))
        return float(sign * (days * 86_400 + hours * 3600 + minutes * 60 + float(found[4] or 0)))
    iso = _ISO.fullmatch(text.upper())
    if iso and any(iso.groups()):
        weeks, days, hours, minutes = (int(iso[group] or 0) for group in (1, 2, 3, 4))
        return float(sign * (weeks * 604_800 + days * 86_400 + hours * 3600 + minutes * 60 + float(iso[5] or 0)))
    return _steps(text, sign)


def _steps(text: str, sign: int) -> float | None:
    total, at = Decimal(0), 0
    while at < len(text):
        step = _STEP.match(text, at)
        unit = _SECONDS.get(step[2].lower()) if step else None
        if step is None or unit is None:
            return None
        total += Decimal(step[1]) * Decimal(repr(unit))
        at = step.end()
    return float(sign * total)


_BYTES = (("EiB", 2**60), ("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def _show_size(number: int) -> str:
    for unit, size in _BYTES:
        if abs(number) >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


_PARTS = (("d", 86_400), ("h", 3600), ("m", 60))


def _show_duration(seconds: float) -> str | None:
    if seconds != seconds or abs(seconds) > 1e15:
        return None
    sign, left, shown = "-" if seconds < 0 else "", abs(seconds), ""
    for unit, size in _PARTS:
        count, left = divmod(left, size)
        shown += f"{int(count)}{unit}" if count else ""
    left = round(left, 3)
    return sign + shown + (f"{left:g}s" if left or not shown else "")


_HEX = re.compile(r"[0-9A-Fa-f]{12}")


def _mac(text: str, separator: str = ":") -> str | None:
    """``00-1A-2B-3C-4D-5E``, ``001a.2b3c.4d5e``, ``1a2b3c4d5e6f`` and single digits between colons."""
    text = text.strip()
    if len(text) > 17:
        return None
    parts = re.split("[:-]", text)
    digits = "".join(part.zfill(2) for part in parts) if len(parts) == 6 else re.sub(r"[:.\-]", "", text)
    if not _HEX.fullmatch(digits):
        return None
    return separator.join(digits.lower()[at : at + 2] for at in range(0, 12, 2))


def _mac_vendor(text: str) -> str | None:
    found = _mac(text)
    return None if found is None else found[:8]


def _mac_is_local(text: str) -> bool | None:
    found = _mac(text)
    return None if found is None else bool(int(found[:2], 16) & 2)


def _entry(
    name: str, arguments: str, type_: pa.DataType, result: str, function: Any, about: str, example: str, gives: Any
) -> LibraryFunction:
    null = "null if an argument is null, and for a text that is not a quantity"
    return LibraryFunction(
        name, arguments, result, by_value(type_, function, fails=False), about, example, gives, null=null, loops=True
    )


FUNCTIONS = (
    _entry(
        "parse_size",
        "text: string",
        INT64,
        "bigint",
        _size,
        "The bytes of a size: k, M, G are 1000s, Ki, Mi, Gi 1024s.",
        "parse_size('10MB')",
        10_000_000,
    ),
    _entry(
        "format_size",
        "bytes: bigint",
        STRING,
        "string",
        _show_size,
        "A number of bytes for people.",
        "format_size(1536)",
        "1.5 KiB",
    ),
    _entry(
        "parse_duration",
        "text: string",
        DOUBLE,
        "double",
        _duration,
        "The seconds of 1h30m, 2 days, 01:30:00, PT1H30M or 90.",
        "parse_duration('1h30m')",
        5400.0,
    ),
    _entry(
        "format_duration",
        "seconds: double",
        STRING,
        "string",
        _show_duration,
        "A number of seconds for people.",
        "format_duration(5400)",
        "1h30m",
    ),
    _entry(
        "mac_normalize",
        "text: string, separator: string?",
        STRING,
        "string",
        _mac,
        "A MAC address in lower case with colons, or another separator.",
        "mac_normalize('001A.2B3C.4D5E')",
        "00:1a:2b:3c:4d:5e",
    ),
    _entry(
        "mac_prefix",
        "text: string",
        STRING,
        "string",
        _mac_vendor,
        "The first half of a MAC address, which names its maker (OUI).",
        "mac_prefix('00-1A-2B-3C-4D-5E')",
        "00:1a:2b",
    ),
    _entry(
        "mac_is_local",
        "text: string",
        pa.bool_(),
        "boolean",
        _mac_is_local,
        "Whether a MAC address is made up, as phones do, and not its maker's.",
        "mac_is_local('02:00:00:00:00:01')",
        True,
    ),
)
