"""Windows of a script: what TUMBLE, HOP, CUMULATE and SESSION say to the step `window`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from etl.sql.columns import Scope, SqlColumn
from etl.sql.expressions import call_name, duration, plain_column, seconds_of
from etl.sql.relation import WindowRows
from etl.sql.statements import UNITS, ScriptError, start

TABLE_WINDOWS = ("tumble", "hop", "session", "cumulate")
GROUP_WINDOWS = (*TABLE_WINDOWS, "window", "session_window")


def time_options(column: SqlColumn) -> dict[str, Any]:
    """Options ``time`` and ``late`` of a step that goes by a column."""
    if column.time is None or column.time.late is None:
        return {}
    return {"time": column.field, "late": duration(column.time.late)}


def is_arrival(node: Any, scope: Scope) -> bool:
    """Whether an expression is the time of reading: ``PROCTIME()``, or a column that is."""
    if call_name(node) == "proctime":
        return True
    column = plain_column(node, scope)
    return column is not None and column.time is not None and column.time.late is None


def window_of(call: Any, scope: Scope, arguments: Sequence[Any] | None = None) -> WindowRows:
    """``TUMBLE(time, size)``, ``HOP(time, slide, size)``, ``CUMULATE(time, step, size)``, ``SESSION(time, gap)``, the first three
    also with an offset; ``WINDOW(time, size[, slide])`` and ``SESSION_WINDOW(time, gap)`` as Spark writes them."""
    kind = call_name(call)
    time, *spans = (call.expressions or [None]) if arguments is None else (arguments or [None])
    if time is None:
        raise ScriptError("wrong-arguments", f"{kind.upper()} takes a time column", start(call), "TUMBLE(t, INTERVAL '1' MINUTE)")
    if call_name(time) == "descriptor" and time.expressions:
        time = time.expressions[0]
    accepted = _SPANS.get(kind)
    if accepted is None:
        raise ScriptError(
            "unsupported-sql", f"there is no window {kind.upper()}", start(call), "TUMBLE, HOP, CUMULATE or SESSION"
        )
    min_spans = 1 if kind == "window" else accepted
    if not min_spans <= len(spans) <= accepted + (kind in _WITH_OFFSET):
        raise ScriptError(
            "wrong-arguments", f"{kind.upper()} takes a time column and {accepted} interval{'s'[: accepted - 1]}", start(call)
        )
    lengths = [_length(span) for span in spans[:accepted]]
    options = _time_of(time, scope, call) | _OPTIONS[kind](list(map(duration, lengths)))
    offset = (
        _signed_seconds(spans[accepted]) % (lengths[-1] if kind == "cumulate" else lengths[0]) if len(spans) > accepted else 0
    )
    if offset and "time" not in options:
        raise ScriptError("unsupported-sql", "windows by time of reading have no offset", start(call), "use an event time")
    column = plain_column(time, scope) if "time" in options else None
    is_marked = column is None or column.time is not None or column.type is None
    session_keys = frozenset(call.meta.get("partition_by", ())) if kind == "session" and arguments is not None else None
    unmarked = None if is_marked or column is None else column.name
    return WindowRows(options, offset=offset, session_keys=session_keys, without_watermark=unmarked)


_SPANS = {"tumble": 1, "hop": 2, "cumulate": 2, "session": 1, "window": 2, "session_window": 1}
"""Window → its intervals."""
_WITH_OFFSET = ("tumble", "hop", "cumulate")
_OPTIONS: dict[str, Callable[[list[str]], dict[str, str]]] = {
    "tumble": lambda found: {"size": found[0]},
    "hop": lambda found: {"size": found[1], "slide": found[0]},
    "cumulate": lambda found: {"size": found[1], "step": found[0]},
    "session": lambda found: {"gap": found[0]},
    "window": lambda found: {"size": found[0]} | ({"slide": found[1]} if len(found) > 1 else {}),
    "session_window": lambda found: {"gap": found[0]},
}
_LABELS = {
    "tumble": ("data", "timecol", "size", "offset"),
    "hop": ("data", "timecol", "slide", "size", "offset"),
    "cumulate": ("data", "timecol", "step", "size", "offset"),
    "session": ("data", "timecol", "gap"),
}


def in_order(call: Any) -> list[Any]:
    """The arguments of a table function in their order, whether they have names or not. Raises ScriptError."""
    from sqlglot import exp

    labels = _LABELS.get(call_name(call), ())
    found: dict[int, Any] = {}
    for at, one in enumerate(call.expressions):
        if not isinstance(one, exp.Kwarg):
            found[at] = one
            continue
        label = one.this.name.lower()
        if label not in labels:
            hint = f"they are {', '.join(name.upper() for name in labels)}"
            raise ScriptError("wrong-arguments", f"{call.name} has no argument {one.this.name!r}", start(one.expression), hint)
        found[labels.index(label)] = one.expression
    return [found[at] for at in sorted(found)]


def _time_of(time: Any, scope: Scope, call: Any) -> dict[str, Any]:
    if call_name(time) == "proctime":
        return {}
    column = plain_column(time, scope)
    if column is None:
        raise ScriptError(
            "unsupported-sql",
            f"{call_name(call).upper()} takes a time column",
            start(call),
            "compute it in the table, with a WATERMARK",
        )
    if column.type not in (None, "timestamp"):
        raise ScriptError(
            "wrong-type",
            f"{call_name(call).upper()} goes by a time, and {column.name!r} is {str(column.type).upper()}",
            start(time) or start(call),
            "declare a column for it: t AS TO_TIMESTAMP(…), WATERMARK FOR t AS t - INTERVAL '5' SECOND",
        )
    return time_options(column) if column.time else {"time": column.field}


def _length(node: Any) -> float:
    """The seconds of an interval, or of Spark's ``'10 minutes'``."""
    from sqlglot import exp

    if (
        isinstance(node, exp.Literal)
        and node.is_string
        and (found := re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", node.name.lower()))
    ):
        unit = found[2].upper()
        if unit in UNITS:
            return int(found[1]) * UNITS[unit]
    return seconds_of(node)


def _signed_seconds(node: Any) -> float:
    """The seconds of an interval that may be negative."""
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        return -_signed_seconds(node.this)
    if isinstance(node, exp.Interval) and node.this is not None and node.this.name.startswith("-"):
        node = node.copy()
        node.set("this", exp.Literal.string(node.this.name[1:]))
        return -seconds_of(node)
    return seconds_of(node)
