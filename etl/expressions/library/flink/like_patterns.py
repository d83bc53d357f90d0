"""Flink's LIKE and SIMILAR TO."""

from __future__ import annotations

import re
from functools import lru_cache

from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import BOOLEAN


@lru_cache(maxsize=256)
def _like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    out, at = "", 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == escape and at + 1 < len(pattern):
            at += 1
            out += re.escape(pattern[at])
        else:
            out += {"%": ".*", "_": "."}.get(sign) or re.escape(sign)
        at += 1
    return re.compile(out, re.DOTALL)


def _like(text: str, pattern: str, escape: str | None = None) -> bool:
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _similar_pattern(pattern: str, escape: str | None) -> re.Pattern[str] | None:
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
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return None


def _similar(text: str, pattern: str, escape: str | None = None) -> bool:
    found = _similar_pattern(pattern, escape)
    if found is None:
        raise RowError(f"{pattern!r} is not a pattern of SIMILAR TO")
    return found.fullmatch(text) is not None


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
        errors="what is no pattern",
        loops=True,
    ),
)
