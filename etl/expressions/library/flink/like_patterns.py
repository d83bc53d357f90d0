"""Flink's LIKE and SIMILAR TO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from etl.expressions.library.flink.java_patterns import MAX_PATTERN, SECONDS
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import BOOLEAN


class _Part:
    """What a pattern has between two ``%``: texts, and None for ``_``, which is any character."""

    def __init__(self, characters: Sequence[str | None]) -> None:
        self.length = len(characters)
        texts = [character for character in characters if character is not None]
        self._text = "".join(texts) if len(texts) == len(characters) else None
        written = "" if self._text is not None else "".join("." if one is None else re.escape(one) for one in characters)
        self._pattern = re.compile(written, re.DOTALL)

    def is_at(self, text: str, start: int) -> bool:
        """Whether it matches at this position of a text."""
        return text.startswith(self._text, start) if self._text is not None else self._pattern.match(text, start) is not None

    def find_end(self, text: str, start: int) -> int:
        """The end of the first from ``start`` on; -1 where there is none."""
        if self._text is not None:
            found = text.find(self._text, start)
            return -1 if found < 0 else found + self.length
        match = self._pattern.search(text, start)
        return match.end() if match else -1


class _LikePattern:
    """LIKE in a time that grows with the length of the text: the parts between ``%`` are found one after the other.

    A regular expression of several ``.*`` would try all their lengths, and a pattern may be a value of the event.
    """

    def __init__(self, pattern: str, escape: str | None) -> None:
        parts: list[list[str | None]] = [[]]
        characters = iter(pattern)
        for character in characters:
            if character == escape and (escaped := next(characters, None)) is not None:
                parts[-1].append(escaped)
            elif character == "%":
                parts.append([])
            else:
                parts[-1].append(None if character == "_" else character)
        self._first, *inside = map(_Part, parts)
        self._last = inside.pop() if inside else None
        self._inside = [part for part in inside if part.length]

    def matches(self, text: str) -> bool:
        """Whether all of a text matches."""
        if self._last is None:
            return len(text) == self._first.length and self._first.is_at(text, 0)
        if not self._first.is_at(text, 0):
            return False
        end = self._first.length
        for part in self._inside:
            if (end := part.find_end(text, end)) < 0:
                return False
        last = len(text) - self._last.length
        return last >= end and self._last.is_at(text, last)


_like_pattern = lru_cache(maxsize=256)(_LikePattern)


def _like(text: str, pattern: str, escape: str | None = None) -> bool:
    return _like_pattern(pattern, escape).matches(text)


@lru_cache(maxsize=256)
def _similar_pattern(pattern: str, escape: str | None) -> Any:
    """SQL's patterns: ``%`` and ``_`` beside the characters of regular expressions; a point is a character like others."""
    out, at, inside = "", 0, False
    while at < len(pattern):
        character = pattern[at]
        inside = (character == "[" and not inside) or (inside and character != "]")
        if character == escape and at + 1 < len(pattern):
            at += 1
            out += re.escape(pattern[at])
        elif inside or character in "[]()|*+?{}0123456789,":
            out += character
        else:
            out += {"%": ".*", "_": "."}.get(character) or re.escape(character)
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
        "LIKE with a computed pattern; without an escape character a backslash means itself.",
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
        errors="what is not a pattern, or one that takes more than 2 seconds",
        loops=True,
    ),
)
