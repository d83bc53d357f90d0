"""The accumulator of each aggregate function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from etl.api import Finding, Schema, format_type, visible
from etl.state.aggregates.accumulator import Accumulator
from etl.state.aggregates.argument import Argument, read_argument
from etl.state.aggregates.choices import Collect, First
from etl.state.aggregates.extremes import Extreme
from etl.state.aggregates.sketches import DistinctEstimate, PercentileEstimate
from etl.state.aggregates.sums import Average, Count, Sum, sum_form
from etl.state.aggregates.tallies import Distinct, Percentile
from etl.steps.aggregate_calls import read_call
from etl.steps.aggregates import check_aggregate


@dataclass(frozen=True)
class Request:
    """What an accumulator is made from."""

    argument: Argument
    parameter: str
    """The text of the second argument; empty without one."""

    result: pa.DataType
    time: str
    """The event time field."""


@dataclass(frozen=True)
class Function:
    """How the accumulator of a function is made, and which values it takes.

    ``any`` values may be of a type that is unknown before the run; ``typed`` ones have a type; of ``comparable`` ones Arrow
    knows which are equal and which is greater.
    """

    takes: Literal["any", "typed", "comparable"]
    make: Callable[[Request], Accumulator]


FUNCTIONS = {
    "count": Function("any", lambda one: Count(one.argument)),
    "count_if": Function("any", lambda one: Count(one.argument, true_only=True)),
    "approx_count_distinct": Function("any", lambda one: DistinctEstimate(one.argument)),
    "first": Function("typed", lambda one: First(one.argument, one.time)),
    "last": Function("typed", lambda one: First(one.argument, one.time, last=True)),
    "collect": Function("typed", lambda one: Collect(one.argument, one.time, int(one.parameter))),
    "count distinct": Function("comparable", lambda one: Distinct(one.argument)),
    "sum": Function("comparable", lambda one: Sum(one.argument, sum_form(one.argument.type, one.result))),
    "avg": Function("comparable", lambda one: Average(one.argument, sum_form(one.argument.type, one.result))),
    "min": Function("comparable", lambda one: Extreme(one.argument, "min")),
    "max": Function("comparable", lambda one: Extreme(one.argument, "max")),
    "percentile": Function("comparable", lambda one: Percentile(one.argument, float(one.parameter))),
    "approx_percentile": Function("comparable", lambda one: PercentileEstimate(one.argument, float(one.parameter))),
}
"""Functions by name, as in `etl.steps.aggregate_functions.FUNCTIONS`."""


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
    function = FUNCTIONS[call.function]
    argument = read_argument(text, call.arguments[0], call.where, incoming_fields)
    if isinstance(argument, str):
        return argument
    parameter = call.arguments[1].text if len(call.arguments) > 1 else ""
    return _type_reason(argument.type, function) or function.make(Request(argument, parameter, checked.type, time))


def _type_reason(type_: pa.DataType, function: Function) -> str | None:
    """Why a function does not take values of a type, None if it does."""
    if function.takes != "any" and pa.types.is_null(type_):
        return "the type of its values is unknown before the run"
    if function.takes == "comparable" and pa.types.is_nested(type_):
        return f"Arrow compares no {format_type(type_)}"
    return None
