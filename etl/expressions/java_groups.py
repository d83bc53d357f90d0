"""Whether a capturing group of a Java pattern holds the same text as in Perl."""

from __future__ import annotations

from etl.scanner.tree import Atomic, Group, Look, Node, Repeat, children, walk
from etl.scanner.tree_analysis import first_bytes


def has_perl_semantics(node: Node, number: int) -> bool:
    """Whether a group holds the same text as in Perl; always true for group 0.

    Java does not reset a group that matched in a failed attempt, if the group is inside a part that is matched on its own: the
    iteration of a loop, an atomic group, a look-around. It resets only the group of the loop itself, and groups inside an
    option. And if an iteration may be empty, Java ends the loop at an empty one, whatever its count.
    """
    if isinstance(node, Group) and node.number == number:
        return True
    if isinstance(node, Repeat) and node.kind != "possessive":
        return _is_sure_in_repeat(node, number)
    if isinstance(node, Repeat | Atomic | Look):
        return not _holds(node.part, number)
    return all(has_perl_semantics(part, number) for part in children(node))


def _is_sure_in_repeat(node: Repeat, number: int) -> bool:
    if isinstance(node.part, Group) and node.part.number == number:
        return not first_bytes(node.part)[1]
    return has_perl_semantics(node.part, number) if (node.least, node.most) == (0, 1) else not _holds(node.part, number)


def _holds(node: Node, number: int) -> bool:
    return any(isinstance(inner, Group) and inner.number == number for inner in walk(node))
