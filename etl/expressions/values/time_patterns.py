"""Spark's datetime patterns of a fixed layout → RE2: ``yyyy-MM-dd HH:mm:ss``, ``dd/MM/yyyy``, ``yyyy-MM-dd'T'HH:mm:ss.SSSXXX``.

Source: Spark SQL reference, "Datetime Patterns for Formatting and Parsing", and java.time.format.DateTimeFormatter in strict
mode, as Spark uses it: a letter's count is its width, literal text ignores case, nothing is trimmed.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any

import pyarrow.compute as pc

from etl.expressions.casts import Convert
from etl.expressions.values.texts import escape_re2
from etl.expressions.values.times import timestamps

_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>[^']+)'|(?P<mark>[^A-Za-z0-9'\[\]{}#])")
_PARTS = {
    "yyyy": ("year", "[0-9]{4}|-[0-9]{4,6}|[+][0-9]{5,6}"),
    "MM": ("month", "[0-9]{2}"),
    "dd": ("day", "[0-9]{2}"),
    "HH": ("hour", "[0-9]{2}"),
    "mm": ("minute", "[0-9]{2}"),
    "ss": ("second", "[0-9]{2}"),
    **{"S" * width: ("fraction", f"[0-9]{{1,{width}}}") for width in range(1, 7)},
    "XXX": ("zone", "(?i:Z)|[+-][0-9]{2}:[0-9]{2}"),
}
_DAY_PARTS, _TIME_PARTS = {"year", "month", "day"}, ("hour", "minute", "second", "fraction")


@lru_cache(maxsize=64)
def reader(pattern: str) -> Convert | None:
    """The function that parses texts of a pattern, in UTC if it has no offset; None if the pattern's layout is not fixed."""
    regex, names, at, numeric = "", [], 0, False
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None or (piece["letters"] and piece["letters"] not in _PARTS):
            return None
        at = piece.end()
        if not piece["letters"]:
            regex += f"(?i:{escape_re2(piece['quoted'] or piece['mark'])})"
            numeric = False
            continue
        name, digits = _PARTS[piece["letters"]]
        if name != "zone" and numeric:
            return None  # numbers that touch: Java splits them in another way
        regex += f"(?P<{name}>{digits})"
        names.append(name)
        numeric = name != "zone"
    return partial(_read, rf"\A{regex}\z") if _whole(names) else None


def _whole(names: list[str]) -> bool:
    """Whether the parts are a day and a time without gaps, each once."""
    times = [name for name in _TIME_PARTS if name in names]
    return len(set(names)) == len(names) and set(names) >= _DAY_PARTS and times == list(_TIME_PARTS[: len(times)])


def _read(regex: str, values: Any) -> tuple[Any, Any]:
    """Parse; the year ``-0000`` fails, as in Java."""
    parts = pc.extract_regex(values, regex)
    found, failed = timestamps(values, parts)
    minus_zero = pc.fill_null(pc.match_substring_regex(pc.struct_field(parts, "year"), r"\A-0+\z"), False)
    if not pc.any(minus_zero).as_py():
        return found, failed
    return found, minus_zero if failed is None else pc.or_(failed, minus_zero)
