"""Queries as values, ``x > (SELECT max(y) FROM t)``, and IN and EXISTS inside of expressions → joins with one row for each key.

A query that names columns of the query around it, each set equal to one of its own, is grouped by its own columns and joined by
them; one that names none is joined by a key that all rows have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from etl.sql.compiled import CompiledScript
from etl.sql.expressions import call_name, find_aggregates, quoted, spark_text, unfiltered, value_queries
from etl.sql.forms.outer_columns import refuse_outer_results
from etl.sql.forms.subqueries import Membership, as_column, is_over, membership_of, split_correlated, with_any_key
from etl.sql.grouping import is_grouped
from etl.sql.join_conditions import JoinCondition
from etl.sql.joins import join_step, warn_of_state
from etl.sql.relation import Relation
from etl.sql.statements import ScriptError, start, text_key

if TYPE_CHECKING:
    from etl.sql.queries import Queries

INNER = "subquery"
"""Name of a query in FROM of the one that gives one row of it."""


@dataclass(frozen=True)
class _Pair:
    """A column of the query around, set equal to one of the query."""

    outer: Any
    inner: Any


class QueryValues:
    """Adds the values of queries to the rows whose expressions have them."""

    def __init__(self, compiled: CompiledScript, queries: Queries) -> None:
        self._compiled = compiled
        self._queries = queries

    def joined(self, relation: Relation, conditions: Sequence[Any], items: Sequence[Any]) -> Relation:
        """The relation with a field for each query in the parts of WHERE and in the list of SELECT. Raises ScriptError."""
        compared = {text_key(one) for part in conditions for one in _compared(part)}
        for node in (one for part in (*conditions, *items) for one in value_queries(part)):
            key = text_key(node)
            if key not in relation.scope.aliases:
                relation = self._with_value(relation, node, key, "inner" if key in compared else "left")
        return relation

    def _with_value(self, relation: Relation, node: Any, key: str, kind: str) -> Relation:
        from sqlglot import exp

        if isinstance(node, exp.Subquery):
            return self._scalar(relation, node, key, kind)
        member = membership_of(node)
        if isinstance(node, exp.Binary) and member is not None:
            return self._with_membership(relation, member, node, key)
        if isinstance(node, exp.Binary):
            return self._compared(relation, node, key)
        query = member.query if member is not None else node.args["query"]
        select = self._select_of(query, by_name=isinstance(node, exp.In))
        select, pairs = self._without_pairs(select, relation)
        if isinstance(node, exp.Exists):
            relation, (count,) = self._join(relation, select, pairs, [exp.Count(this=exp.Star())], "left", start(node))
            return _with_result(relation, key, count, f"coalesce({quoted(count)}, 0) > 0")
        return self._member(relation, node, key, select, pairs)

    def _member(self, relation: Relation, node: Any, key: str, select: Any, pairs: list[_Pair]) -> Relation:
        """IN: true if there is an equal value, else not known after a null on either side, but for an empty list."""
        from sqlglot import exp

        at, value = start(node), select.expressions[0].unalias()
        if isinstance(node.this, exp.Tuple):
            hint = "write it as a part of WHERE of its own, between AND"
            raise ScriptError("unsupported-sql", "IN with several columns does not stand inside of an expression", at, hint)
        if len(select.expressions) != 1:
            raise ScriptError("wrong-columns", "a query after IN gives one column", at)
        counts = [exp.Count(this=exp.Star()), exp.Count(this=value)]
        relation, (rows, known) = self._join(relation, select, pairs, counts, "left", at)
        own = [*pairs, _Pair(node.this, value)]
        relation, (found,) = self._join(relation, select, own, [exp.Count(this=exp.Star())], "left", at)
        text = (
            f"case when {quoted(found)} > 0 then true when coalesce({quoted(rows)}, 0) = 0 then false "
            f"when {spark_text(node.this, relation.scope)} is null or {quoted(known)} < {quoted(rows)} then null else false end"
        )
        return _with_result(relation, key, found, text)

    def _with_membership(self, relation: Relation, member: Membership, node: Any, key: str) -> Relation:
        """``x = ANY (SELECT …)`` is IN, and ``x <> ALL (SELECT …)`` NOT IN."""
        from sqlglot import exp

        one = exp.In(this=member.value, query=member.query)
        one.meta["start"] = start(node)
        relation = self._with_value(relation, one, text_key(one), "left")
        text = spark_text(exp.Not(this=one) if member.is_negated else one, relation.scope)
        return _with_result(relation, key, f"{relation.scope.aliases[text_key(one)]}_of_{node.key}", text)

    def _compared(self, relation: Relation, node: Any, key: str) -> Relation:
        """``x > ANY (SELECT …)`` and ALL: compares with the smallest or the largest value. Without values ANY is false and ALL is
        true; else the result is not known after a null on either side, unless another value decides it."""
        from sqlglot import exp

        at, is_all = start(node), isinstance(node.expression, exp.All)
        select = self._select_of(node.expression.this, by_name=True)
        if len(select.expressions) != 1:
            raise ScriptError("wrong-columns", f"a query after {'ALL' if is_all else 'ANY'} gives one column", at)
        select, pairs = self._without_pairs(select, relation)
        value = select.expressions[0].unalias()
        items = [exp.Count(this=exp.Star()), exp.Count(this=value), exp.Min(this=value), exp.Max(this=value)]
        relation, (rows, known, minimum, maximum) = self._join(relation, select, pairs, items, "left", at)
        own = spark_text(node.this, relation.scope)
        decisive = [minimum, maximum] if isinstance(node, (exp.EQ, exp.NEQ)) else [_decisive(node, is_all, minimum, maximum)]
        tests = [f"{own} {_SIGNS[node.key]} {quoted(one)}" for one in decisive]
        met = f"coalesce({(' and ' if is_all else ' or ').join(tests)}, {'true' if is_all else 'false'})"
        decided = f"not {met} then false" if is_all else f"{met} then true"
        text = (
            f"case when coalesce({quoted(rows)}, 0) = 0 then {'true' if is_all else 'false'} when {decided} "
            f"when {own} is null or {quoted(known)} < {quoted(rows)} then null else {'true' if is_all else 'false'} end"
        )
        return _with_result(relation, key, rows, text)

    def _scalar(self, relation: Relation, node: Any, key: str, kind: str) -> Relation:
        from sqlglot import exp

        select = self._select_of(node, by_name=False)
        if len(select.expressions) != 1 or select.expressions[0].is_star:
            raise ScriptError("wrong-columns", "a query as a value gives one column", start(node))
        select, pairs = self._without_pairs(select, relation)
        value = select.expressions[0].unalias()
        is_one = is_grouped(select) and not select.args.get("group")
        default = _of_no_rows(value) if is_one and not select.args.get("having") else None
        items = [value] if default is None else [value, exp.Literal.number(1)]
        kind = kind if default is None else "left"
        relation, fields = self._join(relation, select, pairs, items, kind, start(node))
        if default is None:
            return _with_result(relation, key, fields[0], None)
        text = f"case when {quoted(fields[1])} is null then {spark_text(default, relation.scope)} else {quoted(fields[0])} end"
        return _with_result(relation, key, fields[0], text)

    @staticmethod
    def _select_of(node: Any, by_name: bool) -> Any:
        """The SELECT of a query; around one with groups whose rows are counted, and around UNION and others, a further one."""
        from sqlglot import exp

        while isinstance(node, exp.Subquery):
            node = node.this
        is_whole = any(node.args.get(key) for key in ("limit", "offset", "distinct")) or (
            isinstance(node, exp.Select) and is_grouped(node)
        )
        if isinstance(node, exp.Select) and not (by_name and is_whole):
            return node
        at = start(node)
        columns = [exp.to_identifier("value")]
        around = exp.Select(expressions=[exp.column("value")])
        around.set("from_", exp.From(this=exp.Subquery(this=node, alias=exp.TableAlias(this=INNER, columns=columns))))
        around.meta["start"] = at
        return around

    def _without_pairs(self, select: Any, relation: Relation) -> tuple[Any, list[_Pair]]:
        """The query without the conditions that name columns around it, and these, which are all equalities."""
        from sqlglot import exp

        if select.args.get("where") is None:
            return select, []
        inner = self._queries.scope_of(select).inside(relation.scope)
        own, correlated = split_correlated(select, inner)
        if not correlated:
            return select, []
        pairs = [_pair(part, inner, relation) for part in correlated]
        select = select.copy()
        select.set("where", exp.Where(this=exp.and_(*own)) if own else None)
        return select, pairs

    def _join(
        self, relation: Relation, select: Any, pairs: Sequence[_Pair], items: Sequence[Any], kind: str, at: int
    ) -> tuple[Relation, list[str]]:
        """The relation with the values of the query's items for its keys, and their fields."""
        number = len(self._compiled.value["streams"])
        names = [f"value_{number}_{index}" for index in range(len(items))]
        keys = {f"key_{number}_{index}": one.inner for index, one in enumerate(pairs)}
        try:
            right = self._queries.query(_by_key(select, dict(zip(names, items, strict=True)), keys, at))
        except ScriptError:
            refuse_outer_results(items, self._queries.scope_of(select), relation.scope)
            raise
        condition = JoinCondition()
        left = relation
        for name, pair in zip(keys, pairs, strict=True):
            left, column = as_column(left, pair.outer)
            condition.equal.append((column, right.scope.find([name], at)))
        if not pairs:
            left, right, key = with_any_key(left, right, at)
            condition.equal.append((key, key))
        changes = next((one.changes_at for one in (left, right) if one.changes_at is not None), None)
        left = self._compiled.as_stream(left, f"left_of_join_{number}", at)
        right = self._compiled.as_stream(right, f"values_of_query_{number}", at)
        joined = join_step(left, right, condition, kind, "right.", self._queries.settings.ttl, at, changes)
        warn_of_state(self._compiled, joined, at)
        scope = relation.scope
        window = relation.window if joined.changes_at is None else None
        return replace(joined, scope=scope, window=window, is_exact=False), names


