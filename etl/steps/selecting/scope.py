"""The columns that expressions of a query can name: those of the events, and those that generators add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from etl.api import Finding, Schema, flat_schema, nested_schema
from etl.expressions import Analysis, analyse_node, quote_name
from etl.steps.selecting.generators import Generator, GeneratorCall
from etl.steps.selecting.query_texts import (
    call_arguments,
    lateral_views,
    quoted_names,
    split_at_commas,
    tokenize,
    with_field_names,
    without_alias,
)
from etl.steps.selecting.statement import GENERATORS, SelectStatement, start_offset


@dataclass(frozen=True)
class Column:
    """A column of the query's tables; a member of a struct is one of its own."""

    table: str
    """In lower case: the table of the events, or a lateral view."""
    name: str
    type: pa.DataType
    text: str
    """The expression that has its value."""


@dataclass(frozen=True)
class LateralView:
    """``LATERAL VIEW``: rows that a generator makes of each event."""

    table: str
    """Its name in lower case, or a number."""
    call: GeneratorCall
    fields: tuple[str, ...]
    """The fields that have the values of its columns."""


class Scope:
    """The tables of a query, and its expressions over fields."""

    def __init__(self, read: SelectStatement, incoming: Schema) -> None:
        self.read = read
        self.events = _group_struct_members(incoming)
        """The fields of the events, in the order of ``*``."""
        self._fields = self.events
        self._view_fields: dict[str, dict[str, str]] = {}
        """Lateral view → column → the field that has its values; in lower case but for the field. Views may share a name."""
        self.views: list[LateralView] = []
        """In the order in which they make rows."""
        laterals = read.written.args.get("laterals") or ()
        for lateral, tokens in zip(laterals, lateral_views(tokenize(read.table)), strict=True):
            self._add_view(lateral, tokens)

    def _add_view(self, lateral: Any, tokens: list[Any]) -> None:
        alias = lateral.args.get("alias")
        names = tuple(column.name for column in (alias.columns if alias else ()))
        call = self._call(lateral.this, self.read.table, tokens, names, is_outer=bool(lateral.args.get("outer")))
        table = alias.name if alias and alias.name else f"view {len(self.views)}"
        taken = {name.split(".")[0].lower() for name in self._fields.names}
        fields = {name: f"{table} {name}" if name.lower() in taken else name for name, _ in call.columns()}
        self.views.append(LateralView(table.lower(), call, tuple(fields.values())))
        self._view_fields.setdefault(table.lower(), {}).update((name.lower(), field) for name, field in fields.items())
        for name, type_ in call.columns():
            self._fields = self._fields.append(pa.field(fields[name], type_))

    def _call(self, node: Any, text: str, tokens: Sequence[Any], names: tuple[str, ...], *, is_outer: bool) -> GeneratorCall:
        name = function_name(node)
        function = name.removesuffix("_outer")
        nodes, texts = arguments(node), call_arguments(tokens)
        rows = 0
        if function == "stack" and nodes:
            rows, nodes, texts = _whole_number(nodes[0]), nodes[1:], texts[1:]
        generator = Generator(function, is_outer or name.endswith("_outer"), rows)
        types = tuple(self.analyse(one).type for one in nodes)
        quoted = quoted_names(text, tokens)
        return GeneratorCall(node, tuple(nodes), generator, tuple(self.text(text, one) for one in texts), types, names, quoted)

    @cached_property
    def items(self) -> list[tuple[Any, str | GeneratorCall | None]]:
        """The items of the SELECT list, each with its expression or call of a generator; None for a star."""
        texts = split_at_commas(tokenize(self.read.projections))
        return [self._item(node, tokens) for node, tokens in zip(self.read.written.expressions, texts, strict=True)]

    def _item(self, node: Any, tokens: list[Any]) -> tuple[Any, str | GeneratorCall | None]:
        if node.is_star:
            return node, None
        inner, names = unalias(node)
        if function_name(inner) in GENERATORS:
            return node, self._call(inner, self.read.projections, tokens, names, is_outer=False)
        return node, self.text(self.read.projections, without_alias(tokens) if names else tokens)

    @property
    def condition(self) -> str | None:
        """The expression after WHERE."""
        return self.text(self.read.where, tokenize(self.read.where)) if self.read.where else None

    # ── Names ─────────────────────────────────────────────────────────────────────────────────────

    def text(self, text: str, tokens: Sequence[Any]) -> str:
        """A part of the query's text, where columns have the names of fields."""

        def name_of(table: str, column: str) -> str | None:
            if column in self._view_fields.get(table, {}):
                return quote_name(self._view_fields[table][column])
            return "" if table == self.read.name.lower() else None

        return with_field_names(text, tokens, name_of)

    def analyse(self, node: Any) -> Analysis:
        """Analyse an expression of the query; positions are those in the query."""
        found = analyse_node(node.copy().transform(self._as_field), self._fields)
        return replace(found, findings=(*self._ambiguous(node), *found.findings))

    def _as_field(self, column: Any) -> Any:
        from sqlglot import exp

        if not isinstance(column, exp.Column):
            return column
        table, *rest = column.parts
        fields = self._view_fields.get(table.name.lower(), {})
        first = rest[0].copy() if rest else None
        if first is not None and first.name.lower() in fields:
            first.set("this", fields[first.name.lower()])
        elif first is None or table.name.lower() != self.read.name.lower():
            return column
        found = exp.column(first)
        return exp.Dot.build([found, *(part.copy() for part in rest[1:])]) if len(rest) > 1 else found

    def _ambiguous(self, node: Any) -> Iterator[Finding]:
        """Names without a table that several tables have."""
        from sqlglot import exp

        for column in node.find_all(exp.Column):
            name = column.parts[0].name.lower()
            tables = [table for table, fields in self._view_fields.items() if name in fields]
            if any(name == field.split(".")[0].lower() for field in self.events.names):
                tables.insert(0, self.read.name)
            if len(tables) > 1 and name not in {*self._view_fields, self.read.name.lower()}:
                hint = " or ".join(f"{table}.{column.parts[0].name}" for table in tables if " " not in table)
                message = f"{' and '.join(tables)} have a column {column.parts[0].name!r}"
                yield Finding("ambiguous-column", message, hint=f"write {hint}", at=start_offset(column))

    def columns(self) -> Iterator[Column]:
        """All columns of the query's tables, in the order of ``*``."""
        for field in self.events:
            yield Column(self.read.name.lower(), field.name, field.type, quote_name(field.name))
        for view in self.views:
            for (name, type_), field in zip(view.call.columns(), view.fields, strict=True):
                yield from _leaves(Column(view.table, name, type_, quote_name(field)))

    def members(self, node: Any) -> list[tuple[str, Column]]:
        """Of a struct of the events that a node names as a whole: the rest of each member's name, and its column."""
        from sqlglot import exp

        if not isinstance(node, exp.Column):
            return []
        parts = [part.name.lower() for part in node.parts]
        if len(parts) > 1 and parts[0] == self.read.name.lower():
            parts = parts[1:]
        begin = ".".join(parts)
        own = (column for column in self.columns() if column.table == self.read.name.lower())
        return [(one.name[len(begin) :], one) for one in own if one.name.lower().startswith(f"{begin}.")]


