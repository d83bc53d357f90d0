"""Syntax trees of scripts, ``r=concat(a,'-',b);if(a=='x'){…}else{…};``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A text in quotes, a number, true, false or null."""

    value: str | int | float | bool | None
    at: int


@dataclass(frozen=True)
class BareWord:
    """A field, or for some functions a text without quotes."""

    name: str
    at: int


@dataclass(frozen=True)
class FunctionCall:
    """A call; comparisons and logical operators are calls of ``=``, ``>``, ``&`` …"""

    name: str
    arguments: tuple[Expression, ...]
    at: int


@dataclass(frozen=True)
class KeyValuePair:
    """``'name':value``, an argument of functions that make JSON."""

    name: Expression
    value: Expression
    at: int


Expression = Constant | BareWord | FunctionCall | KeyValuePair


@dataclass(frozen=True)
class Assignment:
    field: str
    value: Expression
    at: int


@dataclass(frozen=True)
class Branch:
    """A condition, None for else, and its statements."""

    condition: Expression | None
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class IfStatement:
    branches: tuple[Branch, ...]
    at: int


Statement = Assignment | FunctionCall | IfStatement
