"""A pattern → elements, groups that are counted written out, and which elements may take events after which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from etl.state.sequences.automaton import (
    ANY_EVENT,
    AT_END,
    MAX_ELEMENTS,
    MAX_SUCCESSORS,
    Element,
    LinkedElements,
    Successor,
    TooManyStatesError,
)
from etl.steps.sequences.pattern import Pattern, PatternElement, PatternGroup, PatternItem


def link_elements(pattern: Pattern, bits: Mapping[str, int]) -> LinkedElements:
    """The elements of a pattern; ``bits``: those of the names in masks. Raises TooManyStatesError."""
    linking = _Linking(bits)
    root = linking.sequence(pattern.items)
    at_end = linking.mask(pattern.absent_after)

    def end(path: _Path) -> Iterator[Successor]:
        yield Successor(AT_END, at_end | path.absent, frozenset())

    successors = [_distinct(root.enter(_Path(), end))]
    for leaf in linking.leaves:
        successors.append(_distinct(leaf.after(_Path())))
    elements = tuple(leaf.element for leaf in linking.leaves)
    names = tuple(leaf.name for leaf in linking.leaves)
    return LinkedElements(elements, tuple(successors), names, bool(at_end), linking.has_loops)


def _distinct(found: Iterator[Successor]) -> tuple[Successor, ...]:
    """The links in the order of preference, each once."""
    distinct: dict[Successor, None] = {}
    for one in found:
        distinct[one] = None
        if len(distinct) > MAX_SUCCESSORS:
            raise TooManyStatesError
    return tuple(distinct)


@dataclass(frozen=True)
class _Path:
    """What was passed since the last element that took an event."""

    next: bool = False
    """Whether the next element follows directly."""
    begins: bool = False
    """Whether it begins a group that follows directly."""
    absent: int = 0
    """The mask of events that must not occur."""
    reserved_by: frozenset[int] = frozenset()
    """The possessive elements that keep the events that they can take."""


Then: TypeAlias = Callable[[_Path], Iterator[Successor]]
"""What follows a part of the pattern."""


def _nothing(path: _Path) -> Iterator[Successor]:
    yield from ()


@dataclass
class _Leaf:
    number: int
    name: str
    element: Element
    after: Then = field(init=False)

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        self.after = then
        breaks = ANY_EVENT if path.next or path.begins else path.absent
        taken = Successor(self.number, breaks, path.reserved_by)
        if self.element.minimum:
            yield taken
            return
        passed = then(replace(path, reserved_by=path.reserved_by | {self.number}) if self.element.possessive else path)
        yield from _ordered([taken], passed, self.element.reluctant)


@dataclass
class _Items:
    """Parts one after the other, each with how it follows."""

    parts: Sequence[tuple[_Part, bool, int]]

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        return self.parts[0][0].enter(path, partial(self._enter, 1, then))

    def _enter(self, at: int, then: Then, path: _Path) -> Iterator[Successor]:
        if at == len(self.parts):
            return then(path)
        part, follows, absent = self.parts[at]
        successors = replace(path, next=follows, absent=path.absent | absent)
        return part.enter(successors, partial(self._enter, at + 1, then))


@dataclass
class _Alternatives:
    items: Sequence[_Items]
    firsts: frozenset[int]
    """The elements with which they begin."""

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        inner = replace(path, next=False, begins=path.begins or path.next)
        for one in self.items:
            yield from one.enter(inner, then)


@dataclass
class _Optional:
    body: _Part
    group: PatternGroup
    firsts: frozenset[int]

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        passed = then(replace(path, reserved_by=path.reserved_by | self.firsts) if self.group.possessive else path)
        yield from _ordered(self.body.enter(path, then), passed, self.group.reluctant)


@dataclass
class _Loop:
    """A body once or more."""

    body: _Alternatives
    group: PatternGroup

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        return self.body.enter(path, partial(self._again, then))

    def _again(self, then: Then, path: _Path) -> Iterator[Successor]:
        passed = then(replace(path, reserved_by=path.reserved_by | self.body.firsts) if self.group.possessive else path)
        again = self.body.enter(replace(path, next=self.group.consecutive), partial(self._again, then))
        yield from _ordered(again, passed, self.group.reluctant)


@dataclass
class _Copies:
    """The written-out repetitions of a group."""

    parts: Sequence[_Part]
    consecutive: bool

    def enter(self, path: _Path, then: Then) -> Iterator[Successor]:
        return self.parts[0].enter(path, partial(self._enter, 1, then))

    def _enter(self, at: int, then: Then, path: _Path) -> Iterator[Successor]:
        if at == len(self.parts):
            return then(path)
        return self.parts[at].enter(replace(path, next=self.consecutive), partial(self._enter, at + 1, then))


_Part: TypeAlias = _Leaf | _Items | _Alternatives | _Optional | _Loop | _Copies


def _ordered(
    taken: Iterator[Successor] | Sequence[Successor], passed: Iterator[Successor], reluctant: bool
) -> Iterator[Successor]:
    yield from passed if reluctant else taken
    yield from taken if reluctant else passed


class _Linking:
    """Makes the parts of a pattern, with an element for each occurrence of a name."""

    def __init__(self, bits: Mapping[str, int]) -> None:
        self._bits = bits
        self.leaves: list[_Leaf] = []
        self.has_loops = False

    def mask(self, names: Sequence[str]) -> int:
        """The mask of these events."""
        return sum({1 << self._bits[name] for name in names})

    def sequence(self, items: Sequence[PatternItem]) -> _Items:
        """Parts one after the other."""
        return _Items([(self._part(item), item.next, self.mask(item.absent)) for item in items])

    def _part(self, item: PatternItem) -> _Part:
        return self._leaf(item) if isinstance(item, PatternElement) else self._group(item)

    def _leaf(self, item: PatternElement) -> _Leaf:
        if len(self.leaves) == MAX_ELEMENTS:
            raise TooManyStatesError
        element = Element(self._bits[item.name], item.minimum, item.maximum, item.consecutive, item.reluctant, item.possessive)
        self.leaves.append(_Leaf(len(self.leaves), item.name, element))
        return self.leaves[-1]

    def _group(self, group: PatternGroup) -> _Part:
        parts: list[_Part] = [self._body(group) for _ in range(group.minimum - (group.maximum is None and group.minimum > 0))]
        if group.maximum is None:
            self.has_loops = True
            loop = _Loop(self._body(group), group)
            parts.append(loop if group.minimum else _Optional(loop, group, loop.body.firsts))
        elif group.maximum > group.minimum:
            parts.append(self._rest(group, group.maximum - group.minimum))
        return parts[0] if len(parts) == 1 else _Copies(parts, group.consecutive)

    def _rest(self, group: PatternGroup, times: int) -> _Optional:
        """Up to ``times`` more repetitions."""
        bodies = [self._body(group) for _ in range(times)]
        found = _Optional(bodies[-1], group, bodies[-1].firsts)
        for body in reversed(bodies[:-1]):
            found = _Optional(_Copies([body, found], group.consecutive), group, body.firsts)
        return found

    def _body(self, group: PatternGroup) -> _Alternatives:
        found = [self.sequence(one) for one in group.alternatives]
        return _Alternatives(found, frozenset(one.element for part in found for one in part.enter(_Path(), _nothing)))