def _leaves(column: Column) -> Iterator[Column]:
    if not pa.types.is_struct(column.type):
        yield column
        return
    for member in column.type:
        inside = f"{column.text}.{quote_name(member.name)}"
        yield from _leaves(Column(column.table, f"{column.name}.{member.name}", member.type, inside))


def _group_struct_members(incoming: Schema) -> Schema:
    """Return the fields in the order of ``*``: members of a struct are next to each other."""
    try:
        return flat_schema(nested_schema(incoming))
    except ValueError:  # the step that causes the conflict reports it
        return incoming


def unalias(node: Any) -> tuple[Any, tuple[str, ...]]:
    """An item of the SELECT list without its names, and these."""
    from sqlglot import exp

    if isinstance(node, exp.Aliases):
        return node.this, tuple(name.name for name in node.expressions)
    return node.unalias(), ((node.alias,) if node.alias else ())


def function_name(node: Any) -> str:
    """The name of the function that a node calls, in lower case; empty if it is not a call."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def arguments(call: Any) -> list[Any]:
    """The nodes of a call's arguments."""
    return [call.this, *call.expressions] if call.key != "anonymous" else list(call.expressions)


def _whole_number(node: Any) -> int:
    """The value of a literal; 0 for anything else."""
    return int(node.name) if node.key == "literal" and node.name.isdigit() else 0
