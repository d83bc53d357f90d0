"""Predicates and numbers in words, for people."""

from __future__ import annotations

from etl.api import cut
from etl.rules.conditions.predicates import Network, Number, Pattern, Predicate, Present, Sql, Text

LONGEST = 60
"""Characters of a predicate or title that are shown."""


def said(predicate: Predicate) -> str:
    """Short."""
    match predicate:
        case Text(field=field, kind=kind, text=text):
            words = f"{field} {kind} {text!r}"
        case Pattern(field=field, pattern=pattern):
            words = f"{field} like {pattern!r}"
        case Number(field=field, order=order, value=value):
            words = f"{field} {order} {value}"
        case Network(field=field, network=network):
            words = f"{field} in {network}"
        case Present(field=field):
            words = f"{field} is there"
        case Sql(where=where):
            words = where
        case _:
            words = str(predicate)
    return cut(words, LONGEST)


def counted(number: int, thing: str, things: str = "") -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
