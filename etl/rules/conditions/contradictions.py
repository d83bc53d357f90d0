"""Conditions that no event can meet, as far as that shows without looking at one."""

from __future__ import annotations

from collections.abc import Iterator

from etl.rules.conditions.predicates import Text
from etl.rules.conditions.tree import All, Condition, Leaf, Some
from etl.rules.conditions.wording import said


def contradiction(condition: Condition) -> str | None:
    """Why it is never true, or None. Of a list, one value may be this and another one that: texts are taken to be single."""
    if isinstance(condition, Leaf):
        return None
    if isinstance(condition, Some):
        each = [contradiction(part) for part in condition.parts]
        return next((why for why in each if why), "what it asks for is in no event here") if all(each) else None
    inner = next((why for part in condition.parts if (why := contradiction(part))), None)
    return inner or _between(condition)


def _between(condition: All) -> str | None:
    """What two parts of a conjunction say against each other."""
    wanted = {leaf.predicate for leaf in _leaves(condition) if not leaf.negated}
    refused = {leaf.predicate for leaf in _leaves(condition) if leaf.negated}
    for predicate in wanted & refused:
        return f"{said(predicate)} is asked for and refused"
    whole: dict[str, Text] = {}
    for predicate in wanted:
        if isinstance(predicate, Text) and predicate.kind == "equals":
            other = whole.setdefault(predicate.field, predicate)
            if other.text.casefold() != predicate.text.casefold():
                first, second = sorted((other.text, predicate.text))
                return f"{predicate.field} cannot be {first!r} and {second!r}, unless it is a list"
    return None


def _leaves(condition: All) -> Iterator[Leaf]:
    return (part for part in condition.parts if isinstance(part, Leaf))
