"""Queries → relations: FROM, joins, look-ups, unions and sub-queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.columns import Scope, leaves
from etl.sql.compiled import CompiledScript, plain_name
from etl.sql.expressions import call_name, spark_text
from etl.sql.forms.matching import match_rows
from etl.sql.forms.notation import is_step, step_rows, unknown_function
from etl.sql.forms.rank_limits import qualify_limit, rank_limit
from etl.sql.forms.subqueries import compared_rows, member_rows, membership_of, refuse_groups, split_correlated
from etl.sql.forms.values import single_row, values_relation
from etl.sql.forms.versions import version_join, version_time, versions_of
from etl.sql.joins import (
    KINDS,
    conjuncts,
    filtered_sides,
    join_step,
    read_condition,
    sides_of,
    with_own_keys,
    without_columns,
    without_times,
)
from etl.sql.laterals import lateral_rows
from etl.sql.relation import FOR_EVER, RankLimit, Relation, Settings, StepText, Target
from etl.sql.select import SelectCompiler
from etl.sql.statements import CreateTable, CreateView, ScriptError, start
from etl.sql.table_options.options import read_options
from etl.sql.tables import check_columns, declared_columns, lookup_options, source_relation
from etl.sql.windows import TABLE_WINDOWS, in_order, window_of


class Queries:
    """Compiles queries over the tables and views that a script has declared so far."""

    def __init__(self, compiled: CompiledScript, catalogue: Catalogue) -> None:
        self.settings = Settings()
        self._compiled = compiled
        self._catalogue = catalogue
        self._tables: dict[str, CreateTable] = {}
        self._views: dict[str, CreateView] = {}
        self._sources: dict[str, Relation] = {}
        self._view_relations: dict[str, Relation] = {}
        self._compiling: list[str] = []

    def declare(self, statement: CreateTable | CreateView) -> None:
        """Add a table or view. Raises ScriptError for a name that is taken."""
        name = statement.name.lower()
        if name in self._tables or name in self._views:
            raise ScriptError("duplicate-name", f"{statement.name!r} is declared twice", statement.at, "give it another name")
        if isinstance(statement, CreateView):
            self._views[name] = statement
        else:
            self._tables[name] = statement  # also one with a mistake, so that queries over it are no further ones
            check_columns(statement)

    def table(self, name: str, at: int) -> CreateTable:
        """The table of a name. Raises ScriptError."""
        found = self._tables.get(name.lower())
        if found is None:
            raise ScriptError("unknown-name", f"there is no table {name!r}", at, self._near(name))
        return found

    def _near(self, name: str) -> str:
        names = [*(one.name for one in self._tables.values()), *(one.name for one in self._views.values())]
        near = get_close_matches(name, names, 1)
        return f"is {near[0]!r} meant?" if near else f"the tables are {', '.join(names) or 'none'}"

    def _source(self, table: CreateTable) -> Relation:
        if found := self._sources.get(table.name.lower()):
            return found
        options = read_options(table, "source", self._catalogue)
        name = plain_name(table.name)
        more, relation = source_relation(table, name, options)
        self._compiled.add_component(("sources", name), options, table, more)
        if relation.steps:
            relation = self._compiled.as_stream(relation, f"{name}_rows", table.at)
        self._sources[table.name.lower()] = relation
        return relation

    def _view(self, view: CreateView) -> Relation:
        key = view.name.lower()
        if key in self._compiling:
            chain = " → ".join([*self._compiling[self._compiling.index(key) :], key])
            raise ScriptError("cycle", f"the view {view.name!r} reads itself: {chain}", view.at)
        if not self.settings.emit and key in self._view_relations:
            return self._view_relations[key]
        self._compiling.append(key)
        try:
            targets = None
            if view.columns:
                targets = [Target(name, None) for name in view.columns]
            relation = self.query(view.query, targets)
        finally:
            self._compiling.pop()
        if self.settings.emit:
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
                self.declare(CreateView(table.alias, start(table), names, table.this))
        if isinstance(node, exp.Subquery):
            return self.query(node.this, targets, rank)
        if isinstance(node, (exp.Intersect, exp.Except)):
            return self._compared(node, targets)
        if isinstance(node, exp.Union):
            return self._union(node, targets)
        if isinstance(node, exp.Values):
            return self._values(node, targets)
        if not isinstance(node, exp.Select):
            raise ScriptError("unsupported-sql", f"{node.key.upper()} is not supported", start(node), "SELECT and UNION are")
        return self._select(node, targets, rank)

    def _values(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        """Rows of VALUES, as columns of a table where they are written to one."""
        from sqlglot import exp

        relation = values_relation(self._compiled, node)
        if targets is None:
            return relation
        select = exp.Select(expressions=[exp.Star()])
        select.meta["start"] = start(node)
        return SelectCompiler(select, relation, self.settings, None).compile(targets)

    def _compared(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        """INTERSECT and EXCEPT: each row of the left query once, if the right one has it, or has it not."""
        at, kind = start(node), node.key.upper()
        if node.args.get("distinct") is False:
            raise ScriptError("unsupported-sql", f"{kind} ALL is not supported", at, f"{kind} gives each row once")
        left, right = self.query(node.this, targets), self.query(node.expression, targets)
        found = compared_rows(left, right, self._compiled, self.settings.ttl, kind == "EXCEPT", at)
        self._warn_of_state(found, at)
        return found

    def _union(self, node: Any, targets: Sequence[Target] | None) -> Relation:
        left = self.query(node.this, targets)
        is_open = left.scope.is_open and targets is None
        names = None if is_open else targets or [Target(column.name, None) for column in left.columns]
        right = self.query(node.expression, names)
        sides = [
            self._compiled.as_stream(one, f"part_of_union_{len(self._compiled.value['streams'])}", start(node))
            for one in (left, right)
        ]
        columns = tuple(
            one if one.time == other.time else replace(one, time=None)
            for one, other in zip(left.columns, right.columns, strict=False)
        )
        changes = next((one.changes_at for one in sides if one.changes_at is not None), None)
        scope = Scope(columns, is_open=is_open or right.scope.is_open)
        relation = Relation((*sides[0].inputs, *sides[1].inputs), (), scope, None, changes, is_exact=not scope.is_open)
        if not node.args.get("distinct"):
            return relation
        keys = [leaf.field for column in columns for leaf in leaves(column)]
        return relation.then(StepText({"type": "dedupe", "keys": keys, "within": self.settings.ttl}, start(node)))

    def _select(self, node: Any, targets: Sequence[Target] | None, rank: RankLimit | None) -> Relation:
        from_ = node.args.get("from_") or node.args.get("from")
        if from_ is None:
            return SelectCompiler(node, single_row(self._compiled, start(node)), self.settings, rank).compile(targets)
        own_rank, where = rank_limit(node)
        if own_rank is None and (outer := qualify_limit(node)):
            rank, where = outer
            own_rank = None
        relation = self._from(from_.this, own_rank)
        if where is not None:
            node = node.copy()
            node.set("where", where if where else None)
        joins = [*(from_.this.args.get("joins") or []), *(node.args.get("joins") or [])]
        if joins:
            node, relation = self._joined(node, relation, joins)
        for lateral in node.args.get("laterals") or []:
            relation = lateral_rows(relation, lateral, is_left=False)
        node, relation = self._with_members(node, relation)
        return SelectCompiler(node, relation, self.settings, rank).compile(targets)

    def _with_members(self, node: Any, relation: Relation) -> tuple[Any, Relation]:
        """The rows that meet conditions with queries, and the query without WHERE; others are met before, as they cost less."""
        from sqlglot import exp

        where = node.args.get("where")
        parts = [(part, membership_of(part)) for part in conjuncts(where.this)] if where else []
        if not any(member for _, member in parts):
            return node, relation
        if rest := [part for part, member in parts if member is None]:
            text = spark_text(exp.and_(*rest), relation.scope)
            relation = relation.then(StepText({"type": "filter", "where": text}, start(where), {("where",): start(rest[0])}))
        for _, member in parts:
            if member is not None:
                relation = member_rows(relation, member, self._compiled, self.settings.ttl, self._member_query)
                self._warn_of_state(relation, member.at)
        node = node.copy()
        node.set("where", None)
        return node, relation

    def _member_query(self, node: Any) -> tuple[Relation, list[Any], Any]:
        """Of a query in a condition: rows, conditions that name columns of the query around it, the value of its column."""
        from sqlglot import exp

        node = node.this if isinstance(node, exp.Subquery) else node
        from_ = node.args.get("from_") if isinstance(node, exp.Select) else None
        if from_ is not None and not node.args.get("joins") and not node.args.get("laterals"):
            rows = self._from(from_.this)
            own, correlated = split_correlated(node, rows.scope)
            if correlated:
                refuse_groups(node)
                if own:
                    rows = rows.then(StepText({"type": "filter", "where": spark_text(exp.and_(*own), rows.scope)}, start(node)))
                return rows, correlated, node.expressions[0].unalias() if len(node.expressions) == 1 else None
        rows = self.query(node)
        value = exp.column(rows.columns[0].name) if len(rows.columns) == 1 else None
        return rows, [], value

    def _from(self, node: Any, rank: RankLimit | None = None) -> Relation:
        """The rows of one entry of FROM."""
        from sqlglot import exp

        if isinstance(node, exp.Subquery):
            return _aliased(self.query(node.this, None, rank), node)
        if isinstance(node, exp.Values):
            alias = node.args.get("alias")
            names = [column.name for column in alias.args.get("columns") or []] if alias else []
            return _aliased(values_relation(self._compiled, node, names), node)
        if isinstance(node, exp.TableFromRows):
            return self._window_table(node)
        if isinstance(node, exp.Table):
            for key, what in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT")):
                if node.args.get(key):
                    raise ScriptError(
                        "unsupported-sql", f"{what} is not supported", start(node), "WHERE and CASE choose rows and values"
                    )
            relation = self._named(node)
            scope = replace(relation.scope, aliases={}).qualified(node.name)
            return _aliased(replace(relation, scope=scope), node)
        raise ScriptError(
            "unsupported-sql",
            f"{node.sql(dialect='spark')[:40]!r} cannot be read",
            start(node),
            "FROM takes tables, views and queries",
        )

    def _named(self, node: Any) -> Relation:
        name = node.name.lower()
        if view := self._views.get(name):
            return self._view(view)
        if table := self._tables.get(name):
            return self._source(table)
        raise ScriptError("unknown-name", f"there is no table {node.name!r}", start(node), self._near(node.name))

    def _window_table(self, node: Any) -> Relation:
        call = node.this
        if call_name(call) == "match_recognize":
            table, clause = call.expressions
            return _aliased(match_rows(self._from(table), clause, self.settings.ttl), node)
        if not call.expressions:
            raise ScriptError("wrong-arguments", f"{call.name} takes a table", start(call), "TABLE(TUMBLE(TABLE t, …))")
        if str(call.name).lower() not in TABLE_WINDOWS:
            if is_step(call, self._catalogue):
                return _aliased(self._step(call), node)
            raise unknown_function(call, self._catalogue)
        table, *arguments = in_order(call)
        relation = self._from(table)
        window = window_of(call, relation.scope, arguments)
        return _aliased(replace(relation, window=window), node)

    def _step(self, call: Any) -> Relation:
        """The rows of a step that is written as a table function."""
        relation = step_rows(call, self._step_inputs)
        table = relation.steps[-1].options.get("table")
        if relation.steps[-1].options["type"] == "lookup" and isinstance(table, str) and table.lower() in self._tables:
            self._own_table(self._tables[table.lower()])
        return relation

    def _step_inputs(self, nodes: Sequence[Any]) -> Relation:
        from sqlglot import exp

        found = [self._step(node) if isinstance(node, exp.Anonymous) else self._from(node) for node in nodes]
        if len(found) == 1:
            return found[0]
        name = f"input_{len(self._compiled.value['streams'])}"
        sides = [self._compiled.as_stream(one, name, start(node)) for one, node in zip(found, nodes, strict=True)]
        return Relation(tuple(one for side in sides for one in side.inputs), (), Scope((), is_open=True), is_exact=False)

    def _own_table(self, table: CreateTable) -> None:
        """Declare a look-up table with the options that the script gives it."""
        name = plain_name(table.name)
        if name not in self._compiled.value.setdefault("tables", {}):
            self._compiled.add_component(("tables", name), read_options(table, "table", self._catalogue), table, {})

    def _joined(self, node: Any, relation: Relation, joins: list[Any]) -> tuple[Any, Relation]:
        """The relation after all joins; of the condition in WHERE what concerns no two tables is left."""
        from sqlglot import exp

        where = node.args.get("where")
        rest = list(conjuncts(where.this)) if where else []
        for number, join in enumerate(joins):
            at = start(join)
            on = list(conjuncts(join.args.get("on")))
            side = str(join.args.get("side") or "").upper()
            if isinstance(join.this, (exp.Lateral, exp.Unnest)):
                relation = lateral_rows(relation, join.this, is_left=side == "LEFT")
                continue
            if isinstance(join.this, exp.Table) and join.this.args.get("version"):
                relation = self._version(relation, join, on, side, number)
                continue
            right = self._from(join.this)
            if side == "":
                both = [part for part in rest if {"left", "right"} <= sides_of(part, relation.scope, right.scope)]
                rest = [part for part in rest if part not in both]
                on += both
            changes = next((one.changes_at for one in (relation, right) if one.changes_at is not None), None)
            if changes is None:
                relation, right, on, rest = filtered_sides(relation, right, side, on, rest)
            scopes = [one.scope if changes is None else without_times(one.scope) for one in (relation, right)]
            condition = read_condition(on, *scopes)
            kind = KINDS.get(side)
            if kind is None:
                raise ScriptError("unsupported-sql", f"{side} JOIN is not supported", at, "INNER, LEFT, RIGHT or FULL")
            right = with_own_keys(right, condition, kind, at)
            shared = [one.name for one in join.args.get("using") or []]
            condition.equal += [(relation.scope.find([name], at), right.scope.find([name], at)) for name in shared]
            left = self._compiled.as_stream(relation, f"left_of_join_{len(self._compiled.value['streams'])}", at)
            right = self._compiled.as_stream(right, f"right_of_join_{len(self._compiled.value['streams'])}", at)
            relation = join_step(left, right, condition, kind, _prefix(number), self.settings.ttl, at, changes)
            self._warn_of_state(relation, at)
            relation = without_columns(relation, [other for _, other in condition.equal[len(condition.equal) - len(shared) :]])
        node = node.copy()
        node.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        return node, relation

    def _warn_of_state(self, joined: Relation, at: int) -> None:
        """Warn of a join that keeps all rows of both sides."""
        options = joined.steps[-1].options
        if FOR_EVER in (options.get("within"), options.get("before"), options.get("after")) or (
            options.get("changelog") and "ttl" not in options
        ):
            message = "the join has no bound: it keeps the columns that are used of every row of both sides for ever"
            hint = "add AND b.t BETWEEN a.t - INTERVAL '1' HOUR AND a.t, or SET 'table.exec.state.ttl' = '1 d'"
            self._compiled.warnings.append(ScriptError("unbounded-state", message, at, hint))

    def _version(self, relation: Relation, join: Any, on: list[Any], side: str, number: int) -> Relation:
        """``JOIN … FOR SYSTEM_TIME AS OF``: the version at an event time, or a look-up at the time of reading."""
        at, name = start(join), join.this.name.lower()
        time = version_time(join, relation.scope)
        view, table = self._views.get(name), self._tables.get(name)
        if time is None or (table is not None and table.watermark is None):
            return self._lookup(relation, join, on, side)
        right = self.query(versions_of(view)) if view else self._named(join.this)
        right = replace(right, scope=Scope(right.columns).qualified(join.this.alias or join.this.name))
        condition = read_condition(on, relation.scope, right.scope)
        right = with_own_keys(right, condition, KINDS.get(side, "inner"), at)
        left = self._compiled.as_stream(relation, f"left_of_join_{len(self._compiled.value['streams'])}", at)
        right = self._compiled.as_stream(right, f"versions_{len(self._compiled.value['streams'])}", at)
        return version_join(left, right, time, condition, side, _prefix(number), at)

    def _lookup(self, relation: Relation, join: Any, on: list[Any], side: str) -> Relation:
        """``JOIN table FOR SYSTEM_TIME AS OF time ON …``: the step lookup."""
        at = start(join)
        table = self.table(join.this.name, at)
        columns = declared_columns(table)
        right = Scope(columns).qualified(join.this.alias or table.name)
        condition = read_condition(on, relation.scope, right)
        extra: list[StepText] = []
        pairs = [(one.field, other.name) for one, other in condition.equal]
        for part in list(condition.others):
            if computed := _computed_pair(part, relation.scope, right):
                name = f"key_{len(pairs) + 1}"
                extra.append(StepText({"type": "set", "fields": {name: computed[0]}}, at))
                pairs.append((name, computed[1]))
                condition.others.remove(part)
        if not pairs:
            raise ScriptError("unsupported-sql", "a look-up needs ON column = key of the table", at)
        name = self._lookup_table(table, [key for _, key in pairs])
        taken = {leaf.field for column in relation.columns for leaf in leaves(column)}
        added = {
            column.name: (f"{plain_name(table.name)}_{column.name}" if column.name in taken else column.name)
            for column in columns
        }
        fields = [field for field, _ in pairs]
        options: dict[str, Any] = {"type": "lookup", "table": name, "on": fields[0] if len(fields) == 1 else fields}
        options["add"] = {added[column.name]: column.name for column in columns}
        options["several"] = "all"
        options["miss"] = "keep" if side == "LEFT" else "drop"
        scope = Scope((*relation.columns, *(replace(one, field=added[one.name]) for one in right.columns)))
        relation = relation.then(*extra, StepText(options, at), scope=scope, is_exact=False)
        if condition.others:
            text = " and ".join(f"({spark_text(part, scope)})" for part in condition.others)
            relation = relation.then(StepText({"type": "filter", "where": text}, at))
        return relation

    def _lookup_table(self, table: CreateTable, keys: list[str]) -> str:
        name = plain_name(table.name)
        if name not in self._compiled.value.setdefault("tables", {}):
            options = read_options(table, "table", self._catalogue)
            self._compiled.add_component(("tables", name), options, table, lookup_options(table, options, keys))
        return name


def _prefix(number: int) -> str:
    """The prefix of fields of a join's right side."""
    return "right." if number == 0 else f"right{number + 1}."


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


def _computed_pair(node: Any, left: Scope, right: Scope) -> tuple[str, str] | None:
    """The expression over the left side and the key of the right one that a condition sets equal."""
    from sqlglot import exp

    if not isinstance(node, exp.EQ):
        return None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Column):
            try:
                key = right.find([part.name for part in other.parts], start(other))
                return spark_text(one, left), key.name
            except ScriptError:
                continue
    return None
