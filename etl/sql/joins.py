"""JOIN → the steps join and lookup."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from etl.options import parse_duration
from etl.sql.columns import OpenTable, Scope, SqlColumn, leaves
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import duration, quoted, spark_text
from etl.sql.join_conditions import JoinCondition
from etl.sql.relation import FOR_EVER, Relation, StepText, WindowRows
from etl.sql.statements import ScriptError, start

KINDS = {"": "inner", "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


def own_columns(joined: Relation, left: Scope, right: Scope, kind: str) -> Relation:
    """The relation with the columns that its sides have of themselves, without keys that were computed for the join."""
    if kind in ("semi", "anti"):
        return replace(joined, scope=left)
    own = {(one.qualifier, one.name) for one in (*left.columns, *right.columns)}
    columns = tuple(one for one in joined.columns if (one.qualifier, one.name) in own)
    return replace(joined, scope=replace(joined.scope, columns=columns))


def without_times(scope: Scope) -> Scope:
    """The scope of rows that change: their times bound no join."""
    return replace(scope, columns=tuple(replace(column, time=None) for column in scope.columns))


def without_columns(relation: Relation, columns: Sequence[SqlColumn]) -> Relation:
    """The relation without the columns of a right side that USING names: both sides have one column for them."""
    names = {(one.qualifier, one.name) for one in columns}
    remaining_columns = tuple(one for one in relation.columns if (one.qualifier, one.name) not in names)
    return replace(relation, scope=replace(relation.scope, columns=remaining_columns)) if columns else relation


def with_own_keys(right: Relation, condition: JoinCondition, kind: str, at: int, *, is_left_open: bool = False) -> Relation:
    """The right side of an outer join, with other names for keys that the left side has under the same name: a pair would have
    one field for both, in which rows without a match have the other side's key. Sides whose fields are not known stay as they
    are."""
    if kind == "inner" or right.scope.is_open or is_left_open:
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
    condition: JoinCondition,
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
    shared = {one.field for one, other in equal if one.field == other.field}  # one field of the pair holds both
    taken = {leaf.field for column in left.columns for leaf in leaves(column)} - shared
    prefix = options["prefix"] = _free_prefix(prefix, taken)
    scope = _pair_scope(left.scope, right.scope, kind, prefix, frozenset(taken), frozenset(shared))
    if condition.others:
        options["where"] = " and ".join(f"({spark_text(one, scope)})" for one in condition.others)
    steps = (StepText(options, at, {("where",): start(condition.others[0])} if condition.others else {}),)
    window = _joined_window(left, options) if changes_at is None else None
    inputs = tuple(dict.fromkeys((left.inputs[0], right.inputs[0])))
    if len(inputs) == 1:
        options |= {"left": inputs[0], "right": inputs[0]}
    return Relation(inputs, steps, scope, window, changes_at, is_exact=False)


def _pair_scope(left: Scope, right: Scope, kind: str, prefix: str, taken: frozenset[str], shared: frozenset[str]) -> Scope:
    """The columns of pairs. ``taken``: known fields of the left side; ``shared``: keys that are one field for both sides."""
    renamed = tuple(_add_prefix(column, prefix, taken) for column in right.columns)
    if not (left.is_open or right.is_open):
        return Scope((*left.columns, *renamed))
    if left.is_open:  # which may have any other name, too
        renamed = tuple(column for column in renamed if all(_is_of_right(leaf.field, shared, prefix) for leaf in leaves(column)))
    lefts = tuple(replace(one, merged=one.merged | shared) if kind in ("right", "full") else one for one in left.tables)
    names = dict.fromkeys((*(one.name for one in right.tables), *(one.qualifier for one in right.columns if one.qualifier)))
    merged = shared if kind in ("left", "full") else frozenset[str]()
    known = None if left.is_open else taken
    rights = tuple(OpenTable(name, prefix, known, shared, merged) for name in names)
    return Scope((*left.columns, *renamed), is_open=True, tables=(*lefts, *rights))


def _is_of_right(field: str, shared: frozenset[str], prefix: str) -> bool:
    """Whether a field of a pair is the right side's, also if the left one has further fields."""
    return field in shared or field.startswith(prefix)


def _joined_window(left: Relation, options: dict[str, Any]) -> WindowRows | None:
    return left.window if left.window and options.get("time") == left.window.start else None


def _with_times(
    condition: JoinCondition, left: Relation, right: Relation, options: dict[str, Any], ttl: str, at: int
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


def _free_prefix(prefix: str, taken: set[str]) -> str:
    """The prefix, or one with a number if fields of an earlier join begin with it."""
    others = (f"{prefix.rstrip('.0123456789')}{number}." for number in range(2, len(taken) + 3))
    return next(one for one in (prefix, *others) if not any(field.startswith(one) for field in taken))


def _add_prefix(column: SqlColumn, prefix: str, taken: Set[str]) -> SqlColumn:
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


def warn_of_one_key(compiled: CompiledScript, at: int) -> None:
    """Warn of a join whose rows all have the same key."""
    message = "the join has no equal columns: each row of one side is compared with all of the other, in one task"
    hint = "add ON a.key = b.key, if both sides have many rows"
    compiled.warnings.append(ScriptError("unbounded-state", message, at, hint))