_SIGNS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def _decisive(node: Any, is_all: bool, minimum: str, maximum: str) -> str:
    """The field of the value that decides ``x > ANY`` or ``x > ALL``."""
    from sqlglot import exp

    return maximum if isinstance(node, (exp.GT, exp.GTE)) == is_all else minimum


def _with_result(relation: Relation, key: str, field: str, text: str | None) -> Relation:
    """The relation in whose scope a query is a field, or an expression over it."""
    scope = relation.scope
    results = scope.results if text is None else {**scope.results, field: text}
    return replace(relation, scope=replace(scope, aliases={**scope.aliases, key: field}, results=results))


def _compared(part: Any) -> Iterator[Any]:
    """The queries that a condition compares a value with: it is false where they have none."""
    from sqlglot import exp

    if isinstance(part, (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        yield from (one for one in (part.this, part.expression) if isinstance(one, exp.Subquery))


_OF_NULL = frozenset(("coalesce", "ifnull", "nvl", "nvl2", "if", "concat_ws", "is_alpha", "is_decimal", "is_digit"))
"""Functions that make a value of null."""


def _of_no_rows(value: Any) -> Any:
    """The value of an item where there are no rows, None for items that are null then."""
    from sqlglot import exp

    value = exp.Paren(this=value.copy())
    has_count = False
    for one in find_aggregates(value):
        is_count = call_name(unfiltered(one)) == "count"
        one.replace(exp.Literal.number(0) if is_count else exp.Null())
        has_count |= is_count
    return value.this if has_count or any(map(_tests_null, value.walk())) else None


def _tests_null(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, (exp.Case, exp.Is, exp.And, exp.Or)) or call_name(node) in _OF_NULL


def _pair(part: Any, inner: Any, relation: Relation) -> _Pair:
    """The sides of ``column of the query = column around it``. Raises ScriptError."""
    from sqlglot import exp

    if isinstance(part, exp.EQ):
        for one, other in ((part.this, part.expression), (part.expression, part.this)):
            if is_over(one, inner) and not is_over(other, inner):
                spark_text(other, relation.scope)  # reports a column that neither has
                return _Pair(other, one)
    for column in part.find_all(exp.Column):
        if not is_over(column, inner):
            spark_text(column, relation.scope)
    message = f"{part.sql(dialect='spark')[:60]!r} is not an equality of a column of the query and one around it"
    hint = "write u.key = t.key, or join the tables and GROUP BY; Flink refuses other conditions, too"
    raise ScriptError("unsupported-sql", message, start(part), hint)


def _by_key(select: Any, items: Mapping[str, Any], keys: Mapping[str, Any], at: int) -> Any:
    """The query with these items, and one row for each combination of the keys: else the only row of a key counts."""
    from sqlglot import exp

    node = select.copy()
    is_aggregated = any(find_aggregates(one) for one in items.values())
    has_groups = bool(node.args.get("group"))
    is_limited = isinstance(node.args.get("limit"), exp.Limit) and node.args["limit"].expression.name == "1"
    if keys and (node.args.get("limit") or node.args.get("offset")):
        hint = "take the first row of each key by ROW_NUMBER() OVER (PARTITION BY key ORDER BY …) = 1, and join it"
        raise ScriptError("unsupported-sql", "a query with LIMIT cannot name columns of the query around it", at, hint)
    node.set("expressions", [exp.alias_(one.copy(), name) for name, one in ({**items, **keys}).items()])
    if is_aggregated and keys:
        group = exp.Group(
            expressions=[*(node.args["group"].expressions if has_groups else ()), *(k.copy() for k in keys.values())]
        )
        group.meta["start"] = at
        node.set("group", group)
    if (is_aggregated and not has_groups) or (is_limited and not keys):
        return _at(node, at)
    around = exp.Select(expressions=[exp.alias_(_only(name), name) for name in items] + [exp.column(name) for name in keys])
    around.set("from_", exp.From(this=exp.Subquery(this=_at(node, at), alias=exp.TableAlias(this=exp.to_identifier(INNER)))))
    if keys:
        around.set("group", exp.Group(expressions=[exp.column(name) for name in keys]))
    return _at(around, at)


def _only(name: str) -> Any:
    """The only value of a group; an error where there are more."""
    from sqlglot import exp

    return exp.Anonymous(this="SINGLE_VALUE", expressions=[exp.column(name)])


def _at(node: Any, at: int) -> Any:
    node.meta["start"] = at
    return node
