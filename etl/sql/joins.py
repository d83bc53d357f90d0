"""JOIN → the steps join and lookup: equal columns, bounds in time, and further conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etl.options import parse_duration
from etl.sql.columns import Scope, SqlColumn, leaves
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import duration, quoted, seconds_of, spark_text
from etl.sql.relation import FOR_EVER, Relation, StepText, WindowRows
from etl.sql.statements import ScriptError, start


@dataclass
class Condition:
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
            found.add(_side(column, left, right)[0])
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
    kept = {"": ("left", "right"), "LEFT": ("left",), "RIGHT": ("right",)}.get(side, ())
    matched = {"": ("left", "right"), "LEFT": ("right",), "RIGHT": ("left",)}.get(side, ())
    movable = [
        (part, of[id(part)])
        for parts, sides in ((on, matched), (where, kept))
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


def read_condition(parts: Sequence[Any], left: Scope, right: Scope) -> Condition:
    """Sort the parts of a condition."""
    from sqlglot import exp

    found = Condition()
    for part in parts:
        pair = _pair(part, left, right) if isinstance(part, exp.EQ) else None
        if pair:
            found.equal.append(pair)
        elif not _read_bounds(part, left, right, found):
            found.others.append(part)
    return found


def _side(node: Any, left: Scope, right: Scope) -> tuple[str, SqlColumn | None]:
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        return "", None
    parts = [part.name for part in node.parts]
    for name, scope in (("left", left), ("right", right)):
        try:
            return name, scope.find(parts, start(node))
        except ScriptError:
            continue
    raise Scope((*left.columns, *right.columns))._unknown(parts, start(node))


def _pair(node: Any, left: Scope, right: Scope) -> tuple[SqlColumn, SqlColumn] | None:
    one, other = _side(node.this, left, right), _side(node.expression, left, right)
    if one[0] == "right" and other[0] == "left":
        one, other = other, one
    if one[0] == "left" and other[0] == "right" and one[1] and other[1]:
        return one[1], other[1]
    return None


def computed_sides(node: Any, left: Scope, right: Scope) -> tuple[Any, Any] | None:
    """The expressions over the left and over the right side that a condition sets equal."""
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if sides_of(one, left, right) == {"left"} and sides_of(other, left, right) == {"right"}:
            return one, other
    return None


def own_columns(joined: Relation, left: Scope, right: Scope, kind: str) -> Relation:
    """The relation with the columns that its sides have of themselves, without keys that were computed for the join."""
    if kind in ("semi", "anti"):
        return replace(joined, scope=left)
    own = {(one.qualifier, one.name) for one in (*left.columns, *right.columns)}
    columns = tuple(one for one in joined.columns if (one.qualifier, one.name) in own)
    return replace(joined, scope=replace(joined.scope, columns=columns))


def _read_bounds(node: Any, left: Scope, right: Scope, found: Condition) -> bool:
    """Read ``r.t BETWEEN l.t - a AND l.t + b`` and comparisons of two time columns."""
    from sqlglot import exp

    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        bounds = [_read_bounds(one, left, right, found) for one in (low, high)]  # both are read, also if the first is no bound
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


KINDS = {"": "inner", "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


def without_times(scope: Scope) -> Scope:
    """The scope of rows that change: their times bound no join."""
    return replace(scope, columns=tuple(replace(column, time=None) for column in scope.columns))


def without_columns(relation: Relation, columns: Sequence[SqlColumn]) -> Relation:
    """The relation without the columns of a right side that USING names: both sides have one column for them."""
    names = {(one.qualifier, one.name) for one in columns}
    kept = tuple(one for one in relation.columns if (one.qualifier, one.name) not in names)
    return replace(relation, scope=replace(relation.scope, columns=kept)) if columns else relation


def with_own_keys(right: Relation, condition: Condition, kind: str, at: int) -> Relation:
    """The right side of an outer join, with other names for keys that the left side has under the same name: a pair would have
    one field for both, in which rows without a match have the other side's key."""
    if kind == "inner":
        return right
    copies: dict[str, str] = {}
    for number, (one, other) in enumerate(condition.equal):
        if one.field == other.field and other.time is None:
            name = f"{other.field}_of_right"
            copies[name] = quoted(other.field)
            condition.equal[number] = one, replace(other, field=name)
    return right.then(StepText({"type": "set", "fields": copies}, at), is_exact=False) if copies else right


