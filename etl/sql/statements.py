"""Statements of a script, and what is wrong with one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


class ScriptError(ValueError):
    """What a script says cannot be read or carried out; ``at`` is the character of the script."""

    def __init__(self, code: str, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.at = at
        self.hint = hint
        self.name = ""
        """Of a table that is not known, in lower case."""


def unknown_table(name: str, at: int, hint: str) -> ScriptError:
    """The error of a name that no table has."""
    error = ScriptError("unknown-name", f"there is no table {name!r}", at, hint)
    error.name = name.lower()
    return error


@dataclass(frozen=True)
class Option:
    """One entry of ``WITH (…)`` or ``SET``."""

    name: str
    value: str
    at: int
    value_at: int


@dataclass(frozen=True)
class Column:
    """A column of ``CREATE TABLE``: with a type, computed by an expression, or from the metadata of messages."""

    name: str
    at: int
    type: Node | None = None
    expression: Node | None = None
    metadata: str | None = None
    is_virtual: bool = False
    """Whether it is only read, and not written."""


@dataclass(frozen=True)
class Watermark:
    """``WATERMARK FOR column AS expression``."""

    column: str
    expression: Node
    at: int


@dataclass(frozen=True)
class CreateTable:
    name: str
    at: int
    columns: tuple[Column, ...]
    watermark: Watermark | None
    primary_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    options: tuple[Option, ...]
    like: str | None = None
    is_lookup: bool = False
    """Declared with ``PERIOD FOR SYSTEM_TIME``."""


@dataclass(frozen=True)
class CreateView:
    name: str
    at: int
    columns: tuple[str, ...]
    query: Node


@dataclass(frozen=True)
class CreateFunction:
    name: str
    at: int
    target: str
    language: str = ""
    """In upper case; empty where the statement names none."""
    file: str = ""
    """The file after USING, relative to the script."""


@dataclass(frozen=True)
class Delay:
    """``EMIT WITH DELAY 'n' unit BEFORE|AFTER WATERMARK``, in seconds."""

    seconds: float
    is_before: bool
    at: int


@dataclass(frozen=True)
class PartitionValue:
    """A column that has one value in all rows: ``PARTITION (name = value)``."""

    name: str
    value: Node
    at: int


@dataclass(frozen=True)
class Insert:
    """``INSERT INTO table [(columns)] query``; a query alone has no table."""

    table: str | None
    at: int
    columns: tuple[str, ...]
    query: Node
    emit: tuple[Delay, ...] = ()
    emits_changes: bool = False
    options: tuple[Option, ...] = ()
    """Those of a hint behind the table."""
    partition: tuple[PartitionValue, ...] = ()


@dataclass(frozen=True)
class SetOption:
    option: Option


@dataclass(frozen=True)
class Reset:
    """``RESET 'key'``; all settings without a name."""

    name: str
    at: int


@dataclass(frozen=True)
class Drop:
    """``DROP TABLE`` or ``DROP VIEW``."""

    name: str
    at: int
    is_optional: bool
    """Whether there may be no such table."""


Statement = CreateTable | CreateView | CreateFunction | Insert | SetOption | Reset | Drop


@dataclass
class Script:
    """The statements of a script in their order, and the errors of those that cannot be read."""

    text: str
    statements: list[Statement] = field(default_factory=list)
    errors: list[ScriptError] = field(default_factory=list)
    warnings: list[ScriptError] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    """Tables and views whose declarations cannot be read, in lower case: queries over them are not reported as further
    mistakes."""


def start(node: Node) -> int:
    """The first character of a node, or of its leftmost part of which it is known."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=0)


UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800, "MILLISECOND": 0.001}
"""Seconds of a unit of intervals."""


def text_key(node: Node) -> str:
    """The SQL text of an expression, by which equal ones are found: names in lower case, texts in quotes as they are."""
    return str(node.sql(dialect="spark", normalize=True))
