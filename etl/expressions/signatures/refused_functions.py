"""Functions that Spark refuses in every expression here, whatever their arguments are: those of its type TIME, which is switched
off, of times with nanoseconds, and functions that give a table. Checked with Spark 4.3."""

from __future__ import annotations

from etl.expressions.calls.arguments import MisuseError

_TIME = frozenset(
    {"make_time", "time", "time_diff", "time_from_micros", "time_from_millis", "time_from_seconds", "time_to_micros"}
    | {"time_to_millis", "time_to_seconds", "time_trunc", "to_time", "try_to_time"}
)
_TABLES = frozenset(("python_worker_logs", "range", "variant_explode", "variant_explode_outer"))
_TIME_HINT = "hour(t), minute(t) and date_format(t, 'HH:mm:ss') take a time of day out of a timestamp"
_OTHERS = {
    "unix_nanos": ("takes a time with nanoseconds, and times have microseconds", "unix_micros(t) * 1000"),
    "window_time": ("takes a window of Spark, which an event has not", "the step `window` gives window_end"),
}

REFUSED = _TIME | _TABLES | _OTHERS.keys()
"""Their names."""


def refuse(name: str) -> None:
    """Raise MisuseError for one of these functions."""
    if name in _TIME:
        raise MisuseError(f"{name}() is of the type TIME, which events cannot have", "bad-expression", _TIME_HINT)
    if name in _TABLES:
        hint = "whole_numbers(n) gives an array, and the step `unnest` makes events of one"
        raise MisuseError(f"{name}() gives a table, and an expression has one value", "bad-expression", hint)
    if name in _OTHERS:
        message, hint = _OTHERS[name]
        raise MisuseError(f"{name}() {message}", "bad-expression", hint)
