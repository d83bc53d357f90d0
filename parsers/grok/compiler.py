"""A grok expression → its tree: names are looked up, definitions put in their place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from etl.scanner.pattern_error import PatternError
from etl.scanner.syntax import parse
from etl.scanner.tree import Anchor, Node, sequence, walk
from parsers import patterns as library

MAX_NODES = 20_000
"""Nodes of an expanded pattern; definitions that double each other are refused before memory is full."""

MAX_CACHED = 512
"""Compiled patterns that a process caches: the check, the fields and the run of a step need the same ones."""


@lru_cache(maxsize=MAX_CACHED)
def compile_pattern(
    pattern: str,
    pattern_set: str | None,
    own: frozenset[tuple[str, str]],
    anchored: bool,
    dot_matches_newline: bool = True,
) -> Node | PatternError:
    """The tree of a grok expression, or what is wrong with it; ``own`` are the user's names and expressions.

    ``anchored``: it must match the whole text.
    """
    try:
        tree = _definitions(pattern_set, own, dot_matches_newline).compile(pattern)
        return sequence([Anchor("\\A"), tree, Anchor("\\z")]) if anchored else tree
    except PatternError as error:
        return error.with_traceback(None)


@lru_cache(maxsize=8)
def _definitions(pattern_set: str | None, own: frozenset[tuple[str, str]], dot_matches_newline: bool) -> Definitions:
    texts = library.load(pattern_set) if pattern_set else {}
    return Definitions({**texts, **dict(own)}, dot_matches_newline)


class Definitions:
    """The library with the user's own patterns over it; trees are kept, so that each is read once."""

    def __init__(self, texts: Mapping[str, str], dot_matches_newline: bool) -> None:
        self._texts = texts
        self._dot_matches_newline = dot_matches_newline
        self._trees: dict[str, tuple[Node, int]] = {}

    def compile(self, pattern: str) -> Node:
        """The tree of a grok expression. Raises PatternError, whose position is in ``pattern``."""
        try:
            tree = parse(pattern, partial(self._tree, ()), self._dot_matches_newline)
            _size(tree, 0)
            return tree
        except RecursionError:
            raise PatternError("the pattern is nested too deeply", 0) from None

    def _tree(self, within: tuple[str, ...], name: str, at: int) -> Node:
        """The tree of a definition used in others. Raises PatternError, placed where the name is used."""
        if name not in self._texts:
            from parsers.grok.reference_checks import name_hint

            raise PatternError(f"there is no grok pattern {name!r}", at, "unknown-pattern", name_hint(name, self._texts))
        if name in within:
            circle = " → ".join([*within[within.index(name) :], name])
            raise PatternError(f"grok pattern {name!r} is defined by itself: {circle}", at, "cyclic-pattern")
        if name not in self._trees:
            self._trees[name] = self._read(within, name, at)
        return self._trees[name][0]

    def _read(self, within: tuple[str, ...], name: str, at: int) -> tuple[Node, int]:
        try:
            tree = parse(self._texts[name], partial(self._tree, (*within, name)), self._dot_matches_newline)
        except PatternError as error:
            if error.code != "bad-pattern":
                raise PatternError(error.message, at, error.code, error.hint) from None
            message = f"in the definition of {name!r}, character {error.at}: {error.message}"
            raise PatternError(message, at, error.code, error.hint) from None
        return tree, _size(tree, at)


def _size(tree: Node, at: int) -> int:
    size = 0
    for _ in walk(tree):
        size += 1
        if size > MAX_NODES:
            raise PatternError(f"the pattern has more than {MAX_NODES} parts when its names are expanded", at)
    return size