def join_step(
    left: Relation,
    right: Relation,
    condition: Condition,
    kind: str,
    prefix: str,
    ttl: str,
    at: int,
    changes_at: int | None = None,
) -> Relation:
    """The relation of a join over the streams that hold both sides; ``changes_at``: what makes their results change. Raises
    ScriptError."""
    if not condition.equal:
        raise ScriptError("unsupported-sql", "a join needs equal columns of both sides", at, "add ON a.key = b.key")
    options: dict[str, Any] = {"type": "join"}
    if kind != "inner":
        options["kind"] = kind
    if changes_at is None:
        equal = _with_times(condition, left, right, options, ttl, at)
        if "within" in options and options["within"] == ttl and kind not in ("inner", "semi"):
            del options["within"]  # a row without a match is given at once, and removed when there is one
            changes_at = at
    else:
        equal = condition.equal
    if changes_at is not None:
        options |= {"changelog": True} | ({} if ttl == FOR_EVER else {"ttl": ttl})
    options["on"] = {one.field: other.field for one, other in equal}
    options["prefix"] = prefix
    shared = {one.field for one, other in equal if one.field == other.field}  # one field of the pair holds both
    taken = {leaf.field for column in left.columns for leaf in leaves(column)} - shared
    renamed = tuple(_add_prefix(column, prefix, taken) for column in right.columns)
    scope = Scope((*left.columns, *renamed))
    if condition.others:
        options["where"] = " and ".join(f"({spark_text(one, scope)})" for one in condition.others)
    steps = (StepText(options, at, {("where",): start(condition.others[0])} if condition.others else {}),)
    window = _joined_window(left, options) if changes_at is None else None
    inputs = tuple(dict.fromkeys((left.inputs[0], right.inputs[0])))
    if len(inputs) == 1:
        options |= {"left": inputs[0], "right": inputs[0]}
    return Relation(inputs, steps, scope, window, changes_at, is_exact=False)


def _joined_window(left: Relation, options: dict[str, Any]) -> WindowRows | None:
    return left.window if left.window and options.get("time") == left.window.start else None


def _with_times(
    condition: Condition, left: Relation, right: Relation, options: dict[str, Any], ttl: str, at: int
) -> list[tuple[SqlColumn, SqlColumn]]:
    """Add the options of time; the equal columns that are left."""
    if left.window and right.window and left.window.closed and right.window.closed:
        starts = [
            (one, other) for one, other in condition.equal if one.field == left.window.start and other.field == right.window.start
        ]
        if starts:
            options |= {"time": left.window.start, "within": "0s", "late": longest(left.window.late, right.window.late)}
            if right.window.start != left.window.start:
                options["right_time"] = right.window.start
            return [pair for pair in condition.equal if pair not in starts and not _are_ends(pair)] or condition.equal
    times = [pair for pair in condition.equal if all(one.time is not None and one.time.late is not None for one in pair)]
    if times and condition.before is None and condition.after is None:
        lates = [column.time.late for column in times[0] if column.time is not None and column.time.late is not None]
        fields = [column.field for column in times[0]]
        options |= {"time": fields[0], "within": "0s", "late": duration(max(lates))}
        options |= {"right_time": fields[1]} if fields[1] != fields[0] else {}
        return [pair for pair in condition.equal if pair not in times] or condition.equal
    one, other = _time_column(left), _time_column(right)
    if (condition.before is not None or condition.after is not None) and one and other and one.time and other.time:
        options |= {"time": one.field, "late": duration(max(one.time.late or 0, other.time.late or 0))}
        if other.field != one.field:
            options["right_time"] = other.field
        options |= {"before": duration(condition.before or 0) if condition.before is not None else ttl}
        options |= {"after": duration(condition.after or 0) if condition.after is not None else ttl}
        return condition.equal
    options["within"] = ttl
    return condition.equal


def longest(*durations: str) -> str:
    """The longest of durations."""
    return max(durations, key=parse_duration)


def _are_ends(pair: tuple[SqlColumn, SqlColumn]) -> bool:
    return all(one.time is not None and one.time.late == 0 for one in pair)


def _time_column(relation: Relation) -> SqlColumn | None:
    return next((one for one in relation.columns if one.time is not None and one.time.late is not None), None)


def _add_prefix(column: SqlColumn, prefix: str, taken: set[str]) -> SqlColumn:
    if column.members:
        return replace(column, members=tuple(_add_prefix(one, prefix, taken) for one in column.members))
    return replace(column, field=f"{prefix}{column.field}") if column.field in taken else column


def warn_of_state(compiled: CompiledScript, joined: Relation, at: int) -> None:
    """Warn of a join that keeps all rows of both sides."""
    options = joined.steps[-1].options
    if FOR_EVER in (options.get("within"), options.get("before"), options.get("after")) or (
        options.get("changelog") and "ttl" not in options
    ):
        message = "the join has no bound: it keeps the columns that are used of every row of both sides for ever"
        hint = "add AND b.t BETWEEN a.t - INTERVAL '1' HOUR AND a.t, or SET 'table.exec.state.ttl' = '1 d'"
        compiled.warnings.append(ScriptError("unbounded-state", message, at, hint))
