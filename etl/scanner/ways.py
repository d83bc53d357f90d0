"""Which engine runs a pattern, and why: told by lint and explain before anything runs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from etl.scanner.demands import is_poisoned, obstacle, size
from etl.scanner.program import MOST_INSTRUCTIONS
from etl.scanner.tree import Node, backtracking_reason

Engine = Literal["scanner", "RE2", "regex"]


class Way(NamedTuple):
    """``reason``: what keeps the pattern from the engines before; beside the scanner, what keeps some texts from it."""

    engine: Engine
    reason: str | None = None


def way(tree: Node) -> Way:
    """The first engine that takes the pattern. Looks at the tree only: 0.1 ms for a large pattern."""
    against = obstacle(tree)
    if against is None and size(tree) > MOST_INSTRUCTIONS:
        against = "counted repeats that multiply, or thousands of alternatives"
    if against is None:
        return Way("scanner", "a look-ahead of more than one character" if is_poisoned(tree) else None)
    return Way("RE2" if backtracking_reason(tree) is None else "regex", against)
