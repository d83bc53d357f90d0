"""An automaton's tables, asked state by state."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner.tables import STATE_BITS, Tables

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

Move = tuple[int, int]
"""A register and what it is set to: another register's place, or `etl.scanner.registers.HERE`."""

LONGEST_WORD = 16
"""Bytes of a `Graph.word`; one that goes on is several."""


@dataclass(frozen=True)
class Edge:
    """Where a byte leads."""

    target: int
    moves: tuple[Move, ...]


class Graph:
    """States by their rows in the tables; row 0 is dead."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.start = tables.start >> tables.shift
        self._bounds = [int(bound) >> tables.shift for bound in tables.kinds]

    @cached_property
    def edges(self) -> list[list[Edge]]:
        """Of each state, where the 256 bytes lead."""
        it = self.tables
        bounds = it.move_starts.tolist()
        moves = list(zip(it.move_to.tolist(), it.move_from.tolist(), strict=True))
        lists = [tuple(moves[first:behind]) for first, behind in itertools.pairwise(bounds)]
        entries = it.entries.reshape(-1, 1 << it.shift)[:, it.classes]
        target = (entries & ((1 << STATE_BITS) - 1)) >> it.shift
        made = {
            entry: Edge(int(row), lists[entry >> STATE_BITS])
            for entry, row in zip(entries.ravel().tolist(), target.ravel().tolist(), strict=True)
        }
        return [[made[entry] for entry in row] for row in entries.tolist()]

    def final(self, row: int) -> int:
        """The final of a text that ends in a state, -1 for none."""
        return int(self.tables.finals[row])

    def decided(self, row: int) -> bool:
        """Whether a text's fate does not depend on what follows."""
        return row == 0 or self._bounds[2] <= row < self._bounds[3]

    def skips(self, row: int) -> bool:
        """Whether only the text's end counts."""
        return self._bounds[1] <= row < self._bounds[2]

    def stays(self, row: int) -> Array:
        """bool[256]: the bytes that change nothing."""
        return np.array([edge.target == row and not edge.moves for edge in self.edges[row]])

    def word(self, row: int) -> tuple[bytes, list[Edge]]:
        """The bytes that must follow in a state for a text to match, and where each leads."""
        word, edges = bytearray(), list[Edge]()
        while len(word) < LONGEST_WORD and (step := self._only(row)):
            word.append(step[0])
            edges.append(step[1])
            row = step[1].target
        return bytes(word), edges

    def _only(self, row: int) -> tuple[int, Edge] | None:
        """The one byte that leads on from a state, and where to, if there is only one."""
        if self.decided(row) or self.skips(row):
            return None
        on = [(byte, edge) for byte, edge in enumerate(self.edges[row]) if not self._ends(edge.target)]
        return on[0] if len(on) == 1 and on[0][1].target != row else None

    def _ends(self, row: int) -> bool:
        """Whether nothing matches any more, or nothing is known of what follows."""
        return row == 0 or (self.decided(row) and self.tables.patterns[self.final(row)] < 0)
