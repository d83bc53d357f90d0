"""The automaton of a pattern. A state of a run (a partial match) is its last element, how many events that has taken, and the
elements that may take the next event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ANY_EVENT = 1 << 62
"""The bit that the mask of every event has: an edge that breaks at it takes the next event or none."""

MAX_NAMES = 62
"""Maximum number of names of events in a pattern: masks have a bit for each, below `ANY_EVENT`."""

AT_END = -1
"""Stands for an element in an edge that is taken when the time of the pattern is over."""

MAX_STATES = 1000
"""Maximum number of states: with more of them each event takes longer."""

MAX_ELEMENTS = 500
"""Maximum number of elements of a pattern, those of repeated groups included."""

MAX_SUCCESSORS = 8
"""Maximum number of edges of a state: the tables have a column for each set of them."""


@dataclass(frozen=True)
class Element:
    """A named event of a pattern, and how often it occurs."""

    name: int
    """The bit of its events' masks."""

    minimum: int = 1
    maximum: int | None = 1
    """None for any number."""

    consecutive: bool = False
    """Whether its events follow each other directly."""

    reluctant: bool = False
    """Whether an event that it can take goes to a later element if that can take it, too."""

    possessive: bool = False
    """Whether an event that it can take goes to no later element."""

    @property
    def counted(self) -> int:
        """The number of events up to which its states count."""
        return self.maximum or max(self.minimum, 1)


class Successor(NamedTuple):
    """An element that may take the next event after another one."""

    element: int
    """Its number, or `AT_END`."""
    breaks: int
    """The mask of events that must not come between both."""
    reserved_by: frozenset[int]
    """Possessive elements before it: it takes no event that one of them can still take."""


class LinkedElements(NamedTuple):
    """The elements of a pattern."""

    elements: Sequence[Element]
    successors: Sequence[Sequence[Successor]]
    """At 0 the elements that can take the first event, at n + 1 those after element n, in the order of preference; `AT_END` where
    the pattern may end."""
    names: Sequence[str]
    """The name of each element's events."""
    unanswered: bool
    """Whether the pattern ends with an absence (`login then not logout`), so that a match is known when its time is over."""
    has_loops: bool
    """Whether a repeated group lets elements take events by turns."""


class Automaton(NamedTuple):
    """Tables of an automaton, numpy arrays. State 0 has taken no event; a run that reaches ``accepts`` is a match."""

    names: Any
    """int64[elements]: bits of masks."""
    first_edge: Any
    """int64[states + 1]"""
    elements: Any
    """int64[edges]: the element that takes the event, in the order of preference; `AT_END`."""
    targets: Any
    """int64[edges]: states"""
    breaks: Any
    """int64[edges]: the mask of events after which the edge cannot be taken any more, unless they are taken."""
    barred: Any
    """int64[edges]: the mask of events that do not take the edge."""
    skipped: Any
    """int64[states, 2**edges of a state]: the state after an event that is not taken, by the set of edges that remain; -1 for
    none."""
    accepts: Any
    """bool[states]"""


class TooManyStatesError(ValueError):
    """A pattern needs more than `MAX_STATES`, or has too many optional events in a row."""


class _Edge(NamedTuple):
    element: int
    number: int
    breaks: int
    reserved_by: frozenset[int]


class _State(NamedTuple):
    element: int
    number: int
    edges: frozenset[int]
    """The numbers of those edges of this element and count that can still be taken."""


def check_size(linked: LinkedElements) -> None:
    """Raise TooManyStatesError if these elements have no automaton."""
    for _ in _StateTable(linked).expand():
        pass


