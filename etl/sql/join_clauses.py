"""JOIN clauses of a query: streams with streams, versions of tables, look-ups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from etl.sql.columns import SqlColumn
from etl.sql.compiled import CompiledScript
from etl.sql.forms.lookups import lookup_rows
from etl.sql.forms.subqueries import as_column, with_any_key
from etl.sql.forms.versions import version_join, version_time, versions_of
from etl.sql.join_conditions import JoinCondition, computed_sides, conjuncts, filtered_sides, read_condition, sides_of
from etl.sql.joins import (
    KINDS,
    join_step,
    own_columns,
    warn_of_one_key,
    warn_of_state,
    with_own_keys,
    without_columns,
    without_times,
)
from etl.sql.laterals import lateral_rows
from etl.sql.relation import Relation
from etl.sql.statements import ScriptError, start

if TYPE_CHECKING:
    from etl.sql.queries import Queries


class JoinClauses:
    """Compiles the JOIN clauses of queries."""

    def __init__(self, compiled: CompiledScript, queries: Queries) -> None:
        self._compiled = compiled
        self._queries = queries

    def joined(self, node: Any, relation: Relation, joins: list[Any], ttl: str) -> tuple[Any, Relation]:
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
                relation = self._version(relation, node, join, on, side, number)
                continue
            right = self._queries.entry_rows(join.this)
            if side == "":
                both = [part for part in rest if sides_of(part, relation.scope, right.scope) == {"left", "right"}]
                rest = [part for part in rest if part not in both]
                on += both
            changes = next((one.changes_at for one in (relation, right) if one.changes_at is not None), None)
            relation, right, on, rest = filtered_sides(relation, right, side, on, rest)
            scopes = [one.scope if changes is None else without_times(one.scope) for one in (relation, right)]
            condition = read_condition(on, *scopes)
            kind = _kind(join, side, at)
            right = with_own_keys(right, condition, kind, at, is_left_open=relation.scope.is_open)
            shared = _shared_names(join, relation, right)
            condition.equal += [(relation.scope.find([name], at), right.scope.find([name], at)) for name in shared]
            own = relation.scope, right.scope
            relation, right = self._with_keys(relation, right, condition, at)
            left = self._compiled.as_stream(relation, f"left_of_join_{len(self._compiled.value['streams'])}", at)
            right = self._compiled.as_stream(right, f"right_of_join_{len(self._compiled.value['streams'])}", at)
            relation = join_step(left, right, condition, kind, _prefix(number), ttl, at, changes)
            warn_of_state(self._compiled, relation, at)
            relation = own_columns(relation, *own, kind)
            pairs = condition.equal[len(condition.equal) - len(shared) :]
            relation = _shared_first(without_columns(relation, [other for _, other in pairs]), [one for one, _ in pairs])
        node = node.copy()
        node.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        return node, relation

    def _with_keys(self, left: Relation, right: Relation, condition: JoinCondition, at: int) -> tuple[Relation, Relation]:
        """Both sides with the keys that are computed; without any a key that all rows have in common, and a warning."""
        from sqlglot import exp

        for part in list(condition.others):
            pair = computed_sides(part, left.scope, right.scope) if isinstance(part, exp.EQ) else None
            if pair:
                left, one = as_column(left, pair[0])
                right, other = as_column(right, pair[1])
                condition.equal.append((one, other))
                condition.others.remove(part)
        if condition.equal:
            return left, right
        left, right, key = with_any_key(left, right, at)
        condition.equal.append((key, key))
        warn_of_one_key(self._compiled, at)
        return left, right

    def _version(self, relation: Relation, select: Any, join: Any, on: list[Any], side: str, number: int) -> Relation:
        """``JOIN … FOR SYSTEM_TIME AS OF``: the version at an event time, or a look-up at the time of reading."""
        at, name = start(join), join.this.name.lower()
        time = version_time(join, relation.scope)
        view, table = self._queries.tables.views.get(name), self._queries.tables.get(name)
        if time is None or (table is not None and table.watermark is None):
            table = self._queries.tables.table(join.this.name, at)
            return lookup_rows(relation, select, join, on, table, self._queries.tables.lookup_table)
        versions = versions_of(view) if view else None
        is_other = view is not None and versions is not view.query
        right = self._queries.query(versions) if is_other else self._queries.named_rows(join.this)
        scope = replace(right.scope, aliases={}, results={})
        right = replace(right, scope=scope.qualified(join.this.alias or join.this.name))
        condition = read_condition(on, relation.scope, right.scope)
        right = with_own_keys(right, condition, KINDS.get(side, "inner"), at, is_left_open=relation.scope.is_open)
        left = self._compiled.as_stream(relation, f"left_of_join_{len(self._compiled.value['streams'])}", at)
        right = self._compiled.as_stream(right, f"versions_{len(self._compiled.value['streams'])}", at)
        return version_join(left, right, time, condition, side, _prefix(number), at)


def _kind(join: Any, side: str, at: int) -> str:
    """The kind of the step. Raises ScriptError."""
    if str(join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
        return str(join.args["kind"]).lower()
    if side not in KINDS:
        raise ScriptError("unsupported-sql", f"{side} JOIN is not supported", at, "INNER, LEFT, RIGHT or FULL")
    return KINDS[side]


def _shared_names(join: Any, left: Relation, right: Relation) -> list[str]:
    """The columns of USING, and of NATURAL JOIN those that both sides have."""
    if str(join.args.get("method") or "").upper() == "NATURAL":
        if left.scope.is_open or right.scope.is_open:
            message = "which columns both sides of a NATURAL JOIN have is not known, because a table declares no columns"
            raise ScriptError("wrong-columns", message, start(join), "write JOIN … ON a.key = b.key, or declare the columns")
        names = {one.name.lower() for one in left.columns}
        return [one.name for one in right.columns if one.name.lower() in names]
    return [one.name for one in join.args.get("using") or []]


def _shared_first(relation: Relation, shared: list[SqlColumn]) -> Relation:
    """The rows with the columns of USING before the others: ``SELECT *`` has them in this order."""
    fields = [one.field for one in shared]
    columns = sorted(relation.columns, key=lambda one: fields.index(one.field) if one.field in fields else len(fields))
    return replace(relation, scope=replace(relation.scope, columns=tuple(columns)))


def _prefix(number: int) -> str:
    """The prefix of fields of a join's right side."""
    return "right." if number == 0 else f"right{number + 1}."
