"""Regular expressions as functions of a column: RE2, or where RE2 has no form of one the package ``regex``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Test: TypeAlias = Callable[[pa.StringArray], pa.BooleanArray]

TIMEOUT_SECONDS = 0.1
"""For one text in ``regex``, which backtracks; a text that takes longer does not match."""


class BadRegexError(ValueError):
    """Neither engine takes the pattern."""


@lru_cache(maxsize=8192)
def engine(pattern: str) -> str:
    """Which engine takes it: ``re2`` or ``regex``. Raises BadRegexError."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowException:
        return _slow_engine(pattern)
    return "re2"


def test_of(pattern: str) -> Test:
    """Texts → whether the pattern is found in each."""
    if engine(pattern) == "re2":
        return lambda texts: pc.match_substring_regex(texts, pattern)
    return _backtracking(pattern)


def _slow_engine(pattern: str) -> str:
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadRegexError(f"{pattern!r} is no regular expression: {error}") from error
    return "regex"


def _backtracking(pattern: str) -> Test:
    """Look-around and back-references: a Python call for each distinct text that has the pattern's literals."""
    import regex

    compiled = regex.compile(pattern)

    def found(text: str | None) -> bool:
        try:
            return text is not None and compiled.search(text, timeout=TIMEOUT_SECONDS) is not None
        except TimeoutError:
            return False

    return lambda texts: pa.array([found(text) for text in texts.to_pylist()], pa.bool_())
