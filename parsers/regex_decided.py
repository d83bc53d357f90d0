"""Whether a tree can go on in one way only: then RE2 needs one pass, and there is nothing to give back."""

from __future__ import annotations

from itertools import combinations

from parsers.regex_sides import END, NOTHING, Side, can_be_empty, either, next_to
from parsers.regex_tree import Atomic, Capture, Chars, Choice, Edge, Group, Look, Node, Repeat, Sequence


def decided_by_next(node: Node, after: Side = END) -> bool:
    """Whether at every place the next character alone says how to go on: then RE2 runs the tree in one pass."""
    if isinstance(node, Capture | Group):
        return decided_by_next(node.part, after)
    if isinstance(node, Sequence):
        for part in reversed(node.parts):
            if not decided_by_next(part, after):
                return False
            after = next_to(part, after, forward=True)
        return True
    if isinstance(node, Choice):
        firsts = [next_to(part, after, forward=True).chars for part in node.parts]
        apart = not any(one.meets(other) for one, other in combinations(firsts, 2))
        return apart and all(decided_by_next(part, after) for part in node.parts)
    if isinstance(node, Repeat):
        turn = next_to(node.part, Side(NOTHING, edge=False), forward=True)
        apart = not turn.chars.meets(after.chars)
        return apart and not can_be_empty(node.part) and decided_by_next(node.part, either([turn, after], free=False))
    return True


def settled(node: Node, after: Side) -> bool:
    """Whether, once it matched in the way it prefers, no other way of matching it can help what follows."""
    if after.free or isinstance(node, Chars | Edge | Look | Atomic):
        return True
    if isinstance(node, Capture | Group):
        return settled(node.part, after)
    if isinstance(node, Sequence):
        for part in reversed(node.parts):
            if not settled(part, after):
                return False
            after = next_to(part, after, forward=True)
        return True
    if isinstance(node, Choice):
        return apart_at_once(node) and all(settled(part, after) for part in node.parts)
    return isinstance(node, Repeat) and _settled_repeat(node, after)


def _settled_repeat(node: Repeat, after: Side) -> bool:
    """Giving back a turn helps only where what follows can begin like a turn."""
    if node.kind == "lazy" or can_be_empty(node.part):
        return False
    if node.kind == "possessive":
        return True
    turn = next_to(node.part, Side(NOTHING, edge=False), forward=True)
    return not after.chars.meets(turn.chars) and settled(node.part, either([turn, after], free=False))


def apart_at_once(node: Choice) -> bool:
    """Whether the next character alone decides between the branches."""
    if any(can_be_empty(part) for part in node.parts):
        return False
    firsts = [next_to(part, Side(NOTHING, edge=False), forward=True).chars for part in node.parts]
    return not any(one.meets(other) for one, other in combinations(firsts, 2))
