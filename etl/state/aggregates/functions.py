"""The accumulator of each aggregate function."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from etl.api import Finding, Schema, format_type, visible
from etl.state.aggregates.accumulator import Accumulator
from etl.state.aggregates.argument import Argument, read_argument
from etl.state.aggregates.extremes import Extreme
from etl.state.aggregates.sums import Average, Count, Sum, sum_form
from etl.steps.aggregate_calls import read_call
from etl.steps.aggregates import check_aggregate

Build = Callable[[Argument, pa.DataType], Accumulator]


def _sum(argument: Argument, result: pa.DataType) -> Accumulator:
    return Sum(argument, sum_form(argument.type, result))


def _average(argument: Argument, result: pa.DataType) -> Accumulator:
    return Average(argument, sum_form(argument.type, result))


_ANY: dict[str, Build] = {
    "count": lambda argument, _: Count(argument),
    "count_if": lambda argument, _: Count(argument, true_only=True),
}
"""Functions that take values of any type."""

_COMPARING: dict[str, Build] = {
    "sum": _sum,
    "avg": _average,
    "min": lambda argument, _: Extreme(argument, "min"),
    "max": lambda argument, _: Extreme(argument, "max"),
}
"""Functions that take numbers, or values that Arrow can compare."""


def accumulator(text: str, incoming: Schema, time: str) -> Accumulator | str:
    """The accumulator of an aggregate, or the reason why Arrow has none and Spark computes it.

    ``time`` is the event time field: with `etl.api.OFFSET` it orders events. Accumulators hold compiled expressions: each
    task makes its own.
    """
    incoming_fields = visible(incoming)
    checked, call = check_aggregate(text, incoming_fields), read_call(text)
    errors = [finding.message for finding in checked.findings if finding.severity == "error"]
    if errors or isinstance(call, Finding):
        return errors[0]
    build = _ANY.get(call.function) or _COMPARING.get(call.function)
    if build is None:
        return f"{call.function} has no accumulator yet"
    argument = read_argument(text, call.arguments[0], call.where, incoming_fields)
    if isinstance(argument, str):
        return argument
    if call.function in _COMPARING and (pa.types.is_nested(argument.type) or pa.types.is_null(argument.type)):
        unknown = pa.types.is_null(argument.type)
        return (
            "the type of its values is unknown before the run" if unknown else f"Arrow compares no {format_type(argument.type)}"
        )
    return build(argument, checked.type)
