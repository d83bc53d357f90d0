"""Trees rewritten so that RE2 can run them, with both neighbours of each node in view.

Look-around of one character and atomic groups are dropped where what stands beside them makes them true anyway,
and word edges between known characters vanish: the meaning stays exactly the same.
"""

from __future__ import annotations

from dataclasses import replace

from parsers.char_class import ANY, WORD
from parsers.regex_decided import settled
from parsers.regex_sides import NOTHING, Side, can_be_empty, either, next_to, single_class
from parsers.regex_tree import (
    EMPTY,
    Atomic,
    Capture,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Node,
    Repeat,
    Sequence,
    captures,
    sequence,
)

NEVER = Chars(NOTHING)
"""Matches nothing."""


def rewritten(node: Node, before: Side, after: Side) -> Node:
    """The tree between two neighbours."""
    if isinstance(node, Sequence):
        return _rewrite_sequence(node.parts, before, after)
    if isinstance(node, Choice):
        return Choice(tuple(rewritten(part, before, after) for part in node.parts))
    if isinstance(node, Repeat):
        return _rewrite_repeat(node, before, after)
    if isinstance(node, Capture | Group):
        return replace(node, part=rewritten(node.part, before, after))
    if isinstance(node, Atomic):
        return _rewrite_atomic(node, before, after)
    if isinstance(node, Look):
        return _rewrite_look(node, before, after)
    if isinstance(node, Edge):
        return EMPTY if _edge_is_true(node, before, after) else node
    return node


def _rewrite_sequence(parts: tuple[Node, ...], before: Side, after: Side) -> Node:
    follows = [after]
    for part in reversed(parts):
        follows.append(next_to(part, follows[-1], forward=True))
    follows.reverse()
    done: list[Node] = []
    for n, part in enumerate(parts):
        done.append(rewritten(part, before, follows[n + 1]))
        before = next_to(part, before, forward=False)
    return _narrowed(_rest_read(sequence(done), after))


def _rest_read(node: Node, after: Side) -> Node:
    """``(?![a]).*`` at the end → ``(?:[^a].*|\\z)``: the rest, if it does not begin so."""
    if not after.free or not isinstance(node, Sequence) or len(node.parts) < 2:
        return node
    look, rest = node.parts[-2:]
    refused = single_class(look.part) if isinstance(look, Look) and look.ahead and look.negative else None
    all_of_it = Repeat(Chars(ANY), 0, None)
    read = Choice((sequence([Chars(refused.inverted()), all_of_it]), Edge("\\z"))) if refused is not None else None
    if read is not None and rest == all_of_it:
        return sequence([*node.parts[:-2], read])
    if read is not None and isinstance(rest, Capture) and rest.part == all_of_it:
        return sequence([*node.parts[:-2], replace(rest, part=read)])
    return node


def _narrowed(node: Node) -> Node:
    """``(?![a])[a-z]`` → ``[b-z]``: a negative look-ahead of one character in front of one character."""
    if not isinstance(node, Sequence):
        return node
    parts: list[Node] = list(node.parts)
    for n in range(len(parts) - 1, 0, -1):
        look, chars = parts[n - 1], parts[n]
        refused = single_class(look.part) if isinstance(look, Look) and look.ahead and look.negative else None
        if refused is not None and isinstance(chars, Chars):
            try:
                parts[n - 1 : n + 1] = [Chars(chars.of.without(refused))]
            except ValueError:
                continue
    return sequence(parts)


def _rewrite_repeat(node: Repeat, before: Side, after: Side) -> Node:
    if node.most == 0 and not captures(node):
        return EMPTY
    inside = node.most is None or node.most > 1
    entry = either([next_to(node.part, before, forward=False), before]) if inside else before
    leave = either([next_to(node.part, after, forward=True), after], free=False if inside else after.free) if inside else after
    part = rewritten(node.part, entry, leave)
    greedy = Repeat(part, node.least, node.most)
    if node.kind == "possessive" and settled(greedy, after):
        return greedy
    return Repeat(part, node.least, node.most, node.kind)


def _rewrite_atomic(node: Atomic, before: Side, after: Side) -> Node:
    part = rewritten(node.part, before, after)
    return part if settled(part, after) else Atomic(part)


def _rewrite_look(look: Look, before: Side, after: Side) -> Node:
    if captures(look.part):
        return look
    if _look_is_true(look, before, after):
        return EMPTY
    single = single_class(look.part)
    if look.negative and not look.ahead and single is not None and not before.edge:
        return look if before.chars.empty or before.chars.meets(single.inverted()) else NEVER
    return look


def _look_is_true(look: Look, before: Side, after: Side) -> bool:
    side = after if look.ahead else before
    if not look.negative:
        return can_be_empty(look.part) and isinstance(look.part, Repeat)
    if isinstance(look.part, Choice):
        return all(_look_is_true(replace(look, part=part), before, after) for part in look.part.parts)
    nearest = next_to(look.part, Side(NOTHING, edge=True), forward=look.ahead)
    return not nearest.edge and not side.chars.meets(nearest.chars)


def _edge_is_true(edge: Edge, before: Side, after: Side) -> bool:
    if edge.kind == "\\b":
        return (_all_word(before) and _no_word(after)) or (_no_word(before) and _all_word(after))
    return edge.kind == "$" and after.chars.empty


def _all_word(side: Side) -> bool:
    return not side.edge and not side.chars.empty and not side.chars.meets(WORD.inverted())


def _no_word(side: Side) -> bool:
    return not side.chars.meets(WORD)
