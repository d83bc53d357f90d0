"""SELECT → steps: filter, window, over, top, dedupe and select, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from etl.sql.columns import Scope, SqlColumn, TimeAttribute, field_name, leaves, named_leaves
from etl.sql.expressions import call_name, full_type, interval_or_other, plain_column, quoted, resolved, spark_text, text_of
from etl.sql.forms.grouping_sets import expanded
from etl.sql.forms.ordering import Ordering, ordered_rows, without_row_number
from etl.sql.forms.over import run_over, with_named_windows
from etl.sql.forms.rank_limits import QUALIFY
from etl.sql.functions.calls import unknown_function
from etl.sql.functions.casts import implicit_cast
from etl.sql.functions.typed_nodes import sql_type
from etl.sql.grouping import WINDOW_TIME, Grouping, is_grouped, is_timed_window
from etl.sql.ranked_rows import RankedRows
from etl.sql.relation import RankLimit, Relation, Settings, StepText, Target, WindowRows
from etl.sql.statements import ScriptError, start, text_key
from etl.sql.window_bounds import with_bounds

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_OTHER_CLAUSES = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "connect": "CONNECT BY",
    "into": "SELECT … INTO",
    "locks": "FOR UPDATE",
}
"""Clauses that are not supported: their name in sqlglot → in SQL."""


class SelectCompiler:
    """Compiles one SELECT; its FROM has been compiled to a relation."""

    def __init__(self, node: Any, relation: Relation, settings: Settings, rank: RankLimit | None) -> None:
        self._node = node
        self._relation = self._incoming = relation
        self._settings = settings
        self._rank = rank

    def compile(self, targets: Sequence[Target] | None = None) -> Relation:
        """The relation after WHERE, GROUP BY, HAVING, OVER and the list of SELECT. Raises ScriptError."""
        self._refuse_clauses()
        self._node = with_named_windows(self._node)
        if self._rank is None and not is_grouped(self._node):
            self._relation = with_bounds(self._relation, self._node)
        if where := self._node.args.get("where"):
            self._filter(where.this)
        try:
            return self._after_where(targets)
        except ScriptError as error:
            raise self._explain(error) from None

    def _after_where(self, targets: Sequence[Target] | None) -> Relation:
        if is_grouped(self._node):
            self._node, self._relation = expanded(self._node, self._relation)
            self._relation = Grouping(self._node, self._relation, self._settings).compile()
            if having := self._node.args.get("having"):
                self._having(having.this)
        if self._rank is not None:
            self._relation = RankedRows(self._node, self._relation, self._settings, self._rank).compile()
        self._relation = run_over(self._node, self._relation, self._rank_name, self._settings)
        ordering = Ordering.of(self._node)
        if ordering is None:
            return self._project(targets)
        if not self._node.args.get("distinct"):
            items = ordering.resolved(self._node.expressions)
            self._relation = ordered_rows(self._relation, items, self._settings)
            return self._project(targets)
        relation = self._project(targets)
        return without_row_number(ordered_rows(relation, ordering, self._settings), relation.scope, ordering.at)

    def _explain(self, error: ScriptError) -> ScriptError:
        """Add the reason to the error of an unknown column that exists before GROUP BY only, or after it only."""
        name = str(error).partition("'")[2].rpartition("'")[0]
        if not str(error).startswith("there is no column") or not name:
            return error
        if self._incoming.window is not None and name.lower() in ("window_start", "window_end", "window_time"):
            hint = "GROUP BY window_start, window_end; only rows of windows by an event time have them before"
            return ScriptError("unknown-field", f"rows of windows have {name!r} after they are grouped", error.at, hint)
        try:
            self._incoming.scope.find(name.split("."), error.at)
        except ScriptError:
            return error
        group = self._node.args.get("group")  # a function that does not exist may be meant for an aggregate, or be a key
        for unknown in (*(unknown_function(one, error.at) for one in self._node.expressions), group and unknown_function(group)):
            if unknown:
                return unknown
        hint = "add it to GROUP BY, or take max(x) or FIRST_VALUE(x)"
        return ScriptError("unknown-field", f"{name!r} is neither in GROUP BY nor in an aggregate", error.at, hint)

    def _refuse_clauses(self) -> None:
        distinct = self._node.args.get("distinct")
        if distinct and distinct.args.get("on"):
            hint = "ROW_NUMBER() OVER (PARTITION BY key ORDER BY time) = 1 gives the first row of each key"
            raise ScriptError("unsupported-sql", "DISTINCT ON is not supported", start(distinct), hint)
        for key, what in _OTHER_CLAUSES.items():
            if self._node.args.get(key):
                raise ScriptError("unsupported-sql", f"{what} is not supported", start(self._node), "leave it out")

    def _add(
        self, options: dict[str, Any], at: int, starts: dict[tuple[str | int, ...], int] | None = None, **changes: Any
    ) -> None:
        is_exact = self._relation.is_exact and options["type"] == "filter"
        self._relation = self._relation.then(StepText(options, at, starts or {}), is_exact=is_exact, **changes)

    def _filter(self, condition: Node) -> None:
        text = spark_text(condition, self._relation.scope)
        self._add({"type": "filter", "where": text}, start(condition), {("where",): start(condition)})

    def _having(self, condition: Node) -> None:
        """Add HAVING as a filter, so that equal windows run once; over tables without columns as ``having`` of the window."""
        last = self._relation.steps[-1]
        if not self._incoming.scope.is_open or not is_timed_window(last):
            self._filter(condition)
            return
        text = spark_text(condition, self._relation.scope)
        last = replace(last, options={**last.options, "having": text}, starts={**last.starts, ("having",): start(condition)})
        self._relation = replace(self._relation, steps=(*self._relation.steps[:-1], last))

    @property
    def _rank_name(self) -> str | None:
        return self._rank.name.lower() if self._rank else None

    # ── The list of SELECT ────────────────────────────────────────────────────────────────────

    def _project(self, targets: Sequence[Target] | None) -> Relation:
        if self._relation.scope.is_open and any(item.is_star for item in self._node.expressions):
            return self._with_all(targets)
        items = [one for item in self._node.expressions for one in self._expand(item)]
        named = [bool(item.alias) for item in self._node.expressions for _ in self._expand(item)]
        if targets is not None and len(items) != len(targets):
            names = ", ".join(target.name for target in targets)
            raise ScriptError(
                "wrong-columns",
                f"the query gives {len(items)} columns, and the table takes {len(targets)}: {names}",
                start(self._node),
            )
        fields: dict[str, str] = {}
        starts: dict[tuple[str | int, ...], int] = {}
        columns: list[SqlColumn] = []
        taken: set[str] = set()
        warning: ScriptError | None = None
        for number, (column, text, at) in enumerate(items):
            name, type_ = column.name, column.type
            if targets is not None:
                target = targets[number]
                name = target.name
                if target.type and target.type != type_:
                    text, type_ = implicit_cast(text, type_, target.type), target.type
            if name in taken and (named[number] or targets is not None):
                raise ScriptError("duplicate-column", f"the result has two columns {name!r}", at, "give one another name: AS …")
            name = _free_name(name, taken)
            taken.add(name)
            if column.members:
                fields |= {path: quoted(leaf.field) for path, leaf in named_leaves(column, name)}
            else:
                fields[field_name(name)] = text
                starts["fields", field_name(name)] = at
                warning = warning or _renaming(name, at)
            columns.append(SqlColumn(name, field_name(name), type_, column.time, _rename(column, name), column.qualifier))
        window = self._relation.window
        if window is not None:
            window = self._window_after(window, columns, items)
        relation = self._relation.then(scope=Scope(tuple(columns)), window=window)
        if fields == {one: quoted(one) for one in fields} and list(fields) == self._known_fields():
            return self._distinct(replace(relation, is_exact=True))
        relation = relation.then(
            StepText({"type": "select", "fields": fields}, start(self._node), starts, warning), is_exact=True
        )
        return self._distinct(relation)

    def _known_fields(self) -> list[str] | None:
        """All fields of the events in their order; None if there may be others."""
        if self._relation.is_exact:
            return [one.field for column in self._relation.columns for one in leaves(column)]
        last = self._relation.steps[-1] if self._relation.steps else None
        if last is None or not is_timed_window(last) or isinstance(last.options.get("emit"), list):
            return None
        return ["window_start", "window_end", *last.options.get("group_by", ()), *last.options["aggregates"]]

    def _with_all(self, targets: Sequence[Target] | None) -> Relation:
        """Compile ``SELECT *`` and ``SELECT *, x AS y`` over rows that may have further columns. Raises ScriptError."""
        others = [item for item in self._node.expressions if not item.is_star]
        at = start(self._node)
        is_part = any(self._is_part(item) for item in self._node.expressions if item.is_star)
        if targets is not None or is_part or self._node.args.get("distinct") or len(others) < len(self._node.expressions) - 1:
            hint = "name the columns in the list of SELECT, or leave out those of the table"
            raise ScriptError("wrong-columns", "which columns * stands for is not known here", at, hint)
        unnamed = next((item for item in others if not item.alias), None)
        if unnamed is not None:
            raise ScriptError("sql-syntax", "a column beside * needs a name", start(unnamed), "write AS name after it")
        texts = {item.alias: spark_text(item.unalias(), self._relation.scope) for item in others}
        known = (column.field for column in self._relation.columns)
        computed = {*self._relation.scope.aliases.values(), *known}  # by the steps of OVER and of look-ups, under these names
        fields = {name: text for name, text in texts.items() if name not in computed or text != quoted(name)}
        if fields:
            starts: dict[tuple[str | int, ...], int] = {
                ("fields", item.alias): start(item.unalias()) for item in others if item.alias in fields
            }
            self._add({"type": "set", "fields": fields}, start(others[0]), starts)
        return self._relation

    def _is_part(self, item: Any) -> bool:
        """Whether ``*`` means some of the columns only: those of one of several tables, or those without EXCEPT's."""
        from sqlglot import exp

        star = item.this if isinstance(item, exp.Column) else item
        without = [one.name for one in star.args.get("except_") or ()]
        if star.args.get("replace") or star.args.get("rename") or not all(name.startswith(QUALIFY) for name in without):
            return True
        table, scope = item.table.lower() if isinstance(item, exp.Column) else "", self._relation.scope
        names = {one.name.lower() for one in scope.tables} | {one.qualifier.lower() for one in scope.columns if one.qualifier}
        return bool(table) and (names or {table}) != {table}

    def _distinct(self, relation: Relation) -> Relation:
        return distinct_rows(relation, self._settings, start(self._node)) if self._node.args.get("distinct") else relation

    def _window_after(
        self, window: WindowRows, columns: list[SqlColumn], items: list[tuple[SqlColumn, str, int]]
    ) -> WindowRows | None:
        """The window with the name that its start has after the projection."""
        for column, (_, text, _) in zip(columns, items, strict=True):
            if text == window.start:
                return replace(window, start=column.field)
        return None if window.closed else window

    def _expand(self, item: Any) -> list[tuple[SqlColumn, str, int]]:
        """The columns of one item of the list, each with its expression and its position in the script."""
        from sqlglot import exp

        scope, at = self._relation.scope, start(item)
        if item.is_star:
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            star = item.this if isinstance(item, exp.Column) else item
            if other := next((key for key in ("replace", "rename") if star.args.get(key)), None):
                hint = "name the columns in the list of SELECT, each with its expression"
                raise ScriptError("unsupported-sql", f"* {other.upper()} is not supported", at, hint)
            found = [one for one in scope.columns if not table or (one.qualifier or "").lower() == table]
            if not found and scope.has(table) and (row := scope.find([table], at)).members:
                found = list(row.members)
            if not found:
                raise ScriptError("unknown-field", f"there is no table {table!r} in FROM", at)
            without = self._names_without(item)
            return [(one, self._column_text(one), at) for one in found if one.name.lower() not in without]
        inner = item.unalias()
        column = plain_column(inner, scope)
        if column is not None:
            return [(replace(column, name=item.alias or column.name), self._column_text(column), start(inner))]
        is_element = isinstance(inner, exp.Bracket)  # sqlglot names a[1] after its index
        is_value = not isinstance(inner, exp.Column) and inner.output_name in ("", inner.name)
        own = "" if is_element or is_value else item.output_name
        name = item.alias or own or f"EXPR_{self._node.expressions.index(item)}"
        node = interval_or_other(resolved(inner, scope))
        text = text_of(node)
        column = SqlColumn(name, name, full_type(sql_type(node), text, scope), self._time_of(inner))
        return [(column, text, start(inner))]

    def _names_without(self, item: Any) -> set[str]:
        """The columns that ``*`` does not include: those after EXCEPT, and `window_time` of groups, which is computed only where
        it
        is named."""
        star = item if not hasattr(item.this, "args") else item.this
        named = {one.name.lower() for one in star.args.get("except_") or ()}
        return named | ({WINDOW_TIME} if is_grouped(self._node) else set())

    def _time_of(self, node: Any) -> TimeAttribute | None:
        """The attribute of ``PROCTIME()`` and of the bounds of windows."""
        name = call_name(node)
        if name == "proctime":
            return TimeAttribute()
        bound = self._relation.scope.aliases.get(text_key(node))
        return TimeAttribute(0) if bound in ("window_start", "window_end", WINDOW_TIME) else None

    @staticmethod
    def _column_text(column: SqlColumn) -> str:
        return quoted(column.field) if column.field else "flink_current_timestamp()"


