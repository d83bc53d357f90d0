"""The bounds of windows as columns of rows that no GROUP BY follows: ``SELECT *, window_start FROM TABLE(TUMBLE(…))``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etl.options import parse_duration
from etl.sql.columns import SqlColumn
from etl.sql.expressions import quoted
from etl.sql.relation import Relation, StepText
from etl.sql.statements import start

_BOUNDS = ("window_start", "window_end", "window_time")


def with_bounds(relation: Relation, node: Any) -> Relation:
    """The relation with columns for the bounds of its windows, if they are those of TUMBLE and a query names one of them."""
    from sqlglot import exp

    window = relation.window
    if window is None or window.closed or window.options.keys() - {"time", "late", "size"} or "time" not in window.options:
        return relation
    taken = {column.name.lower() for column in relation.columns}
    named = {one.name.lower(): one for one in node.find_all(exp.Column) if one.name.lower() in {*_BOUNDS} - taken}
    if not named:
        return relation
    size = round(parse_duration(window.options["size"]).total_seconds() * 1_000_000)
    time = f"unix_micros({quoted(str(window.options['time']))})"
    begin = f"({time} - (({time} - {round(window.offset * 1_000_000)}) % {size} + {size}) % {size})"  # also before 1970
    later = {"window_start": 0, "window_end": size, "window_time": size - 1000}  # Flink's window_time is a millisecond before
    fields = {name: f"timestamp_micros({begin} + {later[name]})" for name in _BOUNDS if name in named}
    columns = tuple(SqlColumn(name, name, "timestamp") for name in fields)
    scope = replace(relation.scope, columns=(*relation.scope.columns, *columns))
    return relation.then(StepText({"type": "set", "fields": fields}, start(next(iter(named.values())))), scope=scope)
