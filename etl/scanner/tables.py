"""An automaton as far as it is known → the flat arrays that the kernel runs over.

States that nobody can tell apart are merged (Moore, "Gedanken-experiments on sequential machines", 1956), then classes of
bytes. States are ordered by kind, so that one comparison tells the kernel that a state is special.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner.automaton import DEAD, UNKNOWN, Automaton
from etl.scanner.registers import HERE, UNSET

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

STATE_BITS = 20
"""Bits of an entry that say the next state (times the row length); the others number the moves."""

MOST_MOVES = 1 << (32 - STATE_BITS)
LONG_RUN = 6.0
"""Bytes that a state must on average keep to itself to have a loop of its own."""

DYING, RUNNING, FINDING, SKIPPING, DECIDED, PLAIN = range(6)
"""Kinds of states: no match any more; stays on most bytes (looked up, or all but three found 16 at once); stays on every
byte; the match is decided; all others."""


class TooLargeError(Exception):
    """The automaton does not fit into an entry's bits."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What `etl.scanner.kernel.scan` is called with; the names are its arguments."""

    entries: Array
    """uint32: of each state (row) and class the moves << 20 | the next row."""

    classes: Array
    """uint8[256]"""

    shift: int
    """Rows have 2 ** shift entries."""

    start: int
    kinds: Array
    """uint32[4]: the first rows behind the kinds running, finding, skipping, decided."""

    runs: Array
    """uint8: of each running state (and the dead one) 256 times whether the byte keeps it."""

    found: Array
    """uint8[·, 3]: the bytes that a finding state stops at."""

    move_starts: Array
    move_to: Array
    move_from: Array
    """int32: the moves of list n lie between ``move_starts[n]`` and the next; ``move_from`` may be `HERE`."""

    finals: Array
    """int32: of each state, its final or -1."""

    patterns: Array
    """int32: of each final, its pattern; `UNKNOWN` for texts that must be trained or left to another engine."""

    places: Array
    """int32[·, 2 * captures]: of each final, the registers of begin and end, `HERE` or `UNSET`."""

    registers: int
    names: tuple[str, ...]

    @property
    def fingerprint(self) -> int:
        """Tells these tables from others of the same patterns, that know other states."""
        return zlib.crc32(self.entries.tobytes())


def tables(automaton: Automaton) -> Tables:
    """Freeze what is known. Raises TooLargeError."""
    graph = _Graph.of(automaton).merged()
    return _laid_out(automaton, graph)


