"""Queries in conditions, ``IN (SELECT …)`` and ``EXISTS (SELECT …)`` → the step `join` of the kinds semi and anti."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, leaves
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import is_word, plain_column, quoted, spark_text
from etl.sql.grouping import is_grouped
from etl.sql.join_conditions import JoinCondition, conjuncts, read_condition
from etl.sql.joins import join_step, warn_of_one_key
from etl.sql.relation import FOR_EVER, Relation, StepText
from etl.sql.statements import ScriptError, start

SIDE, LEFT, RIGHT, COPY = "side_of_row", "rows_left", "rows_right", "copy_of_row"
"""Fields by which INTERSECT and EXCEPT count rows."""

ANY = "any_row"
"""Key that all rows have in common."""

INNER = "subquery"
"""Qualifier of the query's columns in the condition of the join."""


@dataclass(frozen=True)
class Membership:
    """A condition that compares rows with those of a query."""

    query: Any
    value: Any
    """The expression before IN, None of EXISTS."""
    is_negated: bool
    at: int

    @property
    def values(self) -> list[Any]:
        """The expressions before IN."""
        from sqlglot import exp

        if self.value is None:
            return []
        return list(self.value.expressions) if isinstance(self.value, exp.Tuple) else [self.value]


def membership_of(node: Any) -> Membership | None:
    """``[NOT] IN (SELECT …)``, which is also ``= ANY`` and ``<> ALL``, and ``[NOT] EXISTS (SELECT …)``; None for others."""
    from sqlglot import exp

    is_negated = False
    while isinstance(node, (exp.Not, exp.Paren)):
        is_negated ^= isinstance(node, exp.Not)
        node = node.this
    if isinstance(node, exp.Exists):
        return Membership(_without_limit(node.this), None, is_negated, start(node))
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return Membership(node.args["query"], node.this, is_negated, start(node))
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return Membership(node.expression.this, node.this, is_negated, start(node))
    if isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All):
        return Membership(node.expression.this, node.this, not is_negated, start(node))
    return None


def _without_limit(query: Any) -> Any:
    """The query of EXISTS: one row is enough, so that a LIMIT of some rows, and their order, say nothing."""
    limit = query.args.get("limit")
    if limit is None or query.args.get("offset") or limit.expression is None or limit.expression.name in ("", "0"):
        return query
    query = query.copy()
    query.set("limit", None)
    query.set("order", None)
    return query


def member_rows(
    relation: Relation,
    member: Membership,
    compiled: CompiledScript,
    ttl: str,
    rows_of: Callable[[Any], tuple[Relation, list[Any], list[Any]]],
    around: Any,
) -> Relation:
    """The rows of the query ``around`` that meet the condition. ``rows_of``: the rows of a query whose conditions name no columns
    of the query around it, the other conditions, and the values of its columns. Raises ScriptError."""
    right, correlated, values = rows_of(member.query)
    if member.value is not None and len(values) != len(member.values):
        count = "one column" if len(member.values) == 1 else f"{len(member.values)} columns"
        raise ScriptError("wrong-columns", f"a query after IN gives {count}", member.at)
    outer = relation
    left, right, keys = _with_values(relation, right, member, values)
    correlated = [_requalify(one, right.scope) for one in correlated]
    right = replace(right, scope=Scope(tuple(_by_field(right)), is_open=right.scope.is_open).qualified(INNER))
    condition = read_condition(correlated, left.scope, right.scope)
    if left.scope.is_open:
        right = _with_copies(right, condition.others, member.at)
    related = replace(condition, equal=list(condition.equal))
    condition.equal += keys
    joined = _semi_or_anti(left, right, condition, member.is_negated, compiled, ttl, member.at)
    if member.is_negated and keys:
        tested = [_is_tested(around, member.values), _is_tested(member.query, _items(member.query, values))]
        nulls = NotInPairs(keys, left=not tested[0], right=not tested[1])
        if nulls.left or nulls.right:
            joined = _without_unknown(joined, right, related, nulls, compiled, ttl, member.at)
    return replace(joined, scope=outer.scope)


PREFIX = "right."
"""Of fields of the query's rows that the rows around it have, too."""


