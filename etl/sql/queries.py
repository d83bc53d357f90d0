"""Queries → relations: SELECT, FROM, set operations and views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.columns import Scope
from etl.sql.compiled import CompiledScript, plain_name
from etl.sql.declared_tables import DeclaredTables
from etl.sql.expressions import call_name
from etl.sql.forms.common_types import with_common_types
from etl.sql.forms.group_queries import over_groups
from etl.sql.forms.matching import match_rows
from etl.sql.forms.notation import is_step, step_rows, unknown_function
from etl.sql.forms.ordering import Ordering, ordered_rows, without_row_number
from etl.sql.forms.query_conditions import QueryConditions
from etl.sql.forms.rank_limits import qualify_limit, rank_limit, without_qualify
from etl.sql.forms.subqueries import compared_rows
from etl.sql.forms.values import single_row, values_relation
from etl.sql.grouping import is_grouped
from etl.sql.hints import table_options, with_hints
from etl.sql.join_clauses import JoinClauses
from etl.sql.laterals import lateral_rows
from etl.sql.relation import RankLimit, Relation, Settings, Target
from etl.sql.select import SelectCompiler, distinct_rows
from etl.sql.statements import CreateView, ScriptError, start, unknown_table
from etl.sql.windows import TABLE_WINDOWS, in_order, window_of

_MAX_DEPTH = 6
"""Queries in conditions, one in FROM of the other: each is compiled twice, once for its columns."""


class Queries:
    """Compiles queries over the tables and views that a script has declared so far."""

    def __init__(self, compiled: CompiledScript, catalogue: Catalogue) -> None:
        self.settings = Settings()
        self.tables = DeclaredTables(compiled, catalogue)
        self._compiled = compiled
        self._catalogue = catalogue
        self._joins = JoinClauses(compiled, self)
        self._conditions = QueryConditions(compiled, self)
        self._view_relations: dict[str, Relation] = {}
        self._compiling: list[str] = []
        self._read_views: set[str] = set()
        self._depth = 0

    def unused_views(self) -> list[CreateView]:
        """The views that no query has read so far."""
        return [view for name, view in self.tables.views.items() if name not in self._read_views]

    def check_view(self, view: CreateView) -> Relation:
        """Compile a view. Raises ScriptError."""
        return self._view(view)

    def _view(self, view: CreateView) -> Relation:
        key = view.name.lower()
        self._read_views.add(key)
        if key in self._compiling:
            chain = " → ".join([*self._compiling[self._compiling.index(key) :], key])
            raise ScriptError("cycle", f"the view {view.name!r} reads itself: {chain}", view.at)
        has_emit = bool(self.settings.emit or self.settings.emits_changes)
        if not has_emit and key in self._view_relations:
            return self._view_relations[key]
        self._compiling.append(key)
        try:
            targets = None
            if view.columns:
                targets = [Target(name, None) for name in view.columns]
            relation = self.query(view.query, targets)
        finally:
            self._compiling.pop()
        if has_emit:
            return relation  # its windows have another time of results than those of other queries
        self._view_relations[key] = self._compiled.as_stream(relation, plain_name(view.name), view.at)
        return self._view_relations[key]

    def query(self, node: Any, targets: Sequence[Target] | None = None, rank: RankLimit | None = None) -> Relation:
        """The rows of a query; ``targets``: the columns that it writes. Raises ScriptError."""
        from sqlglot import exp

        with_ = node.args.get("with_") or node.args.get("with")
        if with_:
            for table in with_.expressions:
                names = tuple(column.name for column in (table.args["alias"].args.get("columns") or []))
                self.tables.declare(CreateView(table.alias, start(table), names, table.this))
        if isinstance(node, exp.Subquery):
            return self.query(node.this, targets, rank)
        if isinstance(node, (exp.Intersect, exp.Except)):
            return self._ordered(node, self._compare(node, targets))
        if isinstance(node, exp.Union):
            return self._ordered(node, self._union(node, targets))
        if isinstance(node, exp.Values):
            return self._values(node, targets)
        if not isinstance(node, exp.Select):
            raise ScriptError("unsupported-sql", f"{node.key.upper()} is not supported", start(node), "SELECT and UNION are")
        return self._select(node, targets, rank)

    def _ordered(self, node: Any, relation: Relation) -> Relation:
        """The rows of UNION, INTERSECT or EXCEPT in the order that stands behind it."""
        from sqlglot import exp

        ordering = Ordering.of(node)
        if ordering is None:
            return relation
        names = [exp.column(column.name, quoted=True) for column in relation.columns]
        rows = ordered_rows(relation, ordering.resolved(names), self.settings)
        return without_row_number(rows, relation.scope, ordering.at)

    def _values(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        """Rows of VALUES, as columns of a table where they are written to one."""
        from sqlglot import exp

        relation = values_relation(self._compiled, node)
        if targets is None:
            return relation
        select = exp.Select(expressions=[exp.Star()])
        select.meta["start"] = start(node)
        return SelectCompiler(select, relation, self.settings, None).compile(targets)

    def _compare(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        """INTERSECT and EXCEPT: rows of the left query that the right one has, or has not."""
        at, is_all = start(node), not node.args.get("distinct")
        left = self.query(node.this, targets)
        right = self.query(node.expression, targets or [Target(column.name, None) for column in left.columns])
        if len(left.columns) == len(right.columns):
            left, right = with_common_types(left, right, node.key.upper(), at, casts_all=True)
        return compared_rows(left, right, self._compiled, self.settings.ttl, node.key == "except", is_all, at)

    def _union(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        left = self.query(node.this, targets)
        is_open = left.scope.is_open and targets is None
        names = None if is_open else targets or [Target(column.name, None) for column in left.columns]
        right = self.query(node.expression, names)
        left, right = with_common_types(left, right, "UNION", start(node))
        sides = [
            self._compiled.as_stream(one, f"part_of_union_{len(self._compiled.value['streams'])}", start(node))
            for one in (left, right)
        ]
        columns = tuple(
            one if one.time == other.time else replace(one, time=None)
            for one, other in zip(left.columns, right.columns, strict=False)
        )
        changes = next((one.changes_at for one in sides if one.changes_at is not None), None)
        if left.scope.is_open:
            columns = tuple(one for one in left.columns if one in right.columns)
        scope = Scope(columns, is_open=is_open or right.scope.is_open)
        first, second = (side.inputs for side in sides)
        second = tuple(self._compiled.other_input(name, first, start(node)) for name in second)
        relation = Relation((*first, *second), (), scope, None, changes, is_exact=not scope.is_open)
        if not node.args.get("distinct"):
            return relation
        return distinct_rows(relation, self.settings, start(node))

    def _select(self, node: Any, targets: Sequence[Target] | None, rank: RankLimit | None) -> Relation:
        around = without_qualify(node) or over_groups(node)
        if around is not None:
            return self._select(around, targets, rank)
        own_rank, where = (None, None) if self.settings.is_batch else rank_limit(node)
        if own_rank is None and not self.settings.is_batch and (outer := qualify_limit(node)):
            rank, where = outer
        if where is not None:
            node = node.copy()
            node.set("where", where if where else None)
        settings = with_hints(node, self.settings, self._compiled)
        before = self.settings
        if rank or _combines_rows(node):
            self.settings = replace(before, emit=(), emits_changes=False)
        try:
            node, relation = self.from_rows(node, own_rank, settings)
        finally:
            self.settings = before
        node, relation = self._conditions.met(node, relation)
        return SelectCompiler(node, relation, settings, rank).compile(targets)

    def from_rows(self, node: Any, rank: RankLimit | None = None, settings: Settings | None = None) -> tuple[Any, Relation]:
        """The rows of FROM with all joins, and the query without the conditions that these meet."""
        from_ = node.args.get("from_") or node.args.get("from")
        if from_ is None:
            return node, single_row(self._compiled, start(node))
        relation = self.entry_rows(from_.this, rank)
        joins = [*(from_.this.args.get("joins") or []), *(node.args.get("joins") or [])]
        if joins:
            node, relation = self._joins.joined(node, relation, joins, (settings or self.settings).ttl)
        for lateral in node.args.get("laterals") or []:
            relation = lateral_rows(relation, lateral, is_left=False)
        return node, relation

    def scope_of(self, node: Any) -> Scope:
        """The columns of all that stands in FROM of a SELECT; nothing is added to the pipeline. Raises ScriptError."""
        if self._depth == _MAX_DEPTH:
            hint = "declare the innermost ones as views"
            raise ScriptError("unsupported-sql", f"more than {_MAX_DEPTH} queries in conditions are nested", start(node), hint)
        self._depth += 1
        with self._compiled.tentatively(), self.tables.tentatively():
            views = dict(self._view_relations)
            bare = node.copy()
            bare.set("where", None)
            try:
                return self.from_rows(bare)[1].scope
            finally:
                self._view_relations = views
                self._depth -= 1

    def entry_rows(self, node: Any, rank: RankLimit | None = None) -> Relation:
        """The rows of one entry of FROM."""
        from sqlglot import exp

        for key, what in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT")):
            if node.args.get(key):
                raise ScriptError(
                    "unsupported-sql", f"{what} is not supported", start(node), "WHERE and CASE choose rows and values"
                )
        if isinstance(node, exp.Subquery):
            return _aliased(self.query(node.this, None, rank), node)
        if isinstance(node, exp.Unnest):
            return lateral_rows(single_row(self._compiled, start(node)), node, is_left=False)
        if isinstance(node, exp.Values):
            alias = node.args.get("alias")
            names = [column.name for column in alias.args.get("columns") or []] if alias else []
            return _aliased(values_relation(self._compiled, node, names), node)
        if isinstance(node, exp.TableFromRows):
            return self._window_table(node)
        if isinstance(node, exp.Table):
            if node.args.get("version"):
                hint = "Flink has it for catalogs with snapshots, we do not, because sources keep none: filter by a time"
                raise ScriptError("unsupported-sql", "a table of the past cannot be read", start(node), hint)
            relation = self.named_rows(node)
            scope = replace(relation.scope, aliases={}).qualified(node.name)
            return _aliased(replace(relation, scope=scope), node)
        raise ScriptError(
            "unsupported-sql",
            f"{node.sql(dialect='spark')[:40]!r} cannot be read",
            start(node),
            "FROM takes tables, views and queries",
        )

    def named_rows(self, node: Any) -> Relation:
        """The rows of a table or view. Raises ScriptError."""
        name = node.name.lower()
        if view := self.tables.views.get(name):
            return self._view(view)
        if table := self.tables.get(name):
            return self.tables.source(table, table_options(node.comments, start(node)))
        raise unknown_table(node.name, start(node), self.tables.near(node.name))

    def _window_table(self, node: Any) -> Relation:
        call = node.this
        if call_name(call) == "match_recognize":
            table, clause = call.expressions
            return _aliased(match_rows(self.entry_rows(table), clause, self.settings.ttl), node)
        if not call.expressions:
            raise ScriptError("wrong-arguments", f"{call.name} takes a table", start(call), "TABLE(TUMBLE(TABLE t, …))")
        if str(call.name).lower() not in TABLE_WINDOWS:
            if is_step(call, self._catalogue):
                return _aliased(self._step(call), node)
            raise unknown_function(call, self._catalogue)
        table, *arguments = in_order(call)
        relation = self.entry_rows(table)
        window = window_of(call, relation.scope, arguments)
        return _aliased(replace(relation, window=window), node)

    def _step(self, call: Any) -> Relation:
        """The rows of a step that is written as a table function."""
        relation = step_rows(call, self._step_inputs)
        table = relation.steps[-1].options.get("table")
        if relation.steps[-1].options["type"] == "lookup" and isinstance(table, str) and (declared := self.tables.get(table)):
            self.tables.own_lookup_table(declared)
        return relation

    def _step_inputs(self, nodes: Sequence[Any]) -> Relation:
        from sqlglot import exp

        found = [self._step(node) if isinstance(node, exp.Anonymous) else self.entry_rows(node) for node in nodes]
        if len(found) == 1:
            return found[0]
        name = f"input_{len(self._compiled.value['streams'])}"
        sides = [self._compiled.as_stream(one, name, start(node)) for one, node in zip(found, nodes, strict=True)]
        return Relation(tuple(one for side in sides for one in side.inputs), (), Scope((), is_open=True), is_exact=False)


def _combines_rows(node: Any) -> bool:
    """Whether a SELECT has groups, rankings, joins or the like: EMIT is not of the windows that it reads, whose early and late
    results they would take for further ones."""
    from sqlglot import exp

    if is_grouped(node) or any(node.args.get(key) for key in ("distinct", "order", "limit", "offset")):
        return True
    if any(item.find(exp.Window) for item in node.expressions):
        return True
    joined = [join.this for join in node.args.get("joins") or []]
    return any(isinstance(one, exp.Table | exp.Subquery) and not one.args.get("version") for one in joined)


def _aliased(relation: Relation, node: Any) -> Relation:
    """The relation under the name of an entry of FROM, its columns under those of ``AS t (a, b)``. Raises ScriptError."""
    alias = node.args.get("alias")
    if alias is None:
        return relation
    names = [column.name for column in alias.args.get("columns") or []]
    columns = relation.columns
    if names and len(names) != len(columns):
        raise ScriptError(
            "wrong-columns", f"{alias.name!r} has {len(columns)} columns, and {len(names)} are named", start(alias) or start(node)
        )
    if names:
        columns = tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
    return replace(relation, scope=replace(relation.scope, columns=columns).qualified(alias.name or None))
