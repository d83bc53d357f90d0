"""Types of SQL columns → Spark's types and fields; names of columns that an expression can mean."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from etl.api import HIDDEN
from etl.sql.statements import ScriptError, start

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


UNKNOWN_FIELD = "column_that_does_not_exist_"
"""Beginning of the fields of columns that do not exist and are reported: the rest of their statement is checked with them."""

_reported: ContextVar[Collection[int]] = ContextVar("reported_columns", default=frozenset())
"""The characters of the script at which such columns are."""


@contextmanager
def reported_columns(starts: Collection[int]) -> Iterator[None]:
    """Compile columns at these characters, if they do not exist, to fields whose names begin with `UNKNOWN_FIELD`."""
    token = _reported.set(starts)
    try:
        yield
    finally:
        _reported.reset(token)


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
    if (name := text.partition("(")[0].partition(" ")[0]) in ("time", "interval", "multiset", "raw"):
        raise ScriptError("bad-type", f"there is no type {name.upper()} here", start(type_), "read it as STRING or BIGINT")
    return text


def leaves(column: SqlColumn) -> Iterator[SqlColumn]:
    """The fields of a column: itself, or the members of a struct."""
    if not column.members:
        yield column
    for member in column.members:
        yield from leaves(member)


def named_leaves(column: SqlColumn, name: str) -> Iterator[tuple[str, SqlColumn]]:
    """As `leaves`, each with its path where the column has this name: fields of one struct may have different prefixes."""
    if not column.members:
        yield name, column
    for member in column.members:
        yield from named_leaves(member, f"{name}.{member.name}")


@dataclass(frozen=True)
class OpenTable:
    """A table in FROM that has other columns than those of its scope, which only the check of the pipeline knows."""

    name: str
    prefix: str = ""
    """Prefix of fields that tables before it have, too."""
    taken: frozenset[str] | None = frozenset()
    """These fields; None where the tables before it have such that are not known."""
    own: frozenset[str] = frozenset()
    """Fields that have no prefix in any case: keys that both sides of a join have under this name."""
    merged: frozenset[str] = frozenset()
    """Such keys of an outer join, which hold the other side's key in rows where this side has none."""

    def field_of(self, column: str, at: int) -> str:
        """The field that holds a column. Raises ScriptError where it cannot be known."""
        if column in self.merged:
            message = f"the key {column!r} is one field for both sides of the join, in which it is not null without a match"
            hint = f"name it without {self.name!r}, or declare the columns of the tables"
            raise ScriptError("unknown-field", message, at, hint)
        if column in self.own:
            return column
        if self.taken is None:
            message = f"the field of {self.name}.{column} is not known, because a table before it declares no columns"
            hint = (
                f"declare the columns, or write `{self.prefix}{column}` if both sides have it, and {column} if only this one has"
            )
            raise ScriptError("unknown-field", message, at, hint)
        return f"{self.prefix}{column}" if column in self.taken else column


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
    tables: tuple[OpenTable, ...] = ()
    """The tables of an open scope."""
    around: frozenset[str] = frozenset()
    """Names, in lower case, of tables of the query around this one: what begins with one and a dot is not a column of this
    one."""

    def qualified(self, name: str | None) -> Scope:
        """The same under a name of FROM."""
        if not name:
            return self
        columns = tuple(replace(one, qualifier=name) for one in self.columns)
        return replace(self, columns=columns, tables=(OpenTable(name),) if self.is_open else ())

    def opened(self) -> Scope:
        """The same after a step whose fields are not known here: of an open scope, its watermark stays."""
        return Scope(self.columns if self.is_open else (), is_open=True)

    def has(self, name: str) -> bool:
        """Whether a column has this name."""
        return any(one.name.lower() == name.lower() for one in self.columns)

    def inside(self, around: Scope) -> Scope:
        """The same in a query inside of one over these columns."""
        names = {*(one.name for one in around.tables), *(one.qualifier for one in around.columns if one.qualifier)}
        return replace(self, around=frozenset(name.lower() for name in names))

    def has_table(self, parts: Sequence[str]) -> bool:
        """Whether a name with dots begins with that of a table of this scope."""
        return len(parts) > 1 and (self._table(parts[0]) is not None or self._is_qualifier(parts[0]))

    def _table(self, name: str) -> OpenTable | None:
        return next((one for one in self.tables if one.name.lower() == name.lower()), None)

    def _is_qualifier(self, name: str) -> bool:
        return any((one.qualifier or "").lower() == name.lower() for one in self.columns)

    def find(self, parts: list[str], at: int) -> SqlColumn:
        """The column that ``a``, ``t.a`` or ``t.a.member`` means. Raises ScriptError."""
        found = list(self._matches(parts))
        table = self._table(parts[0]) if len(parts) > 1 else None
        is_of_other = table is None and (self.has_table(parts) or (len(parts) > 1 and parts[0].lower() in self.around))
        if not found and self.is_open and not is_of_other:
            name = ".".join(parts[1:] if table is not None else parts)
            known = (one for one in self.columns if table in (None, self._table(one.qualifier or "")))
            return next((one for one in known if one.name == name), None) or SqlColumn(
                name, table.field_of(name, at) if table is not None else name
            )
        if not found and at in _reported.get():
            return SqlColumn(parts[-1], f"{UNKNOWN_FIELD}{at}")
        if not found:
            raise self._unknown(parts, at)
        if len(found) > 1:
            of = ", ".join(sorted({repr(one.qualifier) for one in found if one.qualifier}))
            raise ScriptError("ambiguous-column", f"{'.'.join(parts)!r} is a column of {of}", at, "write the table before it")
        return found[0]

    def _matches(self, parts: list[str]) -> Iterator[SqlColumn]:
        first = parts[0].lower()
        if len(parts) > 1 and self._is_qualifier(first):
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
        tables = dict.fromkeys(one.qualifier for one in self.columns if one.qualifier)
        if len(parts) > 1 and tables and not self.has_table(parts) and not self.has(parts[0]):
            hint = f"FROM has no table {parts[0]!r}: those here are {', '.join(tables)}"
            return ScriptError("unknown-field", f"there is no column {'.'.join(parts)!r}", at, hint)
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
