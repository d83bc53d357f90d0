"""Conditions with queries: those of WHERE that compare rows with a query's, and queries inside of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from etl.sql.columns import Scope
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import spark_text, value_queries
from etl.sql.forms.outer_columns import refuse_correlated, refuse_outer_results
from etl.sql.forms.query_values import QueryValues
from etl.sql.forms.subqueries import is_plain, member_rows, membership_of, split_correlated
from etl.sql.join_conditions import conjuncts
from etl.sql.joins import warn_of_state
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start

if TYPE_CHECKING:
    from etl.sql.queries import Queries


class QueryConditions:
    """Compiles the queries in WHERE and in the list of SELECT."""

    def __init__(self, compiled: CompiledScript, queries: Queries) -> None:
        self._compiled = compiled
        self._queries = queries
        self._values = QueryValues(compiled, queries)

    def met(self, node: Any, relation: Relation) -> tuple[Any, Relation]:
        """The rows that meet conditions with queries, with the values of others, and the SELECT without these conditions."""
        node, relation = self._with_members(node, relation)
        where = node.args.get("where")
        return node, self._values.joined(relation, list(conjuncts(where.this)) if where else [], node.expressions)

    def _with_members(self, node: Any, relation: Relation) -> tuple[Any, Relation]:
        """The rows that meet conditions with queries, and the query without these; others are met before, as they cost less."""
        from sqlglot import exp

        where = node.args.get("where")
        parts = [(part, membership_of(part)) for part in conjuncts(where.this)] if where else []
        computed = [part for part, member in parts if member is None and any(value_queries(part))]
        if not computed and not any(member for _, member in parts):
            return node, relation
        if rest := [part for part, member in parts if member is None and part not in computed]:
            relation = _filtered(relation, rest)
        for _, member in parts:
            if member is not None:
                ttl = self._queries.settings.ttl
                rows_of = partial(self._member_query, relation.scope, member.value is not None)
                relation = member_rows(relation, member, self._compiled, ttl, rows_of, node)
                warn_of_state(self._compiled, relation, member.at)
        node = node.copy()
        node.set("where", exp.Where(this=exp.and_(*computed, copy=False)) if computed else None)
        return node, relation

    def _member_query(self, around: Scope, reads_values: bool, node: Any) -> tuple[Relation, list[Any], list[Any]]:
        """Of a query in a condition: rows, conditions that name columns of the query around it, the values of its columns, which
        EXISTS does not read."""
        from sqlglot import exp

        while isinstance(node, exp.Subquery):
            node = node.this
        try:
            rows, correlated, values = self._rows_and_values(around, node)
            for value in values if reads_values else ():
                spark_text(value, rows.scope)
        except ScriptError:
            if isinstance(node, exp.Select):
                refuse_outer_results(node.expressions, self._queries.scope_of(node), around)
            raise
        return rows, correlated, values

    def _rows_and_values(self, around: Scope, node: Any) -> tuple[Relation, list[Any], list[Any]]:
        from sqlglot import exp

        if isinstance(node, exp.Select) and node.args.get("where"):
            own, correlated = split_correlated(node, inner := self._queries.scope_of(node).inside(around))
            if correlated and not is_plain(node):
                refuse_correlated(correlated, inner, around)
            elif correlated:
                node = node.copy()
                node.set("where", exp.Where(this=exp.and_(*own)) if own else None)
                node, rows = self.met(*self._queries.from_rows(node))
                if where := node.args.get("where"):
                    rows = _filtered(rows, [where.this])
                rows = replace(rows, scope=rows.scope.inside(around))
                values = [one.unalias() for one in node.expressions if not one.is_star]
                return rows, correlated, values
        rows = self._queries.query(node)
        return rows, [], [exp.column(column.name) for column in rows.columns]


def _filtered(relation: Relation, parts: Sequence[Any]) -> Relation:
    from sqlglot import exp

    text, at = spark_text(exp.and_(*parts), relation.scope), start(parts[0])
    return relation.then(StepText({"type": "filter", "where": text}, at, {("where",): at}))
