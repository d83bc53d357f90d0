"""A grok expression → a program: names are looked up, definitions put in their place."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.regex_engine import Program, program
from parsers.regex_syntax import PatternError, parse
from parsers.regex_tree import Node, walk

MOST_NODES = 20_000
"""Nodes of an expanded pattern; definitions that double each other are refused before memory ends."""


class Definitions:
    """The library with the user's own patterns over it; trees are kept, so that each is read once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._trees: dict[str, tuple[Node, int]] = {}
        self._open: list[str] = []

    def compile(self, pattern: str, *, anchored: bool) -> Program:
        """The program of a grok expression. Raises PatternError, whose place is in ``pattern``."""
        try:
            tree = parse(pattern, self.tree)
            _size(tree, 0)
            return program(tree, anchored=anchored)
        except RecursionError:
            raise PatternError("the pattern is nested too deeply", 0) from None

    def tree(self, name: str, at: int) -> Node:
        """The tree of a definition. Raises PatternError, placed where the name is used."""
        if name not in self._texts:
            from etl.api import nearest

            raise PatternError(f"there is no grok pattern {name!r}", at, "unknown-pattern", nearest(name, self._texts))
        if name in self._open:
            circle = " → ".join([*self._open[self._open.index(name) :], name])
            raise PatternError(f"grok pattern {name!r} is defined by itself: {circle}", at, "cyclic-pattern")
        if name not in self._trees:
            self._trees[name] = self._read(name, at)
        return self._trees[name][0]

    def _read(self, name: str, at: int) -> tuple[Node, int]:
        self._open.append(name)
        try:
            tree = parse(self._texts[name], self.tree)
        except PatternError as error:
            if error.code != "bad-pattern":
                raise PatternError(error.message, at, error.code, error.hint) from None
            message = f"in the definition of {name!r}, character {error.at}: {error.message}"
            raise PatternError(message, at, error.code, error.hint) from None
        finally:
            self._open.pop()
        return tree, _size(tree, at)


def _size(tree: Node, at: int) -> int:
    size = 0
    for _ in walk(tree):
        size += 1
        if size > MOST_NODES:
            raise PatternError(f"the pattern has more than {MOST_NODES} parts when its names are expanded", at)
    return size