def _with_copies(right: Relation, conditions: list[Any], at: int) -> Relation:
    """The query's rows with copies of the fields that are compared, under names that rows of unknown fields do not have."""
    from sqlglot import exp

    named = [column.name for one in conditions for column in one.find_all(exp.Column) if column.table == INNER]
    copies = {name: f"{PREFIX}compared_{number}" for number, name in enumerate(dict.fromkeys(named), 1)}
    if not copies:
        return right
    others = (one for one in right.columns if one.name not in copies)
    copied = (SqlColumn(name, field, qualifier=INNER) for name, field in copies.items())
    step = StepText({"type": "set", "fields": {field: quoted(name) for name, field in copies.items()}}, at)
    return right.then(step, scope=replace(right.scope, columns=(*others, *copied)), is_exact=False)


def _semi_or_anti(
    left: Relation, right: Relation, condition: JoinCondition, is_negated: bool, compiled: CompiledScript, ttl: str, at: int
) -> Relation:
    """The rows of the left side with a match, or without one. Of the right side only the keys are kept where they decide."""
    if not condition.equal:
        if condition.others:
            warn_of_one_key(compiled, at)
        left, right, key = with_any_key(left, right, at)
        condition.equal.append((key, key))
    changes = next((one.changes_at for one in (left, right) if one.changes_at is not None), None)
    is_bounded = condition.before is not None or condition.after is not None
    if not condition.others and not is_bounded and all(other.field == ANY for _, other in condition.equal[-1:]):
        right = right.then(*_distinct_keys(right, [other.field for _, other in condition.equal], ttl, at), is_exact=False)
    number = len(compiled.value["streams"])
    left_stream = compiled.as_stream(left, f"left_of_join_{number}", at)
    right_stream = compiled.as_stream(right, f"right_of_join_{number}", at)
    joined = join_step(left_stream, right_stream, condition, "anti" if is_negated else "semi", PREFIX, ttl, at, changes)
    window = left.window if joined.changes_at is None else None
    return replace(joined, scope=left.scope, window=window, is_exact=False)


def _distinct_keys(right: Relation, keys: list[str], ttl: str, at: int) -> list[StepText]:
    """Steps that give one row for each combination of the keys, as long as there is one."""
    if right.changes_at is None:
        return [StepText({"type": "dedupe", "keys": keys, "within": ttl}, at)]
    options = {"type": "window", "emit": "on_change", "group_by": keys, "aggregates": {"row_exists": "count_if(false)"}}
    return [StepText(options | ({} if ttl == FOR_EVER else {"ttl": ttl}), at)]


def _is_tested(query: Any, values: list[Any]) -> bool:
    """Whether a query leaves out rows in which a value is null."""
    from sqlglot import exp

    select = query.this if isinstance(query, exp.Subquery) else query
    where = select.args.get("where")
    null_tests = [exp.Not(this=exp.Is(this=value, expression=exp.Null())) for value in values]
    parts = list(conjuncts(where.this)) if where is not None else []
    return all(one in parts or isinstance(value, exp.Literal) for one, value in zip(null_tests, values, strict=True))


def _items(query: Any, values: list[Any]) -> list[Any]:
    """The values of a query as its conditions see them: its items, whose names may be those of other columns in FROM."""
    from sqlglot import exp

    select = query.this if isinstance(query, exp.Subquery) else query
    items = [one.unalias() for one in select.expressions] if isinstance(select, exp.Select) else []
    if not items or select.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        return [exp.Null()] * len(values)  # also a column that is tested is null in the rows of totals
    return values if any(one.is_star for one in items) else items


@dataclass(frozen=True)
class NotInPairs:
    """The values that NOT IN compares, and on which sides they may be null."""

    pairs: list[tuple[SqlColumn, SqlColumn]]
    left: bool
    right: bool


