"""The aggregate functions of a window: the types of their arguments and results, and the Spark SQL that computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from etl.aggregates.parameters import check_buckets, check_error, check_limit, check_share, check_top


class SecondArgument(NamedTuple):
    """A second argument that is an expression over the event's fields."""

    takes: str
    accepts: Callable[[pa.DataType], pa.DataType | None]
    """Returns None for a type that it does not take."""


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function.

    ``form`` is how it is written. ``result`` gives the type of its result, None for an argument of a type that it does not
    take. ``sql`` is None where only the state lane computes it. In ``sql``, ``{x}`` is the argument, ``{y}`` the second one,
    ``{n}`` the parameter, ``{where}`` the filter clause, ``{given}`` the filter clause that also removes nulls of x,
    ``{paired}`` that of y, ``{order}`` the order of events.
    """

    form: str
    sql: str | None
    result: Callable[[pa.DataType], pa.DataType | None]
    takes: str = "any value"
    parameter: Callable[[str], str | None] | None = None
    default: str | None = None
    """The parameter where none is given; None if one must be."""
    second: SecondArgument | None = None
    merge: str | None = None
    """The aggregate that merges partial results, if there is one."""


# ── Types ─────────────────────────────────────────────────────────────────────────────────────────


def _count_type(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _condition_count(type_: pa.DataType) -> pa.DataType | None:
    return pa.int64() if pa.types.is_boolean(type_) or pa.types.is_null(type_) else None


def _count_of_comparable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_map(type_) else pa.int64()


def _same_type(type_: pa.DataType) -> pa.DataType:
    return type_


def _orderable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_nested(type_) else type_


def _count_of_orderable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_nested(type_) else pa.int64()


def _list_type(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_)


def _list_of_comparable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_nested(type_) else pa.list_(type_)


def _counted_values(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_nested(type_) else pa.list_(pa.struct([("value", type_), ("count", pa.int64())]))


def _histogram_type(type_: pa.DataType) -> pa.DataType | None:
    bucket = pa.struct([("from", pa.float64()), ("to", pa.float64()), ("count", pa.int64())])
    return None if _double_type(type_) is None else pa.list_(bucket)


def _sum_type(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 10), type_.scale)
    if pa.types.is_integer(type_):
        return pa.int64()
    return _double_type(type_)


def _average_type(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return _double_type(type_)


def _double_type(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(type_):
        return type_
    return pa.float64() if _is_number(type_) else None


def _number_or_time(type_: pa.DataType) -> pa.DataType | None:
    times = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
    return type_ if times or pa.types.is_null(type_) or _is_number(type_) else None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


# ── Functions ─────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = "numbers"
_COMPARABLE = "values that can be compared"

_TOP = (
    "slice(array_sort(transform(array_distinct(collect_list({x}){where}), v -> named_struct('value', v, 'count', "
    "cast(size(filter(collect_list({x}){where}, w -> w = v)) as bigint))), (a, b) -> case when a.count > b.count then -1 "
    "when a.count < b.count then 1 when a.value < b.value then -1 when a.value > b.value then 1 else 0 end), 1, {n})"
)

FUNCTIONS: dict[str, AggregateFunction] = {
    "count": AggregateFunction("count(*)", "count({x}){where}", _count_type, merge="sum"),
    "count distinct": AggregateFunction(
        "count(distinct x)", "cast(size(collect_set({x}){where}) as bigint)", _count_of_orderable, _COMPARABLE
    ),  # Spark refuses count(distinct) in streams
    "count_if": AggregateFunction("count_if(condition)", "count_if({x}){where}", _condition_count, "a condition", merge="sum"),
    "sum": AggregateFunction("sum(x)", "try_sum({x}){where}", _sum_type, _NUMBERS),
    "min": AggregateFunction("min(x)", "min({x}){where}", _orderable, _COMPARABLE, merge="min"),
    "max": AggregateFunction("max(x)", "max({x}){where}", _orderable, _COMPARABLE, merge="max"),
    "avg": AggregateFunction("avg(x)", "try_avg({x}){where}", _average_type, _NUMBERS),
    "approx_count_distinct": AggregateFunction(
        "approx_count_distinct(x, 0.01)",
        "approx_count_distinct({x}, {n}){where}",
        _count_of_comparable,
        _COMPARABLE,
        check_error,
        default="0.0443",
    ),
    "first": AggregateFunction("first(x)", "min_by({x}, {order}){given}", _same_type),
    "last": AggregateFunction("last(x)", "max_by({x}, {order}){given}", _same_type),
    "collect": AggregateFunction(
        "collect(x, 100)", "coalesce(min_by({x}, {order}, {n}){given}, array())", _list_type, parameter=check_limit
    ),
    "collect_all": AggregateFunction("collect_all(x, 100)", None, _list_type, parameter=check_limit),
    "percentile": AggregateFunction("percentile(x, 0.95)", "percentile({x}, {n}){where}", _double_type, _NUMBERS, check_share),
    "approx_percentile": AggregateFunction(
        "approx_percentile(x, 0.95)",
        "percentile_approx({x}, {n}){where}",
        _number_or_time,
        "numbers, dates and timestamps",
        check_share,
    ),
    "variance": AggregateFunction("variance(x)", "var_samp({x}){where}", _double_type, _NUMBERS),
    "stddev": AggregateFunction("stddev(x)", "stddev_samp({x}){where}", _double_type, _NUMBERS),
    "correlation": AggregateFunction(
        "correlation(x, y)", "corr({x}, {y}){where}", _double_type, _NUMBERS, second=SecondArgument(_NUMBERS, _double_type)
    ),
    "min_by": AggregateFunction(
        "min_by(x, y)", "min_by({x}, struct({y}, {order})){paired}", _same_type, second=SecondArgument(_COMPARABLE, _orderable)
    ),
    "max_by": AggregateFunction(
        "max_by(x, y)", "max_by({x}, struct({y}, {order})){paired}", _same_type, second=SecondArgument(_COMPARABLE, _orderable)
    ),
    "mode": AggregateFunction("mode(x)", "mode({x}, true){where}", _orderable, _COMPARABLE),
    "top": AggregateFunction("top(x, 10)", _TOP, _counted_values, _COMPARABLE, check_limit),
    "collect_set": AggregateFunction(
        "collect_set(x, 100)",
        "slice(array_sort(collect_set({x}){where}), 1, {n})",
        _list_of_comparable,
        _COMPARABLE,
        check_limit,
    ),
    "approx_top": AggregateFunction("approx_top(x, 10)", None, _counted_values, _COMPARABLE, check_top),
    "histogram": AggregateFunction("histogram(x, [0.1, 1])", None, _histogram_type, _NUMBERS, check_buckets),
}  # fmt: skip
"""Aggregate functions by name."""

COUNTS_AND_SUMS = ("count", "count distinct", "count_if", "sum", "approx_count_distinct")
"""What ``per_second`` takes."""
