"""What a pattern is made of: ``failed{5,} then accepted``, ``(a then b | c)+ then d``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from etl.api import Finding


@dataclass(frozen=True)
class Repetition:
    """How often something occurs, and how it follows what is before it."""

    at: int
    """Its first character."""
    minimum: int = 1
    """Minimum number of times."""
    maximum: int | None = 1
    """Maximum number of times, None for any number."""
    next: bool = False
    """Whether it begins with the event directly after the element before: `then next`."""
    consecutive: bool = False
    """Whether no other event may be between its repetitions."""
    reluctant: bool = False
    """Whether it takes as few events as possible: a ``?`` after the quantifier."""
    possessive: bool = False
    """Whether it gives no event that it can take to what follows: a ``+`` after the quantifier."""
    absent: tuple[str, ...] = ()
    """Names of events that must not occur between the element before and this one."""


@dataclass(frozen=True, kw_only=True)
class PatternElement(Repetition):
    """A named event."""

    name: str

    @property
    def elements(self) -> Iterator[PatternElement]:
        """Itself."""
        yield self


@dataclass(frozen=True, kw_only=True)
class PatternGroup(Repetition):
    """Alternatives in brackets, in the order of preference, or only one."""

    alternatives: tuple[tuple[PatternItem, ...], ...]

    @property
    def elements(self) -> Iterator[PatternElement]:
        """The named events in it."""
        return (element for one in self.alternatives for item in one for element in item.elements)


PatternItem: TypeAlias = PatternElement | PatternGroup


@dataclass(frozen=True)
class Pattern:
    """Its parts in order."""

    items: tuple[PatternItem, ...] = ()
    absent_after: tuple[str, ...] = ()
    """Names of events that must not occur after the last part."""
    findings: tuple[Finding, ...] = ()

    @property
    def elements(self) -> tuple[PatternElement, ...]:
        """The named events, those of groups included."""
        return tuple(element for item in self.items for element in item.elements)

    @property
    def parts(self) -> Iterator[PatternItem]:
        """Elements and groups, those in groups included."""
        return _parts(self.items)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of events that are taken, each once."""
        return tuple(dict.fromkeys(element.name for element in self.elements))

    @property
    def positions(self) -> Mapping[str, int]:
        """All names, and where each stands last."""
        return {name: at for at, name in enumerate([*_names(self.items), *self.absent_after])}


def _names(items: tuple[PatternItem, ...]) -> Iterator[str]:
    for item in items:
        yield from item.absent
        if isinstance(item, PatternElement):
            yield item.name
        else:
            for one in item.alternatives:
                yield from _names(one)


def _parts(items: tuple[PatternItem, ...]) -> Iterator[PatternItem]:
    for item in items:
        yield item
        if isinstance(item, PatternGroup):
            for one in item.alternatives:
                yield from _parts(one)


def first_event_only(pattern: Pattern, name: str, last: bool) -> bool:
    """Whether the first, or the last, event of a name is always that with which a match begins."""
    first = list(starts(pattern.items))
    if not last:
        return all(one.name == name for one in first)
    own = [one for one in pattern.elements if one.name == name]
    single = all(item.maximum == 1 for item in pattern.parts if own[0] in item.elements)
    return len(own) == 1 and first == own and single


def starts(items: tuple[PatternItem, ...]) -> Iterator[PatternElement]:
    """The elements with which these parts can begin."""
    for item in items:
        if isinstance(item, PatternElement):
            yield item
        else:
            for one in item.alternatives:
                yield from starts(one)
        if item.minimum:
            return