def _without_unknown(
    rows: Relation, right: Relation, related: JoinCondition, nulls: NotInPairs, compiled: CompiledScript, ttl: str, at: int
) -> Relation:
    """The rows of which NOT IN is true, of those without an equal value: a row with a null is compared with all values, others
    with those that have a null. Without one to compare with, NOT IN is true, also of a null."""
    some_left, some_right = (_some_null([pair[side].field for pair in nulls.pairs]) for side in (0, 1))
    of_right = f"case when {some_right} then array(0, 1) else array(1) end" if nulls.right else "array(1)"
    of_left = f"case when {some_left} then 1 else 0 end" if nulls.right else f"case when {some_left} then 1 end"
    if not nulls.left:
        of_left = "0"
        right = right.then(StepText({"type": "filter", "where": some_right}, at))
    left = rows.then(StepText({"type": "set", "fields": {ANY: of_left}}, at), is_exact=False)
    copies = StepText({"type": "set", "fields": {ANY: of_right if nulls.left else "array(0)"}}, at)
    right = right.then(copies, StepText({"type": "unnest", "field": ANY}, at), is_exact=False)
    key = SqlColumn(ANY, ANY, "int")
    others = list(related.others)
    if len(nulls.pairs) > 1:
        others += [_may_be_equal(*pair) for pair in nulls.pairs]
    condition = replace(related, equal=[*related.equal, (key, key)], others=others)
    return _semi_or_anti(left, right, condition, True, compiled, ttl, at)


def _may_be_equal(one: SqlColumn, other: SqlColumn) -> Any:
    """The condition of a pair that two values are not known to differ."""
    from sqlglot import exp

    left, right = exp.Var(this=quoted(one.field)), exp.column(other.field, table=INNER)
    is_null = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (left, right)]
    return exp.or_(*is_null, exp.EQ(this=left, expression=right), copy=False)


def _some_null(fields: list[str]) -> str:
    return " or ".join(f"{quoted(field)} is null" for field in fields)


def compared_rows(
    left: Relation, right: Relation, compiled: CompiledScript, ttl: str, is_except: bool, is_all: bool, at: int
) -> Relation:
    """The rows of INTERSECT and EXCEPT: both sides are counted by row, in which null equals null. Raises ScriptError."""
    if len(left.columns) != len(right.columns):
        counts = f"{len(left.columns)} and {len(right.columns)}"
        raise ScriptError("wrong-columns", f"both queries have equally many columns, not {counts}", at)
    if not (is_except or is_all) and _are_comparable(left, right):
        return _rows_of_both(left, right, compiled, ttl, at)
    fields = [leaf.field for column in left.columns for leaf in leaves(column)]
    number = len(compiled.value["streams"])
    inputs: list[str] = []
    for side, one in ((1, left), (0, right)):
        marked = one.then(StepText({"type": "set", "fields": {SIDE: str(side)}}, at))
        inputs += compiled.as_stream(marked, f"side_of_comparison_{number + 1 - side}", at).inputs
    aggregates = {name: f"count_if({SIDE} = {side})" for name, side in ((LEFT, 1), (RIGHT, 0))}
    options: dict[str, Any] = {"type": "window", "emit": "on_change", "group_by": fields, "aggregates": aggregates}
    options |= {} if ttl == FOR_EVER else {"ttl": ttl}
    steps = [StepText(options, at)]
    if is_all:
        copies = f"{LEFT} - {RIGHT}" if is_except else f"least({LEFT}, {RIGHT})"
        steps.append(StepText({"type": "set", "fields": {COPY: f"whole_numbers({copies})"}}, at))
        steps.append(StepText({"type": "unnest", "field": COPY}, at))
    else:
        steps.append(StepText({"type": "filter", "where": f"{LEFT} > 0 and {RIGHT} {'=' if is_except else '>'} 0"}, at))
    steps.append(StepText({"type": "select", "fields": {name: quoted(name) for name in fields}}, at))
    scope = Scope(tuple(replace(one, time=None) for one in left.columns))
    return Relation(tuple(inputs), tuple(steps), scope, None, at)


