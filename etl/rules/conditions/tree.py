"""Conditions: and, or, not over predicates, kept in a form in which ``not`` stands in front of predicates only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from etl.rules.conditions.predicates import Predicate


@dataclass(frozen=True, slots=True)
class Leaf:
    """A predicate holds, or does not."""

    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """Every part is true; without parts, true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """A part is true; without parts, false."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Leaf | All | Some

TRUE, FALSE = All(()), Some(())


def both(parts: Iterable[Condition]) -> Condition:
    """``and``, flat, each part once."""
    return _joined(parts, All, neutral=TRUE, decisive=FALSE)


def either(parts: Iterable[Condition]) -> Condition:
    """``or``, flat, each part once."""
    return _joined(parts, Some, neutral=FALSE, decisive=TRUE)


def opposite(condition: Condition) -> Condition:
    """``not``: moved down to the predicates."""
    if isinstance(condition, Leaf):
        return Leaf(condition.predicate, not condition.negated)
    return (either if isinstance(condition, All) else both)(map(opposite, condition.parts))


def leaves(condition: Condition) -> Iterator[Leaf]:
    """Its predicates, from left to right."""
    todo = [condition]
    while todo:
        one = todo.pop()
        if isinstance(one, Leaf):
            yield one
        else:
            todo.extend(reversed(one.parts))


def replaced(condition: Condition, replace: Callable[[Leaf], Condition]) -> Condition:
    """The condition with something else for each leaf; ``replace`` sees leaves without ``not``."""
    if isinstance(condition, Leaf):
        made = replace(Leaf(condition.predicate))
        return opposite(made) if condition.negated else made
    return (both if isinstance(condition, All) else either)(replaced(part, replace) for part in condition.parts)


def _joined(parts: Iterable[Condition], kind: type[All] | type[Some], neutral: Condition, decisive: Condition) -> Condition:
    flat: dict[Condition, None] = {}
    for part in parts:
        if part == decisive:
            return decisive
        if part != neutral:
            flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat)) if flat else neutral
