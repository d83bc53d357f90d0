"""What a rule asks of one field: plain values, equal when they ask the same, so that it is asked once for all rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ANY_FIELD = ""
"""The field of a keyword: any text field of the event."""

TextKind = Literal["equals", "contains", "startswith", "endswith"]
Order = Literal["=", "<", "<=", ">", ">="]
TimeUnit = Literal["minute", "hour", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text is, has, begins or ends with ``text``; without ``cased``, letters equal those of the other case."""

    field: str
    kind: TextKind
    text: str
    cased: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression of RE2 (or, where RE2 has no form of it, of Python) is found in a text.

    ``literals``: one of these texts, in any case, is in every text it is found in; empty when none is known.
    """

    field: str
    pattern: str
    literals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A number compares so with ``value``; a text that is no number does not."""

    field: str
    order: Order
    value: int | float


@dataclass(frozen=True, slots=True)
class Network:
    """A text is an address in the network (``10.0.0.0/8``)."""

    field: str
    network: str


@dataclass(frozen=True, slots=True)
class Present:
    """The field has a value."""

    field: str


@dataclass(frozen=True, slots=True)
class SameField:
    """A text is, has, begins or ends with the text of another field of the event."""

    field: str
    kind: TextKind
    other: str
    cased: bool = False


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a time, in UTC, is ``number``; a text is read as ISO 8601."""

    field: str
    unit: TimeUnit
    number: int


@dataclass(frozen=True, slots=True)
class Sql:
    """A Spark SQL condition is true, or with ``truth`` False is false."""

    where: str
    fields: tuple[str, ...]
    truth: bool = True
    literals: tuple[str, ...] = ()
    """One of these, in any case, is in its only field wherever it is true; empty when none is known."""


Predicate: TypeAlias = Text | Pattern | Number | Network | Present | SameField | TimePart | Sql


def fields_of(predicate: Predicate) -> frozenset[str]:
    """The fields it looks at."""
    if isinstance(predicate, Sql):
        return frozenset(predicate.fields)
    return frozenset([predicate.field, predicate.other] if isinstance(predicate, SameField) else [predicate.field])