@dataclass
class _Graph:
    """States as rows; row 0 is dead, the last row unknown. ``weight`` is how long runs in a state are."""

    next: Array
    moves: Array
    final: Array
    decided: Array
    weight: Array
    classes: Array
    start: int

    @classmethod
    def of(cls, automaton: Automaton) -> _Graph:
        known = [n for n, state in enumerate(automaton.states) if state.edges is not None]
        row = {number: n + 1 for n, number in enumerate(known)} | {DEAD: 0, UNKNOWN: len(known) + 1}
        unknown = len(known) + 1
        size = automaton.alphabet.size
        graph = cls(
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
            graph.next[n] = [row.get(target, unknown) for target, _ in state.edges]
            graph.moves[n] = [moves if target in row else 0 for target, moves in state.edges]
            graph.final[n] = state.final
            graph.decided[n] = state.accepts
            graph.weight[n] = state.visits / max(1, state.runs)
        graph.next[unknown], graph.final[unknown], graph.decided[unknown] = unknown, UNKNOWN, True
        return graph

    def merged(self) -> _Graph:
        """States and classes that differ in nothing, as one."""
        block = _numbers(np.stack([self.final, self.decided], axis=1))
        while True:
            finer = _numbers(np.concatenate([block[:, None], block[self.next], self.moves], axis=1))
            if finer.max() == block.max():
                break
            block = finer
        block = _first_and_last_kept(block)
        first = np.unique(block, return_index=True)[1]
        weight = np.zeros(len(first))
        np.maximum.at(weight, block, self.weight)
        rows, moves = block[self.next[first]], self.moves[first]
        columns = _numbers(np.concatenate([rows, moves]).T)
        column = np.unique(columns, return_index=True)[1]
        return _Graph(
            rows[:, column],
            moves[:, column],
            self.final[first],
            self.decided[first],
            weight,
            columns[self.classes],
            int(block[self.start]),
        )


def _numbers(rows: Array) -> Array:
    """Equal rows get equal numbers."""
    packed = np.ascontiguousarray(rows.astype(np.int64)).view(np.dtype((np.void, rows.shape[1] * 8))).reshape(-1)
    return np.unique(packed, return_inverse=True)[1].reshape(-1)


def _first_and_last_kept(block: Array) -> Array:
    """Blocks numbered in the order of their first rows: the dead one stays first."""
    _, first, numbers = np.unique(block, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers.reshape(-1)]


def _laid_out(automaton: Automaton, graph: _Graph) -> Tables:
    stays = (graph.next[:, graph.classes] == np.arange(len(graph.next))[:, None]) & (graph.moves[:, graph.classes] == 0)
    kinds = _kinds(graph, stays.sum(axis=1))
    order = np.argsort(kinds, kind="stable")
    row = np.argsort(order)
    shift = max(1, int(graph.next.shape[1] - 1).bit_length())
    lists, move_starts, move_to, move_from, registers = _moves(automaton, graph)
    if len(order) << shift >= 1 << STATE_BITS or len(move_starts) > MOST_MOVES:
        raise TooLargeError
    entries = np.zeros((len(order), 1 << shift), np.int64)
    entries[:, : graph.next.shape[1]] = (row[graph.next[order]] << shift) | (lists[graph.moves[order]] << STATE_BITS)
    bounds = np.searchsorted(kinds[order], [RUNNING, FINDING, SKIPPING, DECIDED], side="right")
    names = tuple(dict.fromkeys(automaton.program.names))
    used, patterns, places = _finals(automaton, graph, registers, names)
    return Tables(
        entries.astype(np.uint32).reshape(-1),
        graph.classes.astype(np.uint8),
        shift,
        int(row[graph.start]) << shift,
        (bounds << shift).astype(np.uint32),
        stays[order][: bounds[0]].astype(np.uint8).reshape(-1),
        _three(~stays[order][bounds[0] : bounds[1]]),
        move_starts,
        move_to,
        move_from,
        np.array([used[final] for final in graph.final[order]], np.int32),
        patterns,
        places,
        len(registers),
        names,
    )


def _kinds(graph: _Graph, kept: Array) -> Array:
    """Of each state, its kind; ``kept`` is how many of the 256 bytes it keeps to itself."""
    kinds = np.full(len(kept), PLAIN)
    long = graph.weight >= LONG_RUN
    kinds[long & (kept > 0)] = RUNNING
    kinds[long & (kept >= 253)] = FINDING
    kinds[kept == 256] = SKIPPING
    kinds[graph.decided] = DECIDED
    kinds[0] = DYING
    return kinds


def _three(stops: Array) -> Array:
    """The one to three bytes of each row, the last repeated."""
    found = np.zeros((max(1, len(stops)), 3), np.uint8)
    for n, row in enumerate(stops):
        bytes_ = np.flatnonzero(row)
        found[n] = [bytes_[min(k, len(bytes_) - 1)] for k in range(3)]
    return found


def _moves(automaton: Automaton, graph: _Graph) -> tuple[Array, Array, Array, Array, dict[int, int]]:
    """Lists that are in use, numbered from 0, and the registers that they or a final touch, numbered from 0."""
    every = list(automaton.registers.lists)
    used = sorted({0, *np.unique(graph.moves).tolist()})
    finals = [final for final, number in automaton.finals.items() if number in set(graph.final.tolist())]
    touched = {register for n in used for move in every[n] for register in move if register >= 0}
    touched |= {register for final in finals for _, register in final.places if register >= 0}
    registers = {register: n for n, register in enumerate(sorted(touched))}
    lists = np.zeros(len(every), np.int64)
    starts: list[int] = [0]
    to: list[int] = []
    of: list[int] = []
    for n, number in enumerate(used):
        lists[number] = n
        to += [registers[target] for target, _ in every[number]]
        of += [registers.get(source, HERE) for _, source in every[number]]
        starts.append(len(to))
    return lists, _int32(starts), _int32(to or [0]), _int32(of or [HERE]), registers


def _finals(
    automaton: Automaton, graph: _Graph, registers: dict[int, int], names: tuple[str, ...]
) -> tuple[dict[int, int], Array, Array]:
    """Finals in use, numbered anew (-1 stays), their patterns, and where each name's capture lies."""
    wanted = set(graph.final.tolist())
    finals = [(number, final) for final, number in automaton.finals.items() if number in wanted]
    used = {-1: -1, UNKNOWN: len(finals)} | {number: n for n, (number, _) in enumerate(finals)}
    patterns = np.full(len(finals) + 1, UNKNOWN, np.int32)
    places = np.full((len(finals) + 1, 2 * len(names)), UNSET, np.int32)
    for n, (_, final) in enumerate(finals):
        patterns[n] = final.pattern
        place = dict(final.places)
        for tag in [tag for tag in place if tag % 2 == 0][::-1]:  # of captures of one name, the first that took part
            if UNSET not in (place[tag], place[tag + 1]):
                at = 2 * names.index(automaton.program.names[tag // 2])
                places[n, at : at + 2] = [registers.get(place[tag], place[tag]), registers.get(place[tag + 1], place[tag + 1])]
    return used, patterns, places


def _int32(numbers: list[int]) -> Array:
    return np.array(numbers, np.int32)
