"""Analyses a table's pattern: which literals every match contains, and which engine tests the texts that contain one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from etl.expressions.patterns.like import ANY_TEXT, like_tree, parse_like
from etl.rules.search.regex_literals import required_literals
from etl.rules.search.regex_search import choose_engine
from etl.scanner.regex_printer import format_regex
from etl.tables.literal_index import FOLDED, MUST_END, MUST_START, TESTED

Engine = Literal["", "re2", "regex"]
"""What tests a text: nothing (the literal decides), RE2, or the package regex, which backtracks."""

ENGINES: Sequence[Engine] = ("", "re2", "regex")

SHORTEST = 2
"""Minimal length of a literal in characters: shorter ones are in too many texts."""

_COMMON = 64
"""Number of patterns with the same literal from which on another, shorter literal is preferred."""


@dataclass(frozen=True, slots=True)
class PatternForm:
    """How a pattern is searched for."""

    literals: Sequence[tuple[str, int]]
    """Every match contains one of these literals (with traits, see `literal_index`). Empty: no literal is known."""

    engine: Engine
    test: str = ""
    """A regular expression for the engine."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A pattern with several candidates for its literals."""

    choices: Sequence[Sequence[tuple[str, int]]]
    engine: Engine
    test: str


def pattern_forms(match: str, patterns: Sequence[str]) -> Iterator[PatternForm | ValueError]:
    """The form of each pattern, or its error. Literals that many patterns share are chosen last."""
    drafts = [_draft(match, pattern) for pattern in patterns]
    shared = Counter(text for draft in drafts if isinstance(draft, _Draft) for choice in draft.choices for text, _ in choice)
    for draft in drafts:
        yield (
            draft
            if isinstance(draft, ValueError)
            else PatternForm(_choose_literals(draft.choices, shared), draft.engine, draft.test)
        )


def _choose_literals(choices: Sequence[Sequence[tuple[str, int]]], shared: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    def cost(choice: Sequence[tuple[str, int]]) -> tuple[int, int]:
        return max(max(shared[text], _COMMON) for text, _ in choice), -min(len(text) for text, _ in choice)

    return min(choices, key=cost, default=())


def _draft(match: str, pattern: str) -> _Draft | ValueError:
    try:
        return _DRAFTS[match](pattern)
    except ValueError as error:
        return error


def _like(pattern: str) -> _Draft:
    found = parse_like(pattern, "\\")
    parts = [part for before, part in zip([None, *found], found, strict=False) if part is not ANY_TEXT or before is not ANY_TEXT]
    shape = "".join("x" if isinstance(part, str) else "%" if part is ANY_TEXT else "_" for part in parts)
    texts = [(part, _trait(n, len(parts))) for n, part in enumerate(parts) if isinstance(part, str)]
    if shape in _PLAIN:
        return _Draft([texts], "", "")
    long = [[(text, trait | TESTED)] for text, trait in texts if len(text) >= SHORTEST]
    return _Draft(long, "re2", format_regex(like_tree(parts)))


_PLAIN = ("x", "x%", "%x", "%x%")


def _trait(index: int, count: int) -> int:
    return (MUST_START if index == 0 else 0) | (MUST_END if index == count - 1 else 0)


def _regex(pattern: str) -> _Draft:
    reader = choose_engine(pattern)
    found = required_literals(pattern.replace("(?P<", "(?<"), reader)
    literals = [(text, TESTED | FOLDED) for text in found]
    return _Draft([literals] if literals else [], reader, pattern)


_DRAFTS: Mapping[str, Callable[[str], _Draft]] = {"like": _like, "regex": _regex}
