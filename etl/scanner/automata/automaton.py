"""A program → a tagged deterministic automaton (TDFA), determinised lazily: states are made when a text needs them.

A state is the ordered list of the program's threads before their epsilon closure; the closure is computed when the class of
the next byte is known (TDFA with one byte of look-ahead). The order of the threads is their priority, so greedy and lazy
loops and ordered alternatives match as in Perl; a thread that has matched removes all threads after it. Source: Laurikari
(2000); Trofimovich, "Tagged deterministic finite automata with lookahead" (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from etl.scanner import scopes
from etl.scanner.automata.alphabet import Alphabet
from etl.scanner.automata.closure import ClosureItem, Thread, epsilon_closure, matched
from etl.scanner.automata.liveness import Liveness
from etl.scanner.automata.registers import HERE, UNSET, Registers
from etl.scanner.program import BYTE, MATCH, Program, UnsupportedPatternError

DEAD, UNKNOWN = -1, -2
"""Instead of a state: no match is possible any more; not computed yet, or beyond the scanner's limits."""

MAX_THREADS = 100
"""Of one state; a pattern that needs more is ambiguous, and its texts go to another engine."""

Values = tuple[int, ...]
"""Of a thread, the register of each tag that is live at its instruction, or `UNSET`."""


class Final(NamedTuple):
    """An accepting configuration: the pattern, and for each of its tags the register, `HERE` or `UNSET`."""

    pattern: int
    registers: tuple[tuple[int, int], ...]


@dataclass(eq=False)
class AutomatonState:
    """``edges``: for each class of bytes, the next state and the number of the register moves of the transition."""

    threads: list[Thread]
    values: list[Values]
    behind: int
    """The class of the last byte read."""

    edges: list[tuple[int, int]] | None = None
    final: int = -1
    """The number of the `Final` if the text ends in this state, or -1."""

    visits: int = 0
    runs: int = 0
    """How often training was in this state, and how often it entered it from another state."""

    registers: list[int] = field(default_factory=list)
    """The registers in use, in the order of the threads."""

    @property
    def accepts(self) -> bool:
        """Whether the match is certain, whatever follows."""
        return len(self.threads) == 1 and self.threads[0].at < 0


