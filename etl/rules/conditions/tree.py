"""Conditions of rules: and, or, not over predicates, in a form in which ``not`` stands only before predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from etl.rules.predicates.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Leaf:
    """A predicate holds, or does not."""

    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """Every part is true; without parts, true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part is true; without parts, false."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Leaf | And | Or

TRUE, FALSE = And(()), Or(())


def all_of(parts: Iterable[Condition]) -> Condition:
    """``and`` of conditions: nested ones flattened, each part once."""
    return _join(parts, And, neutral=TRUE, decisive=FALSE)


def any_of(parts: Iterable[Condition]) -> Condition:
    """``or`` of conditions: nested ones flattened, each part once."""
    return _join(parts, Or, neutral=FALSE, decisive=TRUE)


def negate(condition: Condition) -> Condition:
    """``not`` of a condition, moved down to its predicates."""
    if isinstance(condition, Leaf):
        return Leaf(condition.predicate, not condition.negated)
    return (any_of if isinstance(condition, And) else all_of)(map(negate, condition.parts))


def leaves(condition: Condition) -> Iterator[Leaf]:
    """The leaves of a condition, from left to right."""
    stack = [condition]
    while stack:
        one = stack.pop()
        if isinstance(one, Leaf):
            yield one
        else:
            stack.extend(reversed(one.parts))


def replace_leaves(condition: Condition, replace: Callable[[Leaf], Condition]) -> Condition:
    """The condition with other conditions for its leaves; ``replace`` gets each leaf without its ``not``."""
    if isinstance(condition, Leaf):
        made = replace(Leaf(condition.predicate))
        return negate(made) if condition.negated else made
    return (all_of if isinstance(condition, And) else any_of)(replace_leaves(part, replace) for part in condition.parts)


def _join(parts: Iterable[Condition], kind: type[And] | type[Or], neutral: Condition, decisive: Condition) -> Condition:
    flat: dict[Condition, None] = {}
    for part in parts:
        if part == decisive:
            return decisive
        if part != neutral:
            flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat)) if flat else neutral
