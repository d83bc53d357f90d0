"""Decides which engine runs a pattern, and why; `etl lint` and `etl explain` show it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from etl.scanner.program import MAX_INSTRUCTIONS
from etl.scanner.tree import Node, backtracking_reason
from etl.scanner.tree_analysis import estimate_size, is_poisoned, unsupported_construct

Engine = Literal["scanner", "RE2", "regex"]


class EngineChoice(NamedTuple):
    """``reason``: the construct that earlier engines do not support; for the scanner, one that sends some texts to another."""

    engine: Engine
    reason: str | None = None


def choose_engine(tree: Node) -> EngineChoice:
    """The first engine that supports the pattern. Reads the tree only: 0.1 ms for a large pattern."""
    reason = unsupported_construct(tree)
    if reason is None and estimate_size(tree) > MAX_INSTRUCTIONS:
        reason = "counted repeats that multiply, or thousands of alternatives"
    if reason is None:
        return EngineChoice("scanner", "a look-ahead of more than one character" if is_poisoned(tree) else None)
    return EngineChoice("RE2" if backtracking_reason(tree) is None else "regex", reason)
