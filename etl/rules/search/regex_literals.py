"""Texts that every match of a regular expression has in it: found in one scan, they say where it is worth trying."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Literal

from etl.expressions.java_characters import NoFormError
from etl.expressions.java_regex import parse
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Atomic, Capture, Chars, Choice, Edge, Group, Node, Repeat
from etl.scanner.tree import Sequence as Parts

SHORTEST = 2
"""A single character is in too many texts to narrow anything down,"""

RARE = frozenset("`^~!@#$|<>{}[];&*?+%")
"""but for these, which few texts have."""

MOST = 256
"""Alternatives; with more, every text is tried."""

Dialect = Literal["re2", "regex", "java"]
"""Who reads the expression: RE2, the package ``regex``, or Java."""

Alike = Mapping[str, str]
"""Letters of ASCII → the other letter that each equals without regard to case."""

_ALIKE: Mapping[Dialect, Alike] = {
    "re2": {"k": "\u212a", "s": "\u017f"},
    "regex": {"k": "\u212a", "s": "\u017f", "i": "\u0130"},
    "java": {},
}

_MOST_FORMS = 8
"""Texts that one makes with the letters that equal those in it; a longer text is cut."""

_AMBIGUOUS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*(?:&&|\[)", re.DOTALL)
"""In a class, what Java, RE2 and Python read each in its own way."""


def required(pattern: str, dialect: Dialect = "re2") -> tuple[str, ...]:
    """One of these texts, in some case of ASCII's letters, is in every text the pattern is found in; empty when no such are
    known."""
    tree = _tree(pattern)
    found = _required(tree, _ALIKE[dialect]) if tree is not None else ()
    return found if _worth(found) >= SHORTEST and len(found) <= MOST else ()


def all_required(pattern: str, dialect: Dialect = "re2") -> list[tuple[str, ...]]:
    """Sets of texts: one of each is in every text the pattern is found in, in some case of ASCII's letters. The best first."""
    tree = _tree(pattern)
    while isinstance(tree, Group | Capture | Atomic):
        tree = tree.part
    found = _runs(list(_flat([tree])), _ALIKE[dialect]) if isinstance(tree, Parts) else ()
    return sorted((one for one in dict.fromkeys(found) if one and len(one) <= MOST), key=_worth, reverse=True)


def exactly_required(pattern: str) -> list[tuple[str, ...]]:
    """Sets of texts with letters, the best first: one of each is in every text the pattern is found in, in just this case."""
    tree = _tree(pattern)
    while isinstance(tree, Group | Capture | Atomic):
        tree = tree.part
    found = _runs(list(_flat([tree])), None) if isinstance(tree, Parts) else ()
    with_letters = [one for one in dict.fromkeys(found) if one and len(one) <= MOST and any(map(_has_letters, one))]
    return sorted(with_letters, key=_worth, reverse=True)


def _has_letters(text: str) -> bool:
    return any(char.isascii() and char.isalpha() for char in text)


def _worth(texts: Sequence[str]) -> int:
    """How much they narrow down: the fewest characters of one of them."""
    return min((SHORTEST if text in RARE else len(text) for text in texts), default=0)


def shortest(pattern: str) -> int:
    """Bytes that every text has at least in which the pattern is found."""
    tree = _tree(pattern)
    return _least(tree) if tree is not None else 0


def _tree(pattern: str) -> Node | None:
    if _AMBIGUOUS.search(pattern):
        return None
    try:
        return parse(pattern).tree
    except (NoFormError, PatternError, RecursionError, ValueError):
        return None


def _least(node: Node) -> int:
    if isinstance(node, Chars):
        return 1
    if isinstance(node, Parts):
        return sum(map(_least, node.parts))
    if isinstance(node, Choice):
        return min(map(_least, node.parts), default=0)
    if isinstance(node, Repeat):
        return node.least * _least(node.part)
    return _least(node.part) if isinstance(node, Group | Capture | Atomic) else 0


def _required(node: Node, alike: Alike | None) -> tuple[str, ...]:
    if isinstance(node, Choice):
        found = [_required(part, alike) for part in node.parts]
        return tuple(dict.fromkeys(text for one in found for text in one)) if all(found) else ()
    if isinstance(node, Repeat):
        return _required(node.part, alike) if node.least else ()
    if isinstance(node, Group | Capture | Atomic):
        return _required(node.part, alike)
    if isinstance(node, Parts | Chars):
        return max(_runs(list(_flat([node])), alike), key=_worth, default=())
    return ()


def _flat(parts: Sequence[Node]) -> Iterator[Node]:
    """Parts one behind the other, out of plain groups."""
    for part in parts:
        if isinstance(part, Parts):
            yield from _flat(part.parts)
        elif isinstance(part, Group | Capture | Atomic) and isinstance(part.part, Parts | Chars):
            yield from _flat([part.part])
        elif isinstance(part, Repeat) and part.least and isinstance(part.part, Chars):
            yield from [part.part] * min(part.least, MOST)
            if part.most != part.least:
                yield Repeat(part.part, 0, None)
        elif isinstance(part, Repeat) and part.least and isinstance(part.part, Parts | Group | Capture | Atomic):
            # its first time follows what is in front, its last time is followed by what is behind
            yield from _flat([part.part])
            yield Repeat(part.part, 0, None)
            if not _nests(part.part):
                yield from _flat([part.part])
        elif not isinstance(part, Edge):
            yield part


def _nests(node: Node) -> bool:
    """Whether something in it repeats or has alternatives: such parts are not taken twice, which would double at each depth."""
    if isinstance(node, Parts):
        return any(map(_nests, node.parts))
    return _nests(node.part) if isinstance(node, Group | Capture | Atomic) else not isinstance(node, Chars | Edge)


def _runs(parts: Sequence[Node], alike: Alike | None) -> Iterator[tuple[str, ...]]:
    """What a sequence asks for: each run of single characters, and what each other part asks for."""
    run: list[str] = []
    for part in parts:
        forms = _single(part, alike)
        if run and (not forms or prod(map(len, [*run, forms])) > _MOST_FORMS):
            yield _texts(run)
            run = []
        if forms:
            run.append(forms)
        elif not isinstance(part, Chars):
            yield _required(part, alike)
    if run:
        yield _texts(run)


def _texts(run: Sequence[str]) -> tuple[str, ...]:
    return tuple("".join(forms) for forms in product(*run))


def _single(node: Node, alike: Alike | None) -> str:
    """The one character it stands for, or one letter in both cases, and with it a letter that equals that; of a choice all.

    Without ``alike``, a letter in both cases is none: texts are in just this case.
    """
    if isinstance(node, Group | Capture | Atomic):
        return _single(node.part, alike)
    if isinstance(node, Choice):
        found = [_single(part, alike) for part in node.parts]
        return "".join(dict.fromkeys("".join(found))) if found and all(found) else ""
    if not isinstance(node, Chars) or node.of.wide or node.of.others or not node.of.ascii:
        return ""
    mask = node.of.ascii
    char = chr(mask.bit_length() - 1)
    if mask & (mask - 1) == 0:
        return char
    both_cases = char.isalpha() and mask == (1 << ord(char)) | (1 << ord(char.upper()))
    return char + alike.get(char, "") if both_cases and alike is not None else ""
