"""Flink's LIKE and SIMILAR TO."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from etl.expressions.library.flink.java_patterns import MAX_PATTERN, SECONDS
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import BOOLEAN


class _LikePattern:
    """LIKE in a time that grows with the length of the text: the parts between ``%`` are found one after the other.

    A regular expression of several ``.*`` would try all their lengths, and a pattern may be a value of the event.
    """

    def __init__(self, pattern: str, escape: str | None) -> None:
        parts, at = [""], 0
        while at < len(pattern):
            sign = pattern[at]
            if sign == escape and at + 1 < len(pattern):
                at += 1
                parts[-1] += re.escape(pattern[at])
            elif sign == "%":
                parts.append("")
            else:
                parts[-1] += "." if sign == "_" else re.escape(sign)
            at += 1
        compiled = [re.compile(part, re.DOTALL) for part in parts]
        self._whole = compiled[0] if len(parts) == 1 else None
        self._first, self._inside = compiled[0], [one for one in compiled[1:-1] if one.pattern]
        self._last = re.compile(f"(?:{parts[-1]})\\Z", re.DOTALL)
        self._last_length = sum(1 for _ in re.finditer(r"\\.|.", parts[-1], re.DOTALL))

    def matches(self, text: str) -> bool:
        """Whether all of a text matches."""
        if self._whole is not None:
            return self._whole.fullmatch(text) is not None
        found = self._first.match(text)
        for part in self._inside:
            found = part.search(text, found.end()) if found else None
        if found is None or len(text) - self._last_length < found.end():
            return False
        return self._last.match(text, len(text) - self._last_length) is not None


_like_pattern = lru_cache(maxsize=256)(_LikePattern)


def _like(text: str, pattern: str, escape: str | None = None) -> bool:
    return _like_pattern(pattern, escape).matches(text)


@lru_cache(maxsize=256)
def _similar_pattern(pattern: str, escape: str | None) -> Any:
    """SQL's patterns: ``%`` and ``_`` beside the signs of regular expressions; a point is a character like others."""
    out, at, inside = "", 0, False
    while at < len(pattern):
        sign = pattern[at]
        inside = (sign == "[" and not inside) or (inside and sign != "]")
        if sign == escape and at + 1 < len(pattern):
            at += 1
            out += re.escape(pattern[at])
        elif inside or sign in "[]()|*+?{}0123456789,":
            out += sign
        else:
            out += {"%": ".*", "_": "."}.get(sign) or re.escape(sign)
        at += 1
    import regex

    try:
        return regex.compile(out, regex.DOTALL)
    except (regex.error, OverflowError, RecursionError):
        return None


def _similar(text: str, pattern: str, escape: str | None = None) -> bool:
    if len(pattern) > MAX_PATTERN:
        raise RowError(f"the pattern has {len(pattern)} characters; {MAX_PATTERN} are the most")
    found = _similar_pattern(pattern, escape)
    if found is None:
        raise RowError(f"{pattern!r} is not a pattern of SIMILAR TO")
    try:
        return found.fullmatch(text, timeout=SECONDS) is not None
    except TimeoutError as error:
        raise RowError(f"the pattern {pattern!r} took more than {SECONDS:g} seconds for a text") from error


FUNCTIONS = (
    LibraryFunction(
        "flink_like",
        "text: string, pattern: string, escape: string?",
        "boolean",
        by_value(BOOLEAN, _like, fails=False),
        "LIKE with a computed pattern; without an escape sign a backslash means itself.",
        "flink_like('abc', 'a%')",
        True,
        loops=True,
    ),
    LibraryFunction(
        "flink_similar",
        "text: string, pattern: string, escape: string?",
        "boolean",
        by_value(BOOLEAN, _similar),
        "SIMILAR TO: `%` and `_` beside `|`, `*`, `+`, `?`, brackets and braces.",
        "flink_similar('abc', 'a(b|d)c')",
        True,
        errors="what is no pattern, or one that takes more than 2 seconds",
        loops=True,
    ),
)
