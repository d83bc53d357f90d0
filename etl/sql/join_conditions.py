"""ON of a JOIN → equal columns, bounds in time, and further conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.sql.columns import Scope, SqlColumn
from etl.sql.expressions import is_word, seconds_of, spark_text
from etl.sql.functions.script_dialect import is_rsql
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start


@dataclass
class JoinCondition:
    """The parts of the condition of a join."""

    equal: list[tuple[SqlColumn, SqlColumn]] = field(default_factory=list)
    """Pairs of a left and a right column."""
    after: float | None = None
    """Seconds by which the right row may be later."""
    before: float | None = None
    others: list[Any] = field(default_factory=list)


def conjuncts(node: Any) -> Iterator[Any]:
    """The parts of a condition that AND joins."""
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif node is not None:
        yield node


def sides_of(node: Any, left: Scope, right: Scope) -> set[str]:
    """The sides whose columns a condition names: ``left``, ``right``, and ``other`` for columns of neither and for queries."""
    from sqlglot import exp

    found = {"other"} if node.find(exp.Subquery, exp.Exists) else set()
    for column in node.find_all(exp.Column):
        try:
            found.add(_side(column, left, right)[0] or "other")
        except ScriptError:  # of a table that is joined later, or of none: reported where it is used
            found.add("other")
    return found


def filtered_sides(
    left: Relation, right: Relation, side: str, on: Sequence[Any], where: Sequence[Any]
) -> tuple[Relation, Relation, list[Any], list[Any]]:
    """Both relations with filters for what ON and WHERE say of one of them alone, and the other parts of ON and WHERE.

    What is filtered before a join is not remembered. ``side`` is that of an outer join, whose rows without a match pass ON.
    """
    of = {id(part): sides_of(part, left.scope, right.scope) for part in (*on, *where)}
    preserved_sides = {"": ("left", "right"), "LEFT": ("left",), "RIGHT": ("right",)}.get(side, ())
    matched = {"": ("left", "right"), "LEFT": ("right",), "RIGHT": ("left",)}.get(side, ())
    movable = [
        (part, of[id(part)])
        for parts, sides in ((on, matched), (where, preserved_sides))
        for part in parts
        for one in sides
        if of[id(part)] == {one}
    ]
    moved = {id(part) for part, _ in movable}
    left = _filter(left, [part for part, sides in movable if sides == {"left"}])
    right = _filter(right, [part for part, sides in movable if sides == {"right"}])
    return left, right, [part for part in on if id(part) not in moved], [part for part in where if id(part) not in moved]


def _filter(relation: Relation, parts: Sequence[Any]) -> Relation:
    from sqlglot import exp

    if not parts:
        return relation
    text = spark_text(exp.and_(*parts), relation.scope)
    return relation.then(StepText({"type": "filter", "where": text}, start(parts[0]), {("where",): start(parts[0])}))


def read_condition(parts: Sequence[Any], left: Scope, right: Scope) -> JoinCondition:
    """Sort the parts of a condition."""
    from sqlglot import exp

    found = JoinCondition()
    for part in parts:
        pair = _pair(part, left, right) if isinstance(part, exp.EQ) else None
        if pair:
            found.equal.append(pair)
        elif not _read_bounds(part, left, right, found):
            found.others.append(part)
    return found


def _side(node: Any, left: Scope, right: Scope) -> tuple[str, SqlColumn | None]:
    """The side of a column, and the column; of neither where it names no table, and a side has columns that are not known.

    Raises ScriptError.
    """
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        return "", None
    parts = [part.name for part in node.parts]
    sides = [(name, scope) for name, scope in (("left", left), ("right", right)) if scope.has_table(parts)]
    if not sides and (left.is_open or right.is_open):
        return "", None
    found = []
    for name, scope in sides or (("left", left), ("right", right)):
        try:
            found.append((name, scope.find(parts, start(node))))
        except ScriptError:
            continue
    if len(found) == 1 or (found and (sides or is_rsql())):
        return found[0]
    if found:
        return "", Scope((*left.columns, *right.columns)).find(parts, start(node))  # raises: it is a column of both
    raise Scope((*left.columns, *right.columns))._unknown(parts, start(node))


def _pair(node: Any, left: Scope, right: Scope) -> tuple[SqlColumn, SqlColumn] | None:
    one, other = _side(node.this, left, right), _side(node.expression, left, right)
    _refuse_unknown_sides(node, one[0], other[0])
    if one[0] == "right" and other[0] == "left":
        one, other = other, one
    if one[0] == "left" and other[0] == "right" and one[1] and other[1]:
        return one[1], other[1]
    return None


def _refuse_unknown_sides(node: Any, *sides: str) -> None:
    """Raises ScriptError where two columns are equal of which one may be of either side: they would be no key."""
    from sqlglot import exp

    columns = [node.this, node.expression]
    unknown = next((one for one, side in zip(columns, sides, strict=True) if not side), None)
    if unknown is not None and all(isinstance(one, exp.Column) and not is_word(one) for one in columns):
        message = f"of which side {unknown.sql(dialect='spark')!r} is a column is not known, because a table declares no columns"
        hint = "write the table before it, as in ON a.key = b.key, or declare the columns"
        raise ScriptError("ambiguous-column", message, start(unknown), hint)


def computed_sides(node: Any, left: Scope, right: Scope) -> tuple[Any, Any] | None:
    """The expressions over the left and over the right side that a condition sets equal."""
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if sides_of(one, left, right) == {"left"} and sides_of(other, left, right) == {"right"}:
            return one, other
    return None


def _read_bounds(node: Any, left: Scope, right: Scope, found: JoinCondition) -> bool:
    """Read ``r.t BETWEEN l.t - a AND l.t + b`` and comparisons of two time columns."""
    from sqlglot import exp

    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        bounds = [_read_bounds(one, left, right, found) for one in (low, high)]  # both are read, also if the first is not a bound
        return all(bounds)
    if not isinstance(node, (exp.GTE, exp.LTE, exp.GT, exp.LT)):
        return False
    one, other = _time(node.this, left, right), _time(node.expression, left, right)
    if one is None or other is None or one[0] == other[0]:
        return False
    if isinstance(node, (exp.GTE, exp.GT)):
        one, other = other, one
    (first, added), (_, limit) = one, other  # first + added <= second + limit
    bound = max(0.0, limit - added)
    if first == "left":
        found.before = bound if found.before is None else min(bound, found.before)
    else:
        found.after = bound if found.after is None else min(bound, found.after)
    return isinstance(node, (exp.GTE, exp.LTE)) and limit >= added


def _time(node: Any, left: Scope, right: Scope) -> tuple[str, float] | None:
    """The side and the seconds that are added to its time."""
    from sqlglot import exp

    if isinstance(node, (exp.Sub, exp.Add)):
        inner = _time(node.this, left, right)
        if inner is None:
            return None
        try:
            return inner[0], inner[1] + seconds_of(node.expression) * (1 if isinstance(node, exp.Add) else -1)
        except ScriptError:
            return None
    side, column = _side(node, left, right)
    return (side, 0.0) if column is not None and column.time is not None and column.time.late is not None else None