def distinct_rows(relation: Relation, settings: Settings, at: int) -> Relation:
    """Compile DISTINCT: the first of equal rows passes; of a changelog, a row is in the result as long as its input has one."""
    keys = [leaf.field for column in relation.columns for leaf in leaves(column)]
    if relation.changes_at is None:
        return relation.then(StepText({"type": "dedupe", "keys": keys, "within": settings.ttl}, at))
    counted = {"type": "window", "emit": "on_change", "group_by": keys, "aggregates": {"row_count": "count(*)"}}
    counted |= settings.time_to_live
    return relation.then(StepText(counted, at), StepText({"type": "drop", "fields": ["row_count"]}, at))


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name, or that with the first number that makes it another one, as Flink names columns: ``k``, ``k0``, ``k1``."""
    return next(one for one in (name, *(f"{name}{number}" for number in range(len(taken) + 1))) if one not in taken)


def _renaming(name: str, at: int) -> ScriptError | None:
    """A warning for a column with the name of a hidden field."""
    if field_name(name) == name:
        return None
    message = f"the column {name!r} is the field {field_name(name)!r} of events, in which {name!r} is the event's identity"
    return ScriptError("reserved-field", message, at, "give it another name: AS …")


def _rename(column: SqlColumn, name: str) -> tuple[SqlColumn, ...]:
    return tuple(replace(one, field=f"{name}.{one.name}", members=_rename(one, f"{name}.{one.name}")) for one in column.members)
