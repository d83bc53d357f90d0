"""Conditions that no event can meet, as far as the condition alone shows it."""

from __future__ import annotations

from collections.abc import Iterator

from etl.rules.conditions.tree import And, Condition, Leaf, Or
from etl.rules.predicates.text import Text


def find_contradiction(condition: Condition) -> str | None:
    """Why the condition is never true, or None. Assumes that texts are single values: of a list, each item may be another."""
    if isinstance(condition, Leaf):
        return None
    if isinstance(condition, Or):
        each = [find_contradiction(part) for part in condition.parts]
        return next((why for why in each if why), "what it asks for is in no event here") if all(each) else None
    inner = next((why for part in condition.parts if (why := find_contradiction(part))), None)
    return inner or _find_between(condition)


def _find_between(condition: And) -> str | None:
    """The contradiction between two parts of a conjunction."""
    required = {leaf.predicate for leaf in _leaves(condition) if not leaf.negated}
    excluded = {leaf.predicate for leaf in _leaves(condition) if leaf.negated}
    for predicate in required & excluded:
        return f"{predicate.describe()} is required and excluded"
    whole: dict[str, Text] = {}
    for predicate in required:
        if isinstance(predicate, Text) and predicate.kind == "equals":
            other = whole.setdefault(predicate.field, predicate)
            if other.text.casefold() != predicate.text.casefold():
                first, second = sorted((other.text, predicate.text))
                return f"{predicate.field} cannot be {first!r} and {second!r}, unless it is a list"
    return None


def _leaves(condition: And) -> Iterator[Leaf]:
    return (part for part in condition.parts if isinstance(part, Leaf))
