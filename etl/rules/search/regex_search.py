"""Regular expressions as functions of a column: RE2, or where RE2 has no form of one the package ``regex``.

RE2 compiles an expression anew for each column it is given. Where counted repeats make that slow, an automaton of the
scanner, which is compiled once, takes its place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts
from etl.rules.search.backtracking import found
from etl.rules.search.re2_syntax import automaton
from etl.scanner.scanner import Scanner

LARGE = 16
"""Repeats from which on RE2 takes longer to compile an expression than to look for it in the texts of a batch."""

_COUNT = re.compile(r"\{(?P<least>\d+)(?:,(?P<most>\d*))?\}")

Engine = Literal["re2", "regex"]

Test: TypeAlias = Callable[[pa.StringArray], pa.BooleanArray]

log = logging.getLogger("sluice.rules")


class BadRegexError(ValueError):
    """Neither engine takes the pattern."""


@lru_cache(maxsize=8192)
def engine(pattern: str) -> Engine:
    """Which engine takes it: ``re2`` or ``regex``. Raises BadRegexError."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowException:
        return _slow_engine(pattern)
    return "re2"


@dataclass(frozen=True)
class AutomatonTest:
    """An expression that an automaton looks for."""

    scanner: Scanner

    def __call__(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Whether it is found in each text."""
        return self.scanner.matches(texts)

    def at(self, texts: Texts, rows: Any) -> Any:
        """Whether it is found in some texts, none of them null (bool[rows])."""
        return self.scanner.matches_at(texts, rows)


def test_of(pattern: str, automata: bool) -> Test:
    """Texts → whether the pattern is found in each."""
    if engine(pattern) == "regex":
        return _backtracking(pattern)
    tree = automaton(pattern) if automata and _is_large(pattern) else None
    return AutomatonTest(Scanner([tree])) if tree is not None else lambda texts: pc.match_substring_regex(texts, pattern)


def _is_large(pattern: str) -> bool:
    return any(int(found["most"] or found["least"]) >= LARGE for found in _COUNT.finditer(pattern))


def _slow_engine(pattern: str) -> Literal["regex"]:
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadRegexError(f"{pattern!r} is no regular expression: {error}") from error
    return "regex"


def _backtracking(pattern: str) -> Test:
    """Look-around and back-references: a Python call for each distinct text that has the pattern's literals."""
    return lambda texts: pa.array(list(found(pattern, iter(texts.to_pylist()), log)), pa.bool_())
