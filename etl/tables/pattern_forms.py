"""A pattern of a table → the texts that it cannot do without, and what else must be asked of a text that has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from etl.expressions.likes import ANY_TEXT, parts_of, tree_of
from etl.rules.literals import required
from etl.rules.regexes import engine
from etl.scanner.written import regex_text
from etl.tables.literal_kernel import AT_END, AT_START, FOLDED, TESTED

Engine = Literal["", "re2", "regex"]
"""What tests a text: nothing, for the literal decides; RE2; the package regex, which backtracks."""

ENGINES: Sequence[Engine] = ("", "re2", "regex")

SHORTEST = 2
"""A literal of one character is in too many texts to narrow a test down."""

_COMMON = 64
"""Patterns that share a literal; beyond, a shorter one is better."""


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern."""

    literals: Sequence[tuple[str, int]]
    """One of these texts is in every text it is found in; where each must stand, as `literal_kernel` says. Empty: none known."""

    engine: Engine
    test: str = ""
    """A regular expression for the engine."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A form whose literal is not chosen yet: there may be several it cannot do without."""

    choices: Sequence[Sequence[tuple[str, int]]]
    engine: Engine
    test: str


def forms(match: str, patterns: Sequence[str]) -> Iterator[Form | ValueError]:
    """Each pattern's form, or what is wrong with it. Literals that many patterns share are taken last."""
    drafts = [_draft(match, pattern) for pattern in patterns]
    shared = Counter(text for draft in drafts if isinstance(draft, _Draft) for choice in draft.choices for text, _ in choice)
    for draft in drafts:
        yield draft if isinstance(draft, ValueError) else Form(_chosen(draft.choices, shared), draft.engine, draft.test)


def _chosen(choices: Sequence[Sequence[tuple[str, int]]], shared: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    def cost(choice: Sequence[tuple[str, int]]) -> tuple[int, int]:
        return max(max(shared[text], _COMMON) for text, _ in choice), -min(len(text) for text, _ in choice)

    return min(choices, key=cost, default=())


def _draft(match: str, pattern: str) -> _Draft | ValueError:
    try:
        return _DRAFTS[match](pattern)
    except ValueError as error:
        return error


def _like(pattern: str) -> _Draft:
    found = parts_of(pattern, "\\")
    parts = [part for before, part in zip([None, *found], found, strict=False) if part is not ANY_TEXT or before is not ANY_TEXT]
    shape = "".join("x" if isinstance(part, str) else "%" if part is ANY_TEXT else "_" for part in parts)
    texts = [(part, _trait(n, len(parts))) for n, part in enumerate(parts) if isinstance(part, str)]
    if shape in _PLAIN:
        return _Draft([texts], "", "")
    long = [[(text, trait | int(TESTED))] for text, trait in texts if len(text) >= SHORTEST]
    return _Draft(long, "re2", regex_text(tree_of(parts)))


_PLAIN = ("x", "x%", "%x", "%x%")


def _trait(place: int, count: int) -> int:
    return (int(AT_START) if place == 0 else 0) | (int(AT_END) if place == count - 1 else 0)


def _regex(pattern: str) -> _Draft:
    reader = engine(pattern)
    found = required(pattern.replace("(?P<", "(?<"), reader)
    literals = [(text, int(TESTED | FOLDED)) for text in found]
    return _Draft([literals] if literals else [], reader, pattern)


_DRAFTS: Mapping[str, Callable[[str], _Draft]] = {"like": _like, "regex": _regex}