class Automaton:
    """A lazily determinised automaton: `train` makes the states and transitions that a text needs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.alphabet = Alphabet(program)
        self.live = Liveness(program)
        self.registers = Registers()
        self.states: list[AutomatonState] = []
        self.finals: dict[Final, int] = {}
        self.expanded = 0
        self._index: dict[object, int] = {}
        self._by_look = _group_classes(self.alphabet.satisfied_ahead)
        self._by_behind = _group_classes(self.alphabet.satisfied_behind[:-1])
        root = [Thread(program.start)]
        self.start, _ = self._state(root, [(UNSET,) * len(self.live.tags(program.start))], self.alphabet.edge)

    def train(self, text: bytes, may_grow: Callable[[], bool] = lambda: True) -> None:
        """Make the states that the text passes through, as long as ``may_grow()``. Stops at a byte beyond the limits."""
        states, class_of_byte = self.states, self.alphabet.of_byte
        at, last = self.start, -1
        for byte in text:
            state = states[at]
            if (edges := state.edges) is None:
                if not may_grow():
                    return
                edges = self._edges(state)
            state.visits += 1
            if at != last:
                state.runs += 1
                last = at
                if state.accepts:
                    break
            at = edges[class_of_byte[byte]][0]
            if at < 0:
                return
        if self.states[at].edges is None and may_grow():
            self._edges(self.states[at])

    def complete(self, max_states: int) -> bool:
        """Make all states; False if there are more than ``max_states``."""
        at = 0
        while at < len(self.states) <= max_states:
            self._edges(self.states[at])
            at += 1
        return at == len(self.states)

    # ── Edges ─────────────────────────────────────────────────────────────────────────────────────

    def _edges(self, state: AutomatonState) -> list[tuple[int, int]]:
        if state.edges is None:
            state.edges = [(DEAD, 0)] * self.alphabet.size
            self.expanded += 1
            looks = any(self.live.looks_ahead(thread.at) for thread in state.threads)
            for classes in self._by_look if looks else [(2 << self.alphabet.edge) - 1]:
                self._expand(state, state.edges, classes)
        return state.edges

    def _expand(self, state: AutomatonState, edges: list[tuple[int, int]], classes: int) -> None:
        """Compute the transitions of classes (bits) that satisfy the same look-aheads."""
        alphabet = self.alphabet
        ahead, behind = alphabet.satisfied_ahead[_lowest(classes)], alphabet.satisfied_behind[state.behind]
        at_edge = classes >> alphabet.edge & 1
        inner = classes & ~(1 << alphabet.edge)
        try:
            closure = epsilon_closure(self.program, alphabet, state.threads, behind, ahead)
        except UnsupportedPatternError:
            state.final = UNKNOWN if at_edge else state.final
            _fill(edges, inner, (UNKNOWN, 0))
            return
        if at_edge:
            state.final = self._final(state, closure)
        reading = [(self._reads(one), self._follow(state, one)) for one in closure]
        for group in self._groups(inner, {mask for mask, _ in reading if mask is not None}):
            chosen = [after for mask, after in reading if mask is None or mask & group]
            _fill(edges, group, self._edge(chosen, _lowest(group)))

    def _groups(self, classes: int, masks: Iterable[int]) -> list[int]:
        """Split classes (bits) so that those of a group lie in the same masks, and are the same to an assertion on the last byte.
        The groups are in the order of their first classes."""
        groups = [group & classes for group in self._by_behind if group & classes]
        for mask in masks:
            groups = [part for group in groups for part in (group & mask, group & ~mask) if part]
        return sorted(groups, key=_lowest)

    def _reads(self, one: ClosureItem) -> int | None:
        """The classes of bytes that it reads, as bits; None for a match, which any byte keeps."""
        if one.at < 0 or self.program.opcodes[one.at] != BYTE:
            return None
        return self.alphabet.members[self.program.operands[one.at]]

    def _final(self, state: AutomatonState, closure: Sequence[ClosureItem]) -> int:
        won = next((one for one in closure if self._reads(one) is None), None)
        if won is None:
            return -1
        pattern = self._target(won)
        tags = tuple(self.program.tags_of(-1 - pattern))
        final = Final(-1 - pattern, tuple(zip(tags, self._values(state, won, tags), strict=True)))
        return self.finals.setdefault(final, len(self.finals))

    def _target(self, one: ClosureItem) -> int:
        """The instruction after a byte has been read."""
        if one.at < 0:
            return one.at
        if self.program.opcodes[one.at] == MATCH:
            return matched(self.program.operands[one.at])
        return self.program.successors[one.at][0]

    def _values(self, state: AutomatonState, one: ClosureItem, tags: Values) -> Values:
        own = state.values[one.thread]
        before = self.live.tags(state.threads[one.thread].at)
        return own if before == tags and not one.tags else _selection(before, tags, one.tags)((*own, HERE, UNSET))

    def _follow(self, state: AutomatonState, one: ClosureItem) -> tuple[Thread, Values, bool]:
        """The thread after the item has read a byte, its values, and whether the item is poisoned."""
        thread = Thread(self._target(one), one.scopes)
        return thread, self._values(state, one, self.live.tags(thread.at)), one.poisoned

    def _edge(self, chosen: Iterable[tuple[Thread, Values, bool]], class_: int) -> tuple[int, int]:
        threads: dict[Thread, Values] = {}
        try:
            for thread, values, poisoned in chosen:
                if poisoned:
                    raise UnsupportedPatternError("a negative look-ahead of more than one character decides")
                threads.setdefault(thread, values)
                if self.live.always_matches(thread.at) and not thread.scopes:
                    break  # it matches in any case, so the less preferred threads are dropped
            if not threads:
                return DEAD, 0
            return self._state(list(threads), list(threads.values()), class_)
        except UnsupportedPatternError:
            return UNKNOWN, 0

    # ── States ────────────────────────────────────────────────────────────────────────────────────

    def _state(self, threads: list[Thread], values: list[Values], behind: int) -> tuple[int, int]:
        """The state of these threads, new or existing, and the moves that fill its registers."""
        if any(thread.scopes for thread in threads):
            numbered_threads = scopes.normalise(threads)
            threads, values = [thread for _, thread in numbered_threads], [values[n] for n, _ in numbered_threads]
        if len(threads) > MAX_THREADS:
            raise UnsupportedPatternError(f"more than {MAX_THREADS} threads")
        numbers = _number_values(values)
        number_of = {**numbers, UNSET: UNSET}.__getitem__
        shape = tuple([tuple(map(number_of, mine)) for mine in values])
        before = self.alphabet.satisfied_behind[behind] if any(self.live.looks_behind(thread.at) for thread in threads) else -1
        key = (tuple(threads), shape, before)
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.states)
            registers = self.registers.allocate(numbers)
            own = [tuple([UNSET if number == UNSET else registers[number] for number in mine]) for mine in shape]
            self.states.append(AutomatonState(threads, own, behind, registers=registers))
        targets = self.states[found].registers
        moves = [(targets[number], value) for value, number in numbers.items() if value != targets[number]]
        return found, self.registers.intern_moves(moves)


def _number_values(values: Sequence[Values]) -> dict[int, int]:
    """Number the distinct values (registers and `HERE`) in the order of the threads."""
    distinct = dict.fromkeys(chain.from_iterable(values))
    distinct.pop(UNSET, None)
    return {value: number for number, value in enumerate(distinct)}


@lru_cache(4096)
def _selection(before: Values, after: Values, here: int) -> Callable[[Values], Values]:
    """Selects the values of the tags ``after`` from those of the tags ``before``, `HERE` and `UNSET`; ``here``: the tags that are
    set now, as bits."""
    position = {tag: n for n, tag in enumerate(before)}
    chosen = [len(before) if here >> tag & 1 else position.get(tag, len(before) + 1) for tag in after]
    if len(chosen) > 1:
        return itemgetter(*chosen)
    return lambda values: tuple([values[n] for n in chosen])


def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def _fill(edges: list[tuple[int, int]], classes: int, edge: tuple[int, int]) -> None:
    """Set the edge of classes (bits)."""
    while classes:
        edges[_lowest(classes)] = edge
        classes &= classes - 1


def _group_classes(classes: Sequence[int]) -> list[int]:
    """Group the classes that satisfy the same assertions, as bits."""
    groups: dict[int, int] = {}
    for class_, answers in enumerate(classes):
        groups[answers] = groups.get(answers, 0) | 1 << class_
    return list(groups.values())
