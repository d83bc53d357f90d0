"""Regular expressions as functions of a column: RE2, or the package ``regex`` for those that RE2 does not support.

RE2 compiles an expression at each call. If counted repeats make that slow, an automaton of the scanner, which is compiled once,
runs instead.
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
from etl.rules.search.backtracking import search_texts
from etl.rules.search.re2_syntax import compile_automaton
from etl.scanner.scanner import Scanner

LARGE = 16
"""Count of repeats from which on RE2 takes longer to compile an expression than to search the texts of a batch."""

_COUNT = re.compile(r"\{(?P<minimum>\d+)(?:,(?P<maximum>\d*))?\}")

Engine = Literal["re2", "regex"]

Matcher: TypeAlias = Callable[[pa.StringArray], pa.BooleanArray]

log = logging.getLogger("sluice.rules")


class BadRegexError(ValueError):
    """Neither engine supports the pattern."""


@lru_cache(maxsize=8192)
def choose_engine(pattern: str) -> Engine:
    """The engine that supports a pattern. Raises BadRegexError."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowException:
        return _check_regex(pattern)
    return "re2"


@dataclass(frozen=True)
class AutomatonMatcher:
    """Matches texts with an automaton of the scanner."""

    scanner: Scanner

    def __call__(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Whether each text has a match."""
        return self.scanner.matches(texts)

    def match_rows(self, texts: Texts, rows: Any) -> Any:
        """Whether each of these texts has a match (bool[rows]); none of them may be null."""
        return self.scanner.matches_at(texts, rows)


def compile_matcher(pattern: str, automata: bool) -> Matcher:
    """A function of texts: whether each has a match."""
    if choose_engine(pattern) == "regex":
        return _make_backtracking_matcher(pattern)
    tree = compile_automaton(pattern) if automata and _is_large(pattern) else None
    return AutomatonMatcher(Scanner([tree])) if tree is not None else lambda texts: pc.match_substring_regex(texts, pattern)


def _is_large(pattern: str) -> bool:
    return any(int(count["maximum"] or count["minimum"]) >= LARGE for count in _COUNT.finditer(pattern))


def _check_regex(pattern: str) -> Literal["regex"]:
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadRegexError(f"{pattern!r} is not a regular expression: {error}") from error
    return "regex"


def _make_backtracking_matcher(pattern: str) -> Matcher:
    """A Python call for each distinct text that contains the pattern's literals."""
    return lambda texts: pa.array(list(search_texts(pattern, iter(texts.to_pylist()), log)), pa.bool_())
