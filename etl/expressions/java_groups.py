"""What Java's groups hold when a match is found, which is not always what the match put there."""

from __future__ import annotations

from etl.scanner.demands import first_bytes
from etl.scanner.tree import Atomic, Group, Look, Node, Repeat, children, walk


def is_sure(node: Node, number: int) -> bool:
    """Whether a group holds what Perl's would, 0 always.

    Java leaves what a group found in an attempt that failed, if the group is in a part that is matched on its own: a loop's
    turn, an atomic group, a look-around. Only a loop's own group is put back, and what is in an option. And where a turn may
    be empty, Java ends the loop, whatever its count.
    """
    if isinstance(node, Group) and node.number == number:
        return True
    if isinstance(node, Repeat) and node.kind != "possessive":
        return _is_sure_in_repeat(node, number)
    if isinstance(node, Repeat | Atomic | Look):
        return not _holds(node.part, number)
    return all(is_sure(part, number) for part in children(node))


def _is_sure_in_repeat(node: Repeat, number: int) -> bool:
    if isinstance(node.part, Group) and node.part.number == number:
        return not first_bytes(node.part)[1]
    return is_sure(node.part, number) if (node.least, node.most) == (0, 1) else not _holds(node.part, number)


def _holds(node: Node, number: int) -> bool:
    return any(isinstance(inner, Group) and inner.number == number for inner in walk(node))
