"""The aggregate functions that a window knows: what each takes and gives, and the Spark SQL that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

MOST_COLLECTED = 100_000
"""Spark's own bound on the values that ``min_by`` keeps."""


@dataclass(frozen=True)
class Kind:
    """One aggregate function: what it looks like, the type it gives (None where it takes no such type), its Spark SQL.

    In ``sql`` stand ``{x}`` the argument, ``{n}`` the parameter, ``{where}`` the filter clause, ``{given}`` the filter
    clause that also removes nulls, ``{order}`` the order of events.
    """

    form: str
    sql: str
    result: Callable[[pa.DataType], pa.DataType | None]
    takes: str = "any value"
    parameter: Callable[[str], str | None] | None = None
    merge: str | None = None
    """The aggregate that makes one result of several parts' results, where there is one."""


# ── Types ─────────────────────────────────────────────────────────────────────────────────────────


def _count(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _boolean(type_: pa.DataType) -> pa.DataType | None:
    return pa.int64() if pa.types.is_boolean(type_) or pa.types.is_null(type_) else None


def _comparable(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_map(type_) else pa.int64()


def _same(type_: pa.DataType) -> pa.DataType:
    return type_


def _ordered(type_: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_map(type_) else type_


def _list(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_)


def _sum(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 10), type_.scale)
    if pa.types.is_integer(type_):
        return pa.int64()
    return _double(type_)


def _average(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return _double(type_)


def _double(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(type_):
        return type_
    return pa.float64() if _is_number(type_) else None


def _placed(type_: pa.DataType) -> pa.DataType | None:
    times = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
    return type_ if times or pa.types.is_null(type_) or _is_number(type_) else None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


# ── Parameters ────────────────────────────────────────────────────────────────────────────────────


def _share(text: str) -> str | None:
    try:
        good = 0 <= float(text) <= 1
    except ValueError:
        good = False
    return None if good else f"the second argument is a number from 0 to 1, and it is {text!r}"


def _bound(text: str) -> str | None:
    good = text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_COLLECTED and len(text) <= 9
    return None if good else f"the second argument is a whole number from 1 to {MOST_COLLECTED}, and it is {text!r}"


# ── Kinds ─────────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = "numbers"
_COMPARABLE = "values that can be compared"

KINDS: dict[str, Kind] = {
    "count": Kind("count(*)", "count({x}){where}", _count, merge="sum"),
    "count distinct": Kind(
        "count(distinct x)", "cast(size(collect_set({x}){where}) as bigint)", _comparable, _COMPARABLE
    ),  # Spark refuses count(distinct) in streams
    "count_if": Kind("count_if(condition)", "count_if({x}){where}", _boolean, "a condition", merge="sum"),
    "sum": Kind("sum(x)", "try_sum({x}){where}", _sum, _NUMBERS),
    "min": Kind("min(x)", "min({x}){where}", _ordered, _COMPARABLE, merge="min"),
    "max": Kind("max(x)", "max({x}){where}", _ordered, _COMPARABLE, merge="max"),
    "avg": Kind("avg(x)", "try_avg({x}){where}", _average, _NUMBERS),
    "approx_count_distinct": Kind(
        "approx_count_distinct(x)", "approx_count_distinct({x}){where}", _comparable, _COMPARABLE
    ),
    "first": Kind("first(x)", "min_by({x}, {order}){given}", _same),
    "last": Kind("last(x)", "max_by({x}, {order}){given}", _same),
    "collect": Kind(
        "collect(x, 100)", "coalesce(min_by({x}, {order}, {n}){given}, array())", _list, parameter=_bound
    ),
    "percentile": Kind("percentile(x, 0.95)", "percentile({x}, {n}){where}", _double, _NUMBERS, _share),
    "approx_percentile": Kind(
        "approx_percentile(x, 0.95)", "percentile_approx({x}, {n}){where}", _placed, "numbers, dates and timestamps", _share
    ),
}  # fmt: skip
"""Aggregate functions by name."""
