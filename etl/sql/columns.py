"""Types of SQL columns → Spark's types and fields; names of columns that an expression can mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from etl.api import HIDDEN
from etl.sql.statements import ScriptError, start

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


@dataclass(frozen=True)
class TimeAttribute:
    """That a column is a time by which windows go: event time with its lateness in seconds, or the time of reading."""

    late: float | None = None
    """None for the time of reading."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a relation: the field that holds it, or a struct, whose members are fields below that name."""

    name: str
    field: str
    type: str | None = None
    """Spark's name of its type, None where only the check of the pipeline knows it."""
    time: TimeAttribute | None = None
    members: tuple[SqlColumn, ...] = ()
    qualifier: str | None = None
    """Name of the table or alias in FROM that it is of."""


def column_of(name: str, field_name: str, type_: Node) -> SqlColumn:
    """A declared column; a ROW has a field for each member."""
    from sqlglot import exp

    if isinstance(type_, exp.DataType) and type_.this == exp.DType.STRUCT:
        members = tuple(
            column_of(member.name, f"{field_name}.{member.name}", member.args["kind"]) for member in type_.expressions
        )
        return SqlColumn(name, field_name, None, members=members)
    return SqlColumn(name, field_name, spark_type(type_))


def field_name(column: str) -> str:
    """The field that holds a column: another name for those that hold the event's identity, ``_source`` for one."""
    return f"{column.strip('_')}_" if column in HIDDEN else column


def spark_type(type_: Node) -> str:
    """Spark's name of a type. Raises ScriptError for types that do not exist here."""
    from sqlglot import exp

    text = type_.sql(dialect="spark").lower()
    if isinstance(type_, exp.DataType) and type_.this == exp.DType.TIME:
        text = "time"
    for written, ours in (
        ("varchar", "string"),
        ("char", "string"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", "timestamp"),
    ):
        if text.split("(")[0] == written:
            return ours
    if text.split("(")[0] in ("timestamp", "timestampltz", "timestampntz"):
        return "timestamp"
    if text.split("(")[0] in ("time", "interval", "multiset", "raw"):
        raise ScriptError("bad-type", f"there is no type {text.upper()} here", start(type_), "read it as STRING or BIGINT")
    return text


def leaves(column: SqlColumn) -> Iterator[SqlColumn]:
    """The fields of a column: itself, or the members of a struct."""
    if not column.members:
        yield column
    for member in column.members:
        yield from leaves(member)


@dataclass(frozen=True)
class Scope:
    """The columns that expressions of a query may name."""

    columns: tuple[SqlColumn, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """SQL text of an expression that a step has computed already → the field that holds it."""
    results: Mapping[str, str] = field(default_factory=dict)
    """Such a field → the expression over it that gives the result, where that is not the field itself."""
    is_open: bool = False
    """Whether there are other columns than these, which only the check of the pipeline knows."""
    name: str | None = None
    """Name in FROM, of an open scope."""

    def qualified(self, name: str | None) -> Scope:
        """The same under a name of FROM."""
        if not name:
            return self
        columns = tuple(replace(one, qualifier=name) for one in self.columns)
        return replace(self, columns=columns, name=name if self.is_open else None)

    def opened(self) -> Scope:
        """The same after a step whose fields are not known here: of an open scope, its watermark stays."""
        return Scope(self.columns if self.is_open else (), is_open=True)

    def has(self, name: str) -> bool:
        """Whether a column has this name."""
        return any(one.name.lower() == name.lower() for one in self.columns)

    def find(self, parts: list[str], at: int) -> SqlColumn:
        """The column that ``a``, ``t.a`` or ``t.a.member`` means. Raises ScriptError."""
        found = list(self._matches(parts))
        if not found and self.is_open:
            own = parts[1:] if len(parts) > 1 and self.name and parts[0].lower() == self.name.lower() else parts
            name = ".".join(own)
            return next((one for one in self.columns if one.name == name), SqlColumn(name, name))
        if not found:
            raise self._unknown(parts, at)
        if len(found) > 1:
            of = ", ".join(sorted({repr(one.qualifier) for one in found if one.qualifier}))
            raise ScriptError("ambiguous-column", f"{'.'.join(parts)!r} is a column of {of}", at, "write the table before it")
        return found[0]

    def _matches(self, parts: list[str]) -> Iterator[SqlColumn]:
        first = parts[0].lower()
        if len(parts) > 1 and any((one.qualifier or "").lower() == first for one in self.columns):
            for one in self.columns:
                if (one.qualifier or "").lower() == first and one.name.lower() == parts[1].lower():
                    yield from _member(one, parts[2:])
            return
        for one in self.columns:
            if one.name.lower() == first:
                yield from _member(one, parts[1:])

    def _unknown(self, parts: list[str], at: int) -> ScriptError:
        names = [one.name for one in self.columns]
        near = get_close_matches(parts[-1], names, 1)
        hint = f"is {near[0]!r} meant?" if near else f"the columns are {', '.join(dict.fromkeys(names)) or 'none'}"
        return ScriptError("unknown-field", f"there is no column {'.'.join(parts)!r}", at, hint)


def _member(column: SqlColumn, rest: list[str]) -> Iterator[SqlColumn]:
    if not rest:
        yield column
        return
    for one in column.members:
        if one.name.lower() == rest[0].lower():
            yield from _member(one, rest[1:])


def parts_of(node: Any) -> list[str]:
    """The names of a column node, outermost first."""
    return [part.name for part in node.parts]
