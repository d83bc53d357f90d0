"""Minimises an automaton, as far as it is built: merges equivalent states, then equivalent classes of bytes.

Source: Moore, "Gedanken-experiments on sequential machines" (1956): blocks of states are split until all states of a block
have the same transitions to blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner.automata.automaton import DEAD, UNKNOWN, Automaton

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


@dataclass
class Dfa:
    """States as rows; row 0 is the dead state, the last row the unknown one. ``weight``: average length of runs in a state."""

    next: Array
    moves: Array
    final: Array
    decided: Array
    weight: Array
    classes: Array
    start: int

    @classmethod
    def of(cls, automaton: Automaton) -> Dfa:
        known = [n for n, state in enumerate(automaton.states) if state.edges is not None]
        row = {number: n + 1 for n, number in enumerate(known)} | {DEAD: 0, UNKNOWN: len(known) + 1}
        unknown = len(known) + 1
        size = automaton.alphabet.size
        dfa = cls(
            np.zeros((unknown + 1, size), np.int64),
            np.zeros((unknown + 1, size), np.int64),
            np.full(unknown + 1, -1),
            np.zeros(unknown + 1, bool),
            np.zeros(unknown + 1),
            np.frombuffer(automaton.alphabet.of_byte, np.uint8).astype(np.int64),
            row[automaton.start],
        )
        for n, number in enumerate(known, 1):
            state = automaton.states[number]
            assert state.edges is not None
            dfa.next[n] = [row.get(target, unknown) for target, _ in state.edges]
            dfa.moves[n] = [moves if target in row else 0 for target, moves in state.edges]
            dfa.final[n] = state.final
            dfa.decided[n] = state.accepts
            dfa.weight[n] = state.visits / max(1, state.runs)
        dfa.next[unknown], dfa.final[unknown], dfa.decided[unknown] = unknown, UNKNOWN, True
        return dfa

    def minimise(self) -> Dfa:
        """Merge equivalent states, then equivalent classes."""
        block = _numbers(np.stack([self.final, self.decided], axis=1))
        while True:
            finer = _numbers(np.concatenate([block[:, None], block[self.next], self.moves], axis=1))
            if finer.max() == block.max():
                break
            block = finer
        block = _renumber_blocks(block)
        first = np.unique(block, return_index=True)[1]
        weight = np.zeros(len(first))
        np.maximum.at(weight, block, self.weight)
        rows, moves = block[self.next[first]], self.moves[first]
        columns = _numbers(np.concatenate([rows, moves]).T)
        column = np.unique(columns, return_index=True)[1]
        return Dfa(
            rows[:, column],
            moves[:, column],
            self.final[first],
            self.decided[first],
            weight,
            columns[self.classes],
            int(block[self.start]),
        )


def _numbers(rows: Array) -> Array:
    """Number the rows; equal rows get equal numbers."""
    packed = np.ascontiguousarray(rows.astype(np.int64)).view(np.dtype((np.void, rows.shape[1] * 8))).reshape(-1)
    return np.unique(packed, return_inverse=True)[1].reshape(-1)


def _renumber_blocks(block: Array) -> Array:
    """Number the blocks in the order of their first rows, so that the dead state stays first."""
    _, first, numbers = np.unique(block, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers.reshape(-1)]
