"""Literals that every match of a regular expression contains: a scan for them says on which texts to test the expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Literal

from etl.expressions.patterns.java_characters import NoFormError
from etl.expressions.patterns.java_regex import parse
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Anchor, Atomic, Capture, Chars, Choice, Group, Node, Repeat
from etl.scanner.tree import Sequence as Parts

SHORTEST = 2
"""Shortest literal in characters: a single character is in too many texts,"""

RARE = frozenset("`^~!@#$|<>{}[];&*?+%")
"""except these, which are in few texts."""

MAX_ALTERNATIVES = 256
"""Largest number of alternatives; with more, every text is tested."""

Dialect = Literal["re2", "regex", "java"]
"""What the expression is written for: RE2, the package ``regex``, or Java."""

EqualLetters = Mapping[str, str]
"""Letters of ASCII → the letter beyond ASCII that each equals if case does not count."""

_EQUAL_LETTERS: Mapping[Dialect, EqualLetters] = {
    "re2": {"k": "\u212a", "s": "\u017f"},
    "regex": {"k": "\u212a", "s": "\u017f", "i": "\u0130"},
    "java": {},
}

_MAX_FORMS = 8
"""Largest number of forms of a literal that such letters make; a literal with more is cut."""

_AMBIGUOUS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*(?:&&|\[)", re.DOTALL)
"""Notations in a class that Java, RE2 and Python read differently."""


def required_literals(pattern: str, dialect: Dialect = "re2") -> tuple[str, ...]:
    """Literals of which every match contains one, in any case of ASCII letters; empty if none are known."""
    tree = _parse(pattern)
    found = _find_required(tree, _EQUAL_LETTERS[dialect]) if tree is not None else ()
    return found if _worth(found) >= SHORTEST and len(found) <= MAX_ALTERNATIVES else ()


def all_required_literals(pattern: str, dialect: Dialect = "re2") -> list[tuple[str, ...]]:
    """Sets of literals: every match contains one of each set, in any case of ASCII letters. The longest first."""
    tree = _parse(pattern)
    while isinstance(tree, Group | Capture | Atomic):
        tree = tree.part
    found = _runs(list(_flat([tree])), _EQUAL_LETTERS[dialect]) if isinstance(tree, Parts) else ()
    return sorted((one for one in dict.fromkeys(found) if one and len(one) <= MAX_ALTERNATIVES), key=_worth, reverse=True)


def exact_required_literals(pattern: str) -> list[tuple[str, ...]]:
    """Sets of literals with letters: every match contains one of each set, in exactly this case. The longest first."""
    tree = _parse(pattern)
    while isinstance(tree, Group | Capture | Atomic):
        tree = tree.part
    found = _runs(list(_flat([tree])), None) if isinstance(tree, Parts) else ()
    with_letters = [one for one in dict.fromkeys(found) if one and len(one) <= MAX_ALTERNATIVES and any(map(_has_letters, one))]
    return sorted(with_letters, key=_worth, reverse=True)


def _has_letters(text: str) -> bool:
    return any(char.isascii() and char.isalpha() for char in text)


def _worth(texts: Sequence[str]) -> int:
    """How few texts contain one of them: the length of the shortest."""
    return min((SHORTEST if text in RARE else len(text) for text in texts), default=0)


def min_length(pattern: str) -> int:
    """A lower bound of the bytes of a match."""
    tree = _parse(pattern)
    return _min_length(tree) if tree is not None else 0


def _parse(pattern: str) -> Node | None:
    if _AMBIGUOUS.search(pattern):
        return None
    try:
        return parse(pattern).tree
    except (NoFormError, PatternError, RecursionError, ValueError):
        return None


def _min_length(node: Node) -> int:
    if isinstance(node, Chars):
        return 1
    if isinstance(node, Parts):
        return sum(map(_min_length, node.parts))
    if isinstance(node, Choice):
        return min(map(_min_length, node.parts), default=0)
    if isinstance(node, Repeat):
        return node.minimum * _min_length(node.part)
    return _min_length(node.part) if isinstance(node, Group | Capture | Atomic) else 0


def _find_required(node: Node, equal: EqualLetters | None) -> tuple[str, ...]:
    if isinstance(node, Choice):
        found = [_find_required(part, equal) for part in node.parts]
        return tuple(dict.fromkeys(text for one in found for text in one)) if all(found) else ()
    if isinstance(node, Repeat):
        return _find_required(node.part, equal) if node.minimum else ()
    if isinstance(node, Group | Capture | Atomic):
        return _find_required(node.part, equal)
    if isinstance(node, Parts | Chars):
        return max(_runs(list(_flat([node])), equal), key=_worth, default=())
    return ()


def _flat(parts: Sequence[Node]) -> Iterator[Node]:
    """The parts of a sequence in order, with groups and repeats resolved."""
    for part in parts:
        if isinstance(part, Parts):
            yield from _flat(part.parts)
        elif isinstance(part, Group | Capture | Atomic) and isinstance(part.part, Parts | Chars):
            yield from _flat([part.part])
        elif isinstance(part, Repeat) and part.minimum and isinstance(part.part, Chars):
            yield from [part.part] * min(part.minimum, MAX_ALTERNATIVES)
            if part.maximum != part.minimum:
                yield Repeat(part.part, 0, None)
        elif isinstance(part, Repeat) and part.minimum and isinstance(part.part, Parts | Group | Capture | Atomic):
            # the first repeat follows what is before, what is after follows the last repeat
            yield from _flat([part.part])
            yield Repeat(part.part, 0, None)
            if not _nests(part.part):
                yield from _flat([part.part])
        elif not isinstance(part, Anchor):
            yield part


def _nests(node: Node) -> bool:
    """Whether it contains repeats or alternatives: such parts are not doubled, which would grow exponentially with depth."""
    if isinstance(node, Parts):
        return any(map(_nests, node.parts))
    return _nests(node.part) if isinstance(node, Group | Capture | Atomic) else not isinstance(node, Chars | Anchor)


def _runs(parts: Sequence[Node], equal: EqualLetters | None) -> Iterator[tuple[str, ...]]:
    """What a sequence requires: each run of single characters, and what each other part requires."""
    run: list[str] = []
    for part in parts:
        forms = _single(part, equal)
        if run and (not forms or prod(map(len, [*run, forms])) > _MAX_FORMS):
            yield _texts(run)
            run = []
        if forms:
            run.append(forms)
        elif not isinstance(part, Chars):
            yield _find_required(part, equal)
    if run:
        yield _texts(run)


def _texts(run: Sequence[str]) -> tuple[str, ...]:
    return tuple("".join(forms) for forms in product(*run))


def _single(node: Node, equal: EqualLetters | None) -> str:
    """The one character that it matches, or one letter in both cases with a letter that equals it; of a choice all of them.

    Without ``equal``, a letter in both cases gives nothing: case counts.
    """
    if isinstance(node, Group | Capture | Atomic):
        return _single(node.part, equal)
    if isinstance(node, Choice):
        found = [_single(part, equal) for part in node.parts]
        return "".join(dict.fromkeys("".join(found))) if found and all(found) else ""
    if not isinstance(node, Chars) or node.of.wide or node.of.others or not node.of.ascii:
        return ""
    mask = node.of.ascii
    char = chr(mask.bit_length() - 1)
    if mask & (mask - 1) == 0:
        return char
    both_cases = char.isalpha() and mask == (1 << ord(char)) | (1 << ord(char.upper()))
    return char + equal.get(char, "") if both_cases and equal is not None else ""
