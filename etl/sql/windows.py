"""Windows of a script: what TUMBLE, HOP, CUMULATE and SESSION say to the step `window`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from etl.sql.columns import Scope, SqlColumn
from etl.sql.expressions import call_name, duration, plain_column, seconds_of
from etl.sql.relation import WindowRows
from etl.sql.statements import ScriptError, start

GROUP_WINDOWS = ("tumble", "hop", "session", "cumulate")


def time_options(column: SqlColumn) -> dict[str, Any]:
    """Options ``time`` and ``late`` of a step that goes by a column."""
    if column.time is None or column.time.late is None:
        return {}
    return {"time": column.field, "late": duration(column.time.late)}


def window_of(call: Any, scope: Scope, arguments: Sequence[Any] | None = None) -> WindowRows:
    """``TUMBLE(time, size)``, ``HOP(time, slide, size)``, ``CUMULATE(time, step, size)``, ``SESSION(time, gap)``."""
    kind = call_name(call)
    time, *spans = call.expressions if arguments is None else arguments
    if call_name(time) == "descriptor" and time.expressions:
        time = time.expressions[0]
    wanted = 1 if kind in ("tumble", "session") else 2
    if len(spans) != wanted:
        raise ScriptError(
            "wrong-arguments", f"{kind.upper()} takes a time column and {wanted} interval{'s'[: wanted - 1]}", start(call)
        )
    lengths = [duration(seconds_of(span)) for span in spans]
    if call_name(time) == "proctime":
        options: dict[str, Any] = {}
    else:
        column = plain_column(time, scope)
        if column is None:
            raise ScriptError(
                "unsupported-sql", f"{kind.upper()} takes a time column", start(call), "compute it in the table, with a WATERMARK"
            )
        options = time_options(column) if column.time else {"time": column.field}
    names: dict[str, Callable[[list[str]], dict[str, str]]] = {
        "tumble": lambda found: {"size": found[0]},
        "hop": lambda found: {"size": found[1], "slide": found[0]},
        "cumulate": lambda found: {"size": found[1], "step": found[0]},
        "session": lambda found: {"gap": found[0]},
    }
    if kind not in names:
        raise ScriptError(
            "unsupported-sql", f"there is no window {kind.upper()}", start(call), "TUMBLE, HOP, CUMULATE or SESSION"
        )
    return WindowRows(options | names[kind](lengths))
