"""The bounds of windows as columns of rows that no GROUP BY follows: ``SELECT *, window_start FROM TABLE(HOP(…))``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from etl.options import parse_duration
from etl.sql.columns import SqlColumn, TimeAttribute
from etl.sql.expressions import duration, quoted
from etl.sql.relation import Relation, StepText, WindowRows
from etl.sql.statements import ScriptError, start

BOUNDS = ("window_start", "window_end", "window_time")
_NUMBER = "window_number"
"""Field with the number of a window among those that a row is in, from 1."""


def with_bounds(relation: Relation, node: Any) -> Relation:
    """The relation with columns for the bounds of its windows, if a query names them or all columns. Raises ScriptError."""
    from sqlglot import exp

    window = relation.window
    if window is None or window.closed or "time" not in window.options:
        return relation
    taken = {column.name.lower() for column in relation.columns}
    named = {one.name.lower(): one for one in node.find_all(exp.Column) if one.name.lower() in {*BOUNDS} - taken}
    if any(one.is_star for one in node.expressions):
        named = {name: node for name in BOUNDS if name not in taken}
    if not named:
        return relation
    return _with_fields(relation, window, [name for name in BOUNDS if name in named], start(next(iter(named.values()))))


def all_bounds(relation: Relation, at: int) -> Relation:
    """The relation with the bounds of its windows as columns. Raises ScriptError."""
    assert relation.window is not None
    return _with_fields(relation, relation.window, BOUNDS, at)


def _with_fields(relation: Relation, window: WindowRows, names: Sequence[str], at: int) -> Relation:
    """Rows with these bounds; of windows that overlap, a row for each window that it is in."""
    if "time" not in window.options:
        message, hint = "rows of windows by the time of reading have no bounds before they are grouped", "use an event time"
        raise ScriptError("unsupported-sql", message, at, hint)
    if "gap" in window.options:
        hint = "Flink has it, we do not: each row would wait until its session ends. GROUP BY window_start, window_end, key"
        raise ScriptError("unsupported-sql", "rows of sessions have no bounds before they are grouped", at, hint)
    size = _micros(window.options["size"])
    time = f"unix_micros({quoted(str(window.options['time']))})"
    if "slide" in window.options:
        relation, begin, end = _hopping(relation, window, time, size, at)
    elif "step" in window.options:
        relation, begin, end = _cumulating(relation, window, time, size, at)
    else:
        begin = _begin(time, size, window.offset)
        end = f"{begin} + {size}"
    texts = {"window_start": begin, "window_end": end, "window_time": f"{end} - 1000"}  # Flink's is a millisecond before
    late = parse_duration(str(window.options.get("late", "10s"))).total_seconds() + size / 1e6
    columns = tuple(SqlColumn(name, name, "timestamp", TimeAttribute(late)) for name in names)
    scope = replace(relation.scope, columns=(*relation.scope.columns, *columns))
    bounds = StepText({"type": "set", "fields": {name: f"timestamp_micros({texts[name]})" for name in names}}, at)
    if window.options.keys() & {"slide", "step"}:
        length = window.options.get("slide") or window.options["size"]
        step = {"step": window.options["step"]} if "step" in window.options else {}
        window = WindowRows({"time": "window_start", "size": length, **step}, closed=True, late=duration(late))
    return relation.then(bounds, scope=scope, window=window, is_exact=False)


def _begin(time: str, length: int, offset: float) -> str:
    """Microseconds of the last multiple of the length, after the offset, that is not later; also before 1970."""
    return f"({time} - (({time} - {round(offset * 1_000_000)}) % {length} + {length}) % {length})"


def _hopping(relation: Relation, window: WindowRows, time: str, size: int, at: int) -> tuple[Relation, str, str]:
    slide = _micros(window.options["slide"])
    begin = f"{_begin(time, slide, window.offset)} - ({_NUMBER} - 1) * {slide}"
    where = f"{begin} + {size} > {time}" if size % slide else None
    return _copies(relation, -(-size // slide), where, at), begin, f"{begin} + {size}"


def _cumulating(relation: Relation, window: WindowRows, time: str, size: int, at: int) -> tuple[Relation, str, str]:
    step = _micros(window.options["step"])
    begin = _begin(time, size, window.offset)
    end = f"{begin} + {_NUMBER} * {step}"
    return _copies(relation, size // step, f"{end} > {time}", at), begin, end


def _copies(relation: Relation, count: int, where: str | None, at: int) -> Relation:
    """Each row a number of times, with the number of the copy; those that meet the condition."""
    steps = [StepText({"type": "set", "fields": {_NUMBER: f"whole_numbers({count})"}}, at)]
    steps.append(StepText({"type": "unnest", "field": _NUMBER}, at))
    steps += [StepText({"type": "filter", "where": where}, at)] if where else []
    return relation.then(*steps, is_exact=False)


def _micros(text: Any) -> int:
    return round(parse_duration(text).total_seconds() * 1_000_000)
