"""The accumulator of each aggregate function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from etl.aggregates import signatures
from etl.aggregates.calls import AggregateCall, read_call
from etl.aggregates.checks import check_aggregate, user_aggregate
from etl.aggregates.parameters import read_buckets
from etl.api import Finding, Schema, format_type, visible
from etl.state.aggregates.accumulator import Accumulator
from etl.state.aggregates.argument import AggregateArgument, read_argument
from etl.state.aggregates.choices import Collect, FirstOrLast, MinOrMaxBy
from etl.state.aggregates.extremes import MinOrMax
from etl.state.aggregates.moments import Correlation, Variance
from etl.state.aggregates.rates import PerSecond
from etl.state.aggregates.sketches import DistinctEstimate, PercentileEstimate, TopEstimate
from etl.state.aggregates.sums import Average, Count, Sum, sum_form
from etl.state.aggregates.tallies import Distinct, DistinctCollect, Histogram, Mode, Percentile, Top
from etl.state.aggregates.user_aggregate import UserAggregate
from etl.udf.declaration import UserFunction


@dataclass(frozen=True)
class AccumulatorArguments:
    """The arguments of a call for which an accumulator is made."""

    argument: AggregateArgument
    second: AggregateArgument | None
    """The second argument, where it is an expression."""

    parameter: str
    """The text of the second argument, where it is a number."""

    result: pa.DataType
    time: str
    """The event time field."""


@dataclass(frozen=True)
class AccumulatorFactory:
    """Which values an aggregate function takes, and what makes its accumulator.

    ``any`` values may be of a type that is unknown before the run; ``typed`` ones have a type; of ``comparable`` ones Arrow
    knows which are equal and which is greater.
    """

    takes: Literal["any", "typed", "comparable"]
    make: Callable[[AccumulatorArguments], Accumulator]


def _min_or_max_by(call: AccumulatorArguments, greatest: bool) -> Accumulator:
    assert call.second is not None
    return MinOrMaxBy(call.argument, call.second, call.time, greatest)


def _histogram(call: AccumulatorArguments) -> Accumulator:
    buckets = read_buckets(call.parameter)
    assert buckets is not None
    return Histogram(call.argument, buckets)


def _correlation(call: AccumulatorArguments) -> Accumulator:
    assert call.second is not None
    return Correlation(call.argument, call.second)


FUNCTIONS = {
    "count": AccumulatorFactory("any", lambda call: Count(call.argument)),
    "count_if": AccumulatorFactory("any", lambda call: Count(call.argument, true_only=True)),
    "approx_count_distinct": AccumulatorFactory(
        "any", lambda call: DistinctEstimate.within(call.argument, float(call.parameter))
    ),
    "first": AccumulatorFactory("typed", lambda call: FirstOrLast(call.argument, call.time)),
    "last": AccumulatorFactory("typed", lambda call: FirstOrLast(call.argument, call.time, last=True)),
    "collect": AccumulatorFactory("typed", lambda call: Collect(call.argument, call.time, int(call.parameter))),
    "collect_all": AccumulatorFactory("typed", lambda call: Collect(call.argument, call.time, int(call.parameter), nulls=True)),
    "count distinct": AccumulatorFactory("comparable", lambda call: Distinct(call.argument)),
    "sum": AccumulatorFactory("comparable", lambda call: Sum(call.argument, sum_form(call.argument.type, call.result))),
    "avg": AccumulatorFactory("comparable", lambda call: Average(call.argument, sum_form(call.argument.type, call.result))),
    "min": AccumulatorFactory("comparable", lambda call: MinOrMax(call.argument, "min")),
    "max": AccumulatorFactory("comparable", lambda call: MinOrMax(call.argument, "max")),
    "percentile": AccumulatorFactory("comparable", lambda call: Percentile(call.argument, float(call.parameter))),
    "approx_percentile": AccumulatorFactory("comparable", lambda call: PercentileEstimate(call.argument, float(call.parameter))),
    "variance": AccumulatorFactory("comparable", lambda call: Variance(call.argument)),
    "stddev": AccumulatorFactory("comparable", lambda call: Variance(call.argument, root=True)),
    "correlation": AccumulatorFactory("comparable", _correlation),
    "min_by": AccumulatorFactory("typed", lambda call: _min_or_max_by(call, greatest=False)),
    "max_by": AccumulatorFactory("typed", lambda call: _min_or_max_by(call, greatest=True)),
    "mode": AccumulatorFactory("comparable", lambda call: Mode(call.argument)),
    "top": AccumulatorFactory("comparable", lambda call: Top(call.argument, int(call.parameter))),
    "approx_top": AccumulatorFactory("comparable", lambda call: TopEstimate(call.argument, int(call.parameter))),
    "histogram": AccumulatorFactory("comparable", _histogram),
    "collect_set": AccumulatorFactory("comparable", lambda call: DistinctCollect(call.argument, int(call.parameter))),
}
"""Functions by name, as in `etl.aggregates.signatures.FUNCTIONS`."""


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
    own = user_aggregate(text, call)
    if own is not None:
        return _user_aggregate(text, call, own, incoming_fields)
    function, signature = FUNCTIONS[call.function], signatures.FUNCTIONS[call.function]
    has_number = signature.parameter is not None
    arguments = []
    for at, part in enumerate(call.arguments[:1] if has_number else call.arguments):
        one = read_argument(text, part, call.where, incoming_fields)
        reason = one if isinstance(one, str) else _type_reason(one.type, "comparable" if at else function.takes)
        if isinstance(one, str) or reason:
            return str(reason)
        arguments.append(one)
    parameter = call.arguments[1].text if has_number and len(call.arguments) > 1 else signature.default or ""
    second = arguments[1] if len(arguments) > 1 else None
    result = signature.result(arguments[0].type)
    assert result is not None
    made = function.make(AccumulatorArguments(arguments[0], second, parameter, result, time))
    return PerSecond(made) if call.per_second else made


def _user_aggregate(text: str, call: AggregateCall, function: UserFunction, incoming: Schema) -> Accumulator | str:
    arguments = []
    for part, parameter in zip(call.arguments, function.parameters, strict=False):
        one = read_argument(text, part, call.where, incoming)
        if isinstance(one, str):
            return one
        if parameter.type is None and pa.types.is_null(one.type):
            return "the type of its values is unknown before the run"
        arguments.append(one if parameter.type is None else replace(one, type=parameter.type))
    return UserAggregate(arguments[0], function, tuple(arguments[1:]))


def _type_reason(type_: pa.DataType, takes: str) -> str | None:
    """Why values of a type are not taken, None if they are."""
    if takes != "any" and pa.types.is_null(type_):
        return "the type of its values is unknown before the run"
    if takes == "comparable" and pa.types.is_nested(type_):
        return f"Arrow compares no {format_type(type_)}"
    return None
