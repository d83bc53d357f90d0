"""``MATCH_RECOGNIZE`` → the step `sequence`, and a `select` of its measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, TimeAttribute
from etl.sql.expressions import call_name, duration, plain_column, quoted, seconds_of, spark_text
from etl.sql.forms.conditions import comparisons_of
from etl.sql.forms.match_patterns import PatternVariable, ends_of, open_end, read_pattern, step_text
from etl.sql.forms.over import ONE_KEY
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start
from etl.sql.windows import time_options


def match_rows(relation: Relation, clause: Any, ttl: str) -> Relation:
    """The matches, one row each. Raises ScriptError."""
    return _Match(relation, clause, ttl).compile()


@dataclass
class _Match:
    relation: Relation
    clause: Any
    ttl: str
    fields: dict[str, str] = field(default_factory=dict)
    """New field of a match → the event's field that it has."""
    ends: tuple[str, ...] = ()
    """The variables with which a match can end."""

    def compile(self) -> Relation:
        at = start(self.clause)
        keys = [self._key(node) for node in self.clause.args.get("partition_by") or []]
        names, pattern = self._pattern()
        events, where = self._conditions(names)
        time = self._time()
        columns, values, measured = self._measures(names, keys)
        if not keys:
            self._add({"type": "set", "fields": {ONE_KEY: "1"}}, at)
        options: dict[str, Any] = {"type": "sequence", "keys": [key.field for key in keys] or [ONE_KEY], **time_options(time)}
        within = self.clause.args.get("within")
        options |= {"within": duration(seconds_of(within)) if within is not None else self.ttl, "events": events}
        options["pattern"] = pattern
        if where:
            options["where"] = where
        if self.fields:
            options["fields"] = self.fields
        starts: dict[tuple[str | int, ...], int] = {("pattern",): start(self.clause.args["pattern"])}
        if (after := self.clause.args.get("after")) and after.name != "past_last_event":
            options["after_match"], starts["after_match",] = self._after(after, names), start(after)
        self._add(options, at, starts)
        scope = Scope((*keys, *columns))
        selected = {key.field: quoted(key.field) for key in keys} | values
        self._add({"type": "select", "fields": selected}, at, {("fields", name): first for name, first in measured.items()})
        return replace(self.relation, scope=scope, window=None, is_exact=True)

    def _add(self, options: dict[str, Any], at: int, starts: dict[tuple[str | int, ...], int] | None = None) -> None:
        self.relation = self.relation.then(StepText(options, at, starts or {}))

    def _key(self, node: Any) -> SqlColumn:
        column = plain_column(node, self.relation.scope)
        if column is None:
            raise ScriptError("unsupported-sql", "PARTITION BY takes columns here", start(node), "compute it in a sub-query")
        return column

    def _time(self) -> SqlColumn:
        order = self.clause.args.get("order")
        first = order.expressions[0] if order else None
        column = plain_column(first.this, self.relation.scope) if first is not None else None
        if first is None or column is None or column.time is None or first.args.get("desc"):
            raise ScriptError(
                "missing-watermark",
                "MATCH_RECOGNIZE is ordered by a time column, ascending",
                start(first) if first is not None else start(self.clause),
                "ORDER BY the column with the WATERMARK",
            )
        return column

    # ── PATTERN ──

    def _pattern(self) -> tuple[list[str], str]:
        """The names in their order, and the pattern as the step reads it: rows follow each other directly."""
        node = self.clause.args["pattern"]
        parts = read_pattern(str(node.name), start(node))
        if last := open_end(parts):
            kind, name = ("variable", last.name) if isinstance(last, PatternVariable) else ("group", "(A B)")
            raise ScriptError(
                "unsupported-sql",
                f"the last {kind} of a pattern cannot take as many rows as there are",
                last.at,
                f"write {name}, {name}+?, or a number of times as {name}{{2}}",
            )
        self.ends = tuple(dict.fromkeys(one.name for one in ends_of(parts)))
        names = dict.fromkeys(name for part in parts for name in part.names if name != self.ends[0])
        return [*names, self.ends[0]], step_text(parts)

    def _after(self, node: Any, names: list[str]) -> str:
        """The step's option for where the next match may begin."""
        if not (variable := node.args.get("variable")):
            return str(node.name)
        name = next((one for one in names if one.lower() == variable.lower()), None)
        if name is None:
            hint = f"the variables are {', '.join(names)}"
            raise ScriptError("unknown-name", f"the pattern has no variable {variable!r}", start(node), hint)
        return f"{node.name}({name})"

    # ── DEFINE ──

    def _conditions(self, names: list[str]) -> tuple[dict[str, str], list[str]]:
        """The condition of each event, and the comparisons with earlier ones."""
        known = {name.lower(): name for name in names}
        events = dict.fromkeys(names, "true")
        where: list[str] = []
        for item in self.clause.args.get("define") or []:
            name = known.get(item.alias.lower())
            if name is None:
                hint = f"the variables are {', '.join(dict.fromkeys(names))}"
                raise ScriptError("unknown-name", f"the pattern has no variable {item.alias!r}", start(item), hint)
            own, compared = comparisons_of(item.this, name, known, self.relation.scope)
            events[name] = " and ".join(own) or "true"
            where += compared
        return events, where

    # ── MEASURES ──

    def _measures(self, names: list[str], keys: list[SqlColumn]) -> tuple[list[SqlColumn], dict[str, str], dict[str, int]]:
        columns: list[SqlColumn] = []
        values: dict[str, str] = {}
        starts: dict[str, int] = {}
        taken = {key.name.lower() for key in keys}
        for item in self.clause.args.get("measures") or []:
            name = item.alias or item.output_name
            if not name:
                raise ScriptError("sql-syntax", "a measure has a name", start(item), "write AS name after it")
            if name.lower() in taken:
                raise ScriptError(
                    "duplicate-column", f"the result has two columns {name!r}", start(item), "give one another name"
                )
            taken.add(name.lower())
            inner = item.unalias()
            is_time = call_name(inner) in ("match_rowtime", "match_proctime")
            values[name] = "sequence_end" if is_time else self._measure(inner, names)
            columns.append(SqlColumn(name, name, "timestamp" if is_time else None, TimeAttribute(0) if is_time else None))
            starts[name] = start(item)
        return columns, values, starts

    def _measure(self, node: Any, names: list[str]) -> str:
        """An expression over the fields of a match."""
        known = {name.lower(): name for name in names}
        found = {id(one): self._match_field(one, known, names[-1]) for one in _references(node)}

        def change(one: Any) -> Any:
            return found.get(id(one), one)

        changed = node.copy() if not found else node.transform(change, copy=False)
        fields = tuple(SqlColumn(name, name) for name in (*self.fields, *(f"{one}_count" for one in names)))
        return spark_text(changed, Scope(fields))

    def _match_field(self, node: Any, known: dict[str, str], last: str) -> Any:
        from sqlglot import exp

        name = call_name(node)
        if name in ("first", "last", "count"):
            arguments = node.expressions
            if name == "count" and len(arguments) == 1:
                return exp.column(f"{self._variable(arguments[0], known, last, 'COUNT')}_count", quoted=True)
            offset = arguments[1].name if len(arguments) == 2 else "0"
            if offset != "0" or not arguments:
                raise ScriptError(
                    "unsupported-sql", f"{name.upper()} gives the {name} event only", start(node), f"{name.upper()}(A.x)"
                )
            return self._field(arguments[0], known, last, "first" if name == "first" else "")
        if not isinstance(node, exp.Column):
            raise ScriptError(
                "unsupported-sql",
                f"{name.upper()} is not computed over the events of a match",
                start(node),
                "measures are FIRST, LAST and COUNT of variables, and expressions over them",
            )
        return self._field(node, known, last, "")

    def _variable(self, node: Any, known: dict[str, str], last: str, call: str) -> str:
        """That which a reference names, or which has the row that is meant without a name."""
        table = node.table.lower() if hasattr(node, "table") else ""
        if table and table not in known:
            raise ScriptError("unknown-name", f"the pattern has no variable {node.table!r}", start(node))
        if not table and call in ("FIRST", "COUNT") and len(known) > 1:
            message = f"{call} without a variable is over all rows of a match, and measures are over those of one variable"
            raise ScriptError("unsupported-sql", message, start(node), f"{call}({last}.x)")
        if not table and len(self.ends) > 1:
            message = f"the last row of a match is that of {' or '.join(self.ends)}"
            raise ScriptError("unsupported-sql", message, start(node), f"name the variable: {last}.x")
        return known.get(table, last)

    def _field(self, node: Any, known: dict[str, str], last: str, which: str) -> Any:
        from sqlglot import exp

        if not isinstance(node, exp.Column):
            raise ScriptError("unsupported-sql", "FIRST and LAST take a column here", start(node), "compute it in a sub-query")
        variable = self._variable(node, known, last, which.upper())
        column = self.relation.scope.find([node.name], start(node))
        reference = f"{which}({variable}.{column.field})" if which else f"{variable}.{column.field}"
        name = next((one for one, text in self.fields.items() if text == reference), f"value_{len(self.fields) + 1}")
        self.fields[name] = reference
        return exp.column(name, quoted=True)


def _references(node: Any) -> Iterator[Any]:
    """Columns, and calls of FIRST, LAST and aggregates, outermost first."""
    from sqlglot import exp

    from etl.sql.expressions import AGGREGATES

    if isinstance(node, exp.Column) or call_name(node) in AGGREGATES:
        yield node
        return
    for child in node.iter_expressions():
        yield from _references(child)
