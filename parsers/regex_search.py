"""The trees that find a pattern at a text's beginning, or anywhere in it."""

from __future__ import annotations

from parsers.char_class import ANY, CharClass
from parsers.regex_ends import ends_read, lifted
from parsers.regex_rewrite import rewritten
from parsers.regex_sides import BEGINNING, OUTSIDE, Side, single_class
from parsers.regex_tree import Chars, Choice, Edge, Look, Node, Sequence, backtracking_reason, sequence, walk

MOST_BEFORE = 4
"""Kinds of characters before the match that a search tells apart."""


def at_beginning(node: Node) -> Node:
    """The tree for a match at the text's first character."""
    return ends_read(lifted(rewritten(lifted(node), BEGINNING, OUTSIDE)))


def searched(node: Node) -> list[Node]:
    """Trees for a match anywhere, one of which finds it; all have the captures of ``node``.

    Where look-behind asks for the character before the match, that character is read first: every match then
    begins one character earlier, so the leftmost stays the leftmost. One tree for each kind of that character.
    """
    plain = ends_read(lifted(rewritten(lifted(node), Side(ANY, edge=True), OUTSIDE)))
    asked = _asked_behind(plain)
    kinds = _kinds(asked) if asked else []
    if not kinds or len(kinds) > MOST_BEFORE:
        return [plain]
    trees = []
    for kind in kinds:
        edge = not any(kind.meets(of) for of in asked)
        body = ends_read(lifted(rewritten(lifted(node), Side(kind, edge=edge), OUTSIDE)))
        trees.append(sequence([Choice((Edge("\\A"), Chars(kind))) if edge else Chars(kind), body]))
    trees.sort(key=_begins_with_character)
    return [plain] if any(map(backtracking_reason, trees)) else trees


def _begins_with_character(tree: Node) -> bool:
    return isinstance(tree, Sequence) and isinstance(tree.parts[0], Chars)


def _asked_behind(node: Node) -> list[CharClass]:
    """The classes that look-behinds of the tree ask for; empty when one asks for more than a character."""
    looks = [found for found in walk(node) if isinstance(found, Look) and not found.ahead]
    asked = [single_class(look.part) for look in looks]
    return list({of: None for of in asked if of is not None}) if None not in asked else []


def _kinds(asked: list[CharClass]) -> list[CharClass]:
    kinds = [ANY]
    try:
        for of in asked:
            kinds = [part for kind in kinds for part in (kind.without(of), kind.intersection(of)) if not part.empty]
    except ValueError:
        return []
    return kinds
