"""Texts that every match of a regular expression has in it: found in one scan, they say where it is worth trying."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from etl.expressions.java_characters import NoFormError
from etl.expressions.java_regex import parse
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Atomic, Capture, Chars, Choice, Edge, Group, Node, Repeat
from etl.scanner.tree import Sequence as Parts

SHORTEST = 2
"""A single character is in too many texts to narrow anything down."""

MOST = 256
"""Alternatives; with more, every text is tried."""

_AMBIGUOUS = re.compile(r"&&|\[[^\]]*\[")
"""In a class, what Java, RE2 and Python read each in its own way."""


def required(pattern: str) -> tuple[str, ...]:
    """One of these texts, in some case, is in every text the pattern is found in; empty when no such are known."""
    tree = _tree(pattern)
    found = _required(tree) if tree is not None else ()
    return found if _worth(found) >= SHORTEST and len(found) <= MOST else ()


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


def _required(node: Node) -> tuple[str, ...]:
    if isinstance(node, Choice):
        found = [_required(part) for part in node.parts]
        return tuple(dict.fromkeys(text for one in found for text in one)) if all(found) else ()
    if isinstance(node, Repeat):
        return _required(node.part) if node.least else ()
    if isinstance(node, Group | Capture | Atomic):
        return _required(node.part)
    if isinstance(node, Parts | Chars):
        return max(_runs(list(_flat([node]))), key=_worth, default=())
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
        elif not isinstance(part, Edge):
            yield part


def _runs(parts: Sequence[Node]) -> Iterator[tuple[str, ...]]:
    """What a sequence asks for: each run of single characters, and what each other part asks for."""
    run = ""
    for part in parts:
        char = _single(part)
        run += char
        if not char:
            yield (run,) if run else ()
            run = ""
            if not isinstance(part, Chars):
                yield _required(part)
    yield (run,) if run else ()


def _single(node: Node) -> str:
    """The one character it stands for, or one letter in both cases."""
    if not isinstance(node, Chars) or node.of.wide or node.of.others or not node.of.ascii:
        return ""
    mask = node.of.ascii
    char = chr(mask.bit_length() - 1)
    both_cases = char.isalpha() and mask == (1 << ord(char)) | (1 << ord(char.upper()))
    return char if mask & (mask - 1) == 0 or both_cases else ""


def _worth(texts: Sequence[str]) -> int:
    return min(map(len, texts), default=0)
