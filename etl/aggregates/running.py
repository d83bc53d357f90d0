"""The aggregates of the step `over`, which adds running values of a key to each event."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from etl.aggregates.calls import read_call
from etl.aggregates.checks import Aggregate, check_aggregate
from etl.aggregates.signatures import FUNCTIONS, AggregateFunction
from etl.api import Finding, Schema, format_type
from etl.expressions import analyse

MAX_LAG = 1000
"""Maximum distance of ``lag`` in events; the state of each key has as many."""


def _boolean_of_comparable(type_: pa.DataType) -> pa.DataType | None:
    """The type of ``is_new``: boolean; None for maps, which cannot be compared."""
    return None if pa.types.is_map(type_) else pa.bool_()


def _check_distance(text: str) -> str | None:
    good = text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MAX_LAG
    return None if good else f"the second argument is a number of events from 1 to {MAX_LAG}, and it is {text!r}"


_SHARED = ("count", "count distinct", "count_if", "sum", "avg", "min", "max", "first", "last")

RUNNING_FUNCTIONS: Mapping[str, AggregateFunction] = {
    **{name: FUNCTIONS[name] for name in _SHARED},
    "lag": AggregateFunction("lag(x, 1)", None, lambda type_: type_, parameter=_check_distance, default="1"),
    "is_new": AggregateFunction("is_new(x)", None, _boolean_of_comparable, "values that can be compared"),
}
"""Running aggregates by name; Spark computes none of them."""

_TYPED = {"first", "last", "lag"}
"""Functions that take values of any known type; others, except counts, take values that Arrow compares or adds."""


def check_running(text: str, schema: Schema, within: bool, rows: int | None) -> Aggregate:
    """Analyse a running aggregate of the events within a time, of the last ``rows`` events, or of all."""
    checked, call = check_aggregate(text, schema, RUNNING_FUNCTIONS), read_call(text)
    if isinstance(call, Finding) or any(finding.severity == "error" for finding in checked.findings):
        return checked
    parts = [part for part in (call.arguments[0], call.where) if part is not None and part.text != "*"]
    for part in parts:
        if reason := analyse(part.text, schema).spark_reason:
            return _bad_aggregate(
                f"it needs Spark, which does not run this step: {reason}", "compute it in an earlier step", part.at
            )
    if call.per_second and not within:
        return _bad_aggregate("per_second needs the option within, by whose seconds it divides", "add within: 5m")
    if call.function == "lag" and rows is not None and lag_distance(call.arguments[1:]) >= rows:
        return _bad_aggregate(f"lag reaches beyond the last {rows} events", f"give rows: {lag_distance(call.arguments[1:]) + 1}")
    reason = None if call.arguments[0].text == "*" else _type_reason(call.function, analyse(call.arguments[0].text, schema).type)
    return _bad_aggregate(reason, "give it a type with convert or cast") if reason else checked


def lag_distance(parameters: tuple[object, ...]) -> int:
    """The distance of ``lag(x)`` or ``lag(x, n)``, read from the arguments after x."""
    return int(parameters[0].text) if parameters else 1  # type: ignore[attr-defined]


def _type_reason(function: str, type_: pa.DataType) -> str | None:
    """The reason why values of a type are not accepted; None if they are."""
    if function in ("count", "count_if"):
        return None
    if pa.types.is_null(type_):
        return "the type of its values is unknown before the run"
    if function not in _TYPED and pa.types.is_nested(type_):
        return f"running values of {format_type(type_)} are not computed"
    return None


def _bad_aggregate(message: str, hint: str, at: int = 0) -> Aggregate:
    return Aggregate(pa.null(), (Finding("bad-aggregate", message, hint=hint, at=at),))