_TEXT_TYPES = frozenset(("string", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp"))
"""Types whose values are equal exactly if their texts are."""


def _are_comparable(left: Relation, right: Relation) -> bool:
    """Whether rows are only added on both sides, and have equal types whose texts can be compared."""
    types = [(one.type, other.type) for one, other in zip(left.columns, right.columns, strict=True)]
    return left.changes_at is None and right.changes_at is None and all(a == b and a in _TEXT_TYPES for a, b in types)


def _rows_of_both(left: Relation, right: Relation, compiled: CompiledScript, ttl: str, at: int) -> Relation:
    """INTERSECT of rows that are only added: its rows are only added, too. Texts are compared, so that null equals null."""
    number = len(compiled.value["streams"])
    sides: list[Relation] = []
    keys = [SqlColumn(f"key_{at}_of_row", f"key_{at}_of_row", "string") for at in range(len(left.columns))]
    for name, one in (("left", left), ("right", right)):
        fields = [column.field for column in one.columns]
        steps = [StepText({"type": "dedupe", "keys": fields, "within": ttl}, at)] if name == "left" else []
        texts = {key.field: _key_text(field) for key, field in zip(keys, fields, strict=True)}
        marked = one.then(*steps, StepText({"type": "set", "fields": texts}, at))
        sides.append(compiled.as_stream(marked, f"{name}_of_join_{number}", at))
    joined = join_step(sides[0], sides[1], JoinCondition([(key, key) for key in keys]), "semi", "right.", ttl, at, None)
    columns = {column.field: quoted(column.field) for column in left.columns}
    joined = joined.then(StepText({"type": "select", "fields": columns}, at))
    return replace(joined, scope=left.scope, window=None, is_exact=True)


def _key_text(field: str) -> str:
    name = quoted(field)
    return f"case when {name} is null then 'null' else concat('=', cast({name} as string)) end"


def _with_values(
    left: Relation, right: Relation, member: Membership, values: list[Any]
) -> tuple[Relation, Relation, list[tuple[SqlColumn, SqlColumn]]]:
    """Both sides with the values that IN compares, and the pairs of columns."""
    pairs = []
    for own, value in zip(member.values, values, strict=False):
        left, one = as_column(left, own)
        right, other = as_column(right, value)
        pairs.append((one, other))
    return left, right, pairs


def as_column(relation: Relation, node: Any) -> tuple[Relation, SqlColumn]:
    """The relation with a column that holds the value of an expression, and that column."""
    column = plain_column(node, relation.scope)
    if column is not None and column.field and not column.members:
        return relation, column
    taken = {one.field for one in relation.columns}
    name = next(one for number in range(1, 10_000) if (one := f"compared_{number}") not in taken)
    step = StepText({"type": "set", "fields": {name: spark_text(node, relation.scope)}}, start(node))
    added = SqlColumn(name, name)
    return relation.then(step, scope=replace(relation.scope, columns=(*relation.columns, added)), is_exact=False), added


def _requalify(node: Any, inner: Scope) -> Any:
    """A condition in which the query's own columns, which hide those around it, are fields with the qualifier INNER."""
    from sqlglot import exp

    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        if _is_known(parts, inner):
            field = exp.column(inner.find(parts, start(column)).field, table=INNER)
            field.meta["start"] = start(column)
            column.replace(field)
    return node


def _by_field(relation: Relation) -> list[SqlColumn]:
    """The fields of a relation, each as a column of its name."""
    found = {leaf.field: replace(leaf, name=leaf.field) for column in relation.columns for leaf in leaves(column)}
    return list(found.values())


def split_correlated(node: Any, inner: Scope) -> tuple[list[Any], list[Any]]:
    """The parts of WHERE of a query: those over its own columns, and those that name columns around it."""
    where = node.args.get("where")
    own: list[Any] = []
    others: list[Any] = []
    for part in conjuncts(where.this) if where else ():
        (own if is_over(part, inner) else others).append(part)
    return own, others


def is_over(node: Any, scope: Scope) -> bool:
    """Whether an expression names columns of this scope only."""
    return all(_is_known([one.name for one in column.parts], scope) for column in own_columns(node))


def own_columns(node: Any) -> Iterator[Any]:
    """The columns that an expression names, without those in its queries, and without words such as CURRENT_DATE."""
    from sqlglot import exp

    if isinstance(node, exp.Column) and not is_word(node):
        yield node
    if isinstance(node, (exp.Column, exp.Query)):
        return
    for child in node.iter_expressions():
        yield from own_columns(child)


def with_any_key(left: Relation, right: Relation, at: int) -> tuple[Relation, Relation, SqlColumn]:
    """Both sides with a key that all rows have in common."""
    step = StepText({"type": "set", "fields": {ANY: "1"}}, at)
    return left.then(step, is_exact=False), right.then(step, is_exact=False), SqlColumn(ANY, ANY, "int")


def _is_known(parts: list[str], inner: Scope) -> bool:
    try:
        inner.find(parts, 0)
    except ScriptError:
        return False
    return True


def is_plain(node: Any) -> bool:
    """Whether a query gives a row for each row of FROM that meets its conditions."""
    return not (is_grouped(node) or any(node.args.get(key) for key in ("having", "limit", "offset")))