def compile_automaton(linked: LinkedElements) -> Automaton:
    """The automaton of these elements. Raises TooManyStatesError."""
    import numpy as np

    table = _StateTable(linked)
    states = list(table.expand())
    edges = [edge for own in states for edge in own]
    barred = [_barred(edge, own, linked.elements) for own in states for edge, _ in own]
    width = 1 << max((len(own) for own in states), default=0)
    skipped = np.full((len(states), width), -1, np.int64)
    for number, remaining in table.skips.items():
        skipped[number, : len(remaining)] = remaining
    return Automaton(
        names=np.array([1 << element.name for element in linked.elements], np.int64),
        first_edge=np.cumsum([0, *map(len, states)]).astype(np.int64),
        elements=np.array([edge.element for edge, _ in edges], np.int64),
        targets=np.array([target for _, target in edges], np.int64),
        breaks=np.array([edge.breaks for edge, _ in edges], np.int64),
        barred=np.array(barred, np.int64),
        skipped=skipped,
        accepts=np.array(table.accepts, bool),
    )


def _barred(edge: _Edge, own: Sequence[tuple[_Edge, int]], elements: Sequence[Element]) -> int:
    """The mask of events that an edge must not take: those that possessive elements can still take in its state."""
    able = {other.element for other, _ in own} & edge.reserved_by
    return sum({1 << elements[number].name for number in able})


class _StateTable:
    """States in the order in which they are found."""

    def __init__(self, linked: LinkedElements) -> None:
        self._elements, self._linked = linked.elements, linked
        self._numbers: dict[_State, int] = {}
        self._found: list[_State] = []
        self.skips: dict[int, list[int]] = {}
        self.accepts: list[bool] = []

    def expand(self) -> Iterator[list[tuple[_Edge, int]]]:
        """The edges of each state, with their targets."""
        self._number(-1, 0, self._all_edges(-1, 0))
        for number, state in enumerate(self._found):
            edges = self._edges(state.element, state.number)
            own = sorted(state.edges)
            yield [(edges[at], self._target(edges[at])) for at in own]
            if number:
                self.skips[number] = [self._after_skipping(state, own, bits) for bits in range(1 << len(own))]

    def _after_skipping(self, state: _State, own: list[int], bits: int) -> int:
        left = frozenset(at for bit, at in enumerate(own) if bits >> bit & 1)
        return self._number(state.element, state.number, left) if left else -1

    def _target(self, edge: _Edge) -> int:
        if edge.element == AT_END:
            return -1
        return self._number(edge.element, edge.number, self._all_edges(edge.element, edge.number))

    def _number(self, element: int, count: int, edges: frozenset[int]) -> int:
        state = _State(element, count, edges)
        if state not in self._numbers:
            if len(self._found) == MAX_STATES or len(edges) > MAX_SUCCESSORS:
                raise TooManyStatesError
            self._numbers[state] = len(self._found)
            self._found.append(state)
            self.accepts.append(element >= 0 and not self._linked.unanswered and self._is_complete(element, count))
        return self._numbers[state]

    def _all_edges(self, element: int, count: int) -> frozenset[int]:
        return frozenset(range(len(self._edges(element, count))))

    def _is_complete(self, element: int, count: int) -> bool:
        """Whether all that follows is optional."""
        return self._may_leave(element, count) and any(one.element == AT_END for one in self._linked.successors[element + 1])

    def _may_leave(self, element: int, count: int) -> bool:
        return element < 0 or count >= self._elements[element].minimum

    def _edges(self, element: int, count: int) -> list[_Edge]:
        """The edges from a state in the order of preference."""
        own = self._elements[element] if element >= 0 else None
        loop: list[_Edge] = []
        reserved_by: frozenset[int] = frozenset()
        if own and (own.maximum is None or count < own.counted):
            loop = [_Edge(element, min(count + 1, own.counted), ANY_EVENT if own.consecutive else 0, frozenset())]
            reserved_by = frozenset([element] if own.possessive else [])
        successors = []
        for one in self._linked.successors[element + 1] if self._may_leave(element, count) else ():
            if one.element != AT_END:
                successors.append(_Edge(one.element, 1, one.breaks, one.reserved_by | reserved_by))
            elif self._linked.unanswered and element >= 0:
                successors.append(_Edge(AT_END, 0, one.breaks, frozenset()))
        return [*successors, *loop] if own and own.reluctant else [*loop, *successors]
