"""The state graph of an automaton, read from its transition tables."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner.automata.transition_tables import STATE_BITS, TransitionTables

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

Move = tuple[int, int]
"""A register and its source: another register, or `etl.scanner.automata.registers.HERE`."""

LONGEST_LITERAL = 16
"""Bytes of a `StateGraph.literal`; a longer one is several literals."""


@dataclass(frozen=True)
class Edge:
    """A transition."""

    target: int
    moves: tuple[Move, ...]


class StateGraph:
    """States, by their rows in the tables; row 0 is the dead state."""

    def __init__(self, tables: TransitionTables) -> None:
        self.tables = tables
        self.start = tables.start >> tables.shift
        self._bounds = [int(bound) >> tables.shift for bound in tables.kinds]

    @cached_property
    def edges(self) -> list[list[Edge]]:
        """For each state, the transitions of the 256 bytes."""
        it = self.tables
        bounds = it.move_starts.tolist()
        moves = list(zip(it.move_to.tolist(), it.move_from.tolist(), strict=True))
        lists = [tuple(moves[first:stop]) for first, stop in itertools.pairwise(bounds)]
        entries = it.entries.reshape(-1, 1 << it.shift)[:, it.classes]
        target = (entries & ((1 << STATE_BITS) - 1)) >> it.shift
        made = {
            entry: Edge(int(row), lists[entry >> STATE_BITS])
            for entry, row in zip(entries.ravel().tolist(), target.ravel().tolist(), strict=True)
        }
        return [[made[entry] for entry in row] for row in entries.tolist()]

    def final(self, row: int) -> int:
        """The final of a text that ends in this state, -1 for none."""
        return int(self.tables.finals[row])

    def decided(self, row: int) -> bool:
        """Whether the result does not depend on the rest of the text."""
        return row == 0 or self._bounds[2] <= row < self._bounds[3]

    def ignores_rest(self, row: int) -> bool:
        """Whether all bytes are self-loops, so that the match ends at the text's end."""
        return self._bounds[1] <= row < self._bounds[2]

    def self_loops(self, row: int) -> Array:
        """bool[256]: the bytes that keep the state and move no registers."""
        return np.array([edge.target == row and not edge.moves for edge in self.edges[row]])

    def literal(self, row: int) -> tuple[bytes, list[Edge]]:
        """The bytes that must follow this state in any match, and their transitions."""
        word, edges = bytearray(), list[Edge]()
        while len(word) < LONGEST_LITERAL and (step := self._only(row)):
            word.append(step[0])
            edges.append(step[1])
            row = step[1].target
        return bytes(word), edges

    def _only(self, row: int) -> tuple[int, Edge] | None:
        """The only byte that does not end the match, and its transition; None if there are several."""
        if self.decided(row) or self.ignores_rest(row):
            return None
        on = [(byte, edge) for byte, edge in enumerate(self.edges[row]) if not self._ends(edge.target)]
        return on[0] if len(on) == 1 and on[0][1].target != row else None

    def _ends(self, row: int) -> bool:
        """Whether the state is dead or unknown."""
        return row == 0 or (self.decided(row) and self.tables.patterns[self.final(row)] < 0)
