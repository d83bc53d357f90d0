"""The transition tables of an automaton, as far as it is built: the flat arrays that the kernel reads.

The automaton is minimised first (`minimisation`). States are ordered by kind, so that the kernel finds a state's kind by
comparisons.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.scanner.automata.automaton import UNKNOWN, Automaton
from etl.scanner.automata.minimisation import Dfa
from etl.scanner.automata.registers import HERE, UNSET

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

STATE_BITS = 20
"""Bits of an entry for the next state (times the row length); the other bits are the number of the moves."""

MAX_MOVES = 1 << (32 - STATE_BITS)
LONG_RUN = 6.0
"""Minimum average length, in bytes, of the runs in a state for which it gets a loop of its own."""

DYING, RUNNING, FINDING, SKIPPING, DECIDED, PLAIN = range(6)
"""Kinds of states: dead; many self-loops (the bytes are looked up); self-loops but for one to three bytes (these are searched
16 bytes at a time); self-loops only; the match is decided; all others."""


class TooLargeError(Exception):
    """The automaton does not fit into an entry's bits."""


@dataclass(frozen=True, slots=True)
class TransitionTables:
    """Arguments of `etl.scanner.kernel.scan`, by their names there."""

    entries: Array
    """uint32: for each state (row) and class, the number of the moves << 20 | the next row."""

    classes: Array
    """uint8[256]"""

    shift: int
    """Rows have 2 ** shift entries."""

    start: int
    kinds: Array
    """uint32[4]: the first row after the states of each of the kinds running, finding, skipping, decided."""

    runs: Array
    """uint8[·, 256]: for each running state (and the dead one), whether the byte is a self-loop."""

    found: Array
    """uint8[·, 3]: the bytes that leave a finding state."""

    move_starts: Array
    move_to: Array
    move_from: Array
    """int32: the moves of list n lie between ``move_starts[n]`` and the next; ``move_from`` may be `HERE`."""

    finals: Array
    """int32: for each state, its final or -1."""

    patterns: Array
    """int32: for each final, its pattern; `UNKNOWN` for texts that need training or another engine."""

    capture_registers: Array
    """int32[·, 2 * captures]: for each final, the registers of begin and end, `HERE` or `UNSET`."""

    registers: int
    names: tuple[str, ...]

    @property
    def fingerprint(self) -> int:
        """Distinguishes these tables from others of the same patterns with other states."""
        return zlib.crc32(self.entries.tobytes())


def build_tables(automaton: Automaton) -> TransitionTables:
    """Tables of the states built so far. Raises TooLargeError."""
    dfa = Dfa.of(automaton).minimise()
    return _lay_out(automaton, dfa)


def _lay_out(automaton: Automaton, dfa: Dfa) -> TransitionTables:
    stays = (dfa.next[:, dfa.classes] == np.arange(len(dfa.next))[:, None]) & (dfa.moves[:, dfa.classes] == 0)
    kinds = _kinds(dfa, stays.sum(axis=1))
    order = np.argsort(kinds, kind="stable")
    row = np.argsort(order)
    shift = max(1, int(dfa.next.shape[1] - 1).bit_length())
    lists, move_starts, move_to, move_from, registers = _moves(automaton, dfa)
    if len(order) << shift >= 1 << STATE_BITS or len(move_starts) > MAX_MOVES:
        raise TooLargeError
    entries = np.zeros((len(order), 1 << shift), np.int64)
    entries[:, : dfa.next.shape[1]] = (row[dfa.next[order]] << shift) | (lists[dfa.moves[order]] << STATE_BITS)
    bounds = np.searchsorted(kinds[order], [RUNNING, FINDING, SKIPPING, DECIDED], side="right")
    names = tuple(dict.fromkeys(automaton.program.names))
    used, patterns, registers_of_finals = _finals(automaton, dfa, registers, names)
    return TransitionTables(
        entries.astype(np.uint32).reshape(-1),
        dfa.classes.astype(np.uint8),
        shift,
        int(row[dfa.start]) << shift,
        (bounds << shift).astype(np.uint32),
        stays[order][: bounds[0]].astype(np.uint8).reshape(-1),
        _three(~stays[order][bounds[0] : bounds[1]]),
        move_starts,
        move_to,
        move_from,
        np.array([used[final] for final in dfa.final[order]], np.int32),
        patterns,
        registers_of_finals,
        len(registers),
        names,
    )


def _kinds(dfa: Dfa, loop_bytes: Array) -> Array:
    """The kind of each state; ``loop_bytes`` is the number of its self-loops, of 256."""
    kinds = np.full(len(loop_bytes), PLAIN)
    long = dfa.weight >= LONG_RUN
    kinds[long & (loop_bytes > 0)] = RUNNING
    kinds[long & (loop_bytes >= 253)] = FINDING
    kinds[loop_bytes == 256] = SKIPPING
    kinds[dfa.decided] = DECIDED
    kinds[0] = DYING
    return kinds


def _three(stops: Array) -> Array:
    """The one to three true columns of each row, the last repeated."""
    found = np.zeros((max(1, len(stops)), 3), np.uint8)
    for n, row in enumerate(stops):
        bytes_ = np.flatnonzero(row)
        found[n] = [bytes_[min(k, len(bytes_) - 1)] for k in range(3)]
    return found


def _moves(automaton: Automaton, dfa: Dfa) -> tuple[Array, Array, Array, Array, dict[int, int]]:
    """The lists of moves in use, and the registers that they or a final use; both renumbered from 0."""
    every = list(automaton.registers.lists)
    used = sorted({0, *np.unique(dfa.moves).tolist()})
    finals = [final for final, number in automaton.finals.items() if number in set(dfa.final.tolist())]
    touched = {register for n in used for move in every[n] for register in move if register >= 0}
    touched |= {register for final in finals for _, register in final.registers if register >= 0}
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
    automaton: Automaton, dfa: Dfa, registers: dict[int, int], names: tuple[str, ...]
) -> tuple[dict[int, int], Array, Array]:
    """The finals in use, renumbered (-1 stays), their patterns, and the registers of each name's capture."""
    numbers = set(dfa.final.tolist())
    finals = [(number, final) for final, number in automaton.finals.items() if number in numbers]
    used = {-1: -1, UNKNOWN: len(finals)} | {number: n for n, (number, _) in enumerate(finals)}
    patterns = np.full(len(finals) + 1, UNKNOWN, np.int32)
    capture_registers = np.full((len(finals) + 1, 2 * len(names)), UNSET, np.int32)
    for n, (_, final) in enumerate(finals):
        patterns[n] = final.pattern
        register_of = dict(final.registers)
        for tag in [tag for tag in register_of if tag % 2 == 0][::-1]:  # of captures of one name, the first that took part wins
            if UNSET not in (register_of[tag], register_of[tag + 1]):
                at = 2 * names.index(automaton.program.names[tag // 2])
                capture_registers[n, at : at + 2] = [
                    registers.get(register_of[tag], register_of[tag]),
                    registers.get(register_of[tag + 1], register_of[tag + 1]),
                ]
    return used, patterns, capture_registers


def _int32(numbers: list[int]) -> Array:
    return np.array(numbers, np.int32)
