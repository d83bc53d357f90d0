"""Functions whose values differ from event to event without a field: the time of reading, random numbers, identifiers.

Within a task all of them are the same when a micro-batch runs again: the time is that at which the micro-batch was planned, and
`etl.expressions.random_values` derives random values from the event's offset.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from etl.api import TIMESTAMP
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import random_calls
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.function import TIME, flink_function
from etl.expressions.library.kernels import constant
from etl.expressions.random_values import unrepeatable_source
from etl.expressions.widening import DATE, INT64

_DAY = 86_400


def _at_batch(type_: pa.DataType, value: Callable[[float], Any]) -> Callable[[], BoundNode]:
    return lambda: BoundNode(type_, lambda rows: pa.scalar(value((rows.random or unrepeatable_source(0)).now), type_))


def _seed(seed: BoundNode | None) -> int | None:
    """The constant seed; calls with the same one have the same values."""
    if seed is None:
        return None
    known, value = constant(seed)
    if not known or value is None:
        raise MisuseError("the seed is a constant")
    return int(value)


def _rand(*seed: BoundNode) -> BoundNode:
    return random_calls.rand(_seed(seed[0] if seed else None))


def _rand_integer(*arguments: BoundNode) -> BoundNode:
    *seed, limit = arguments
    known, upper_bound = constant(limit)
    if not known or upper_bound is None or not 1 <= upper_bound < 1 << 31:
        raise MisuseError("the limit of RAND_INTEGER is a constant number from 1 to 2147483647")
    return random_calls.rand_integer(int(upper_bound), _seed(seed[0] if seed else None))


_SAME = "the same for an event that is read again"
_ABOUT = "when the micro-batch of the event was planned, the same when it runs again"

_volatile = partial(flink_function, is_volatile=True)

FUNCTIONS = (
    _volatile(
        "current_timestamp", "", "timestamp", _at_batch(TIMESTAMP, lambda now: round(now * 1e3) * 1000), f"The time {_ABOUT}.",
        "coalesce(timestamp'2024-01-01 00:00:00', flink_current_timestamp())", "2024-01-01 00:00:00+00:00",
    ),
    _volatile(
        "current_date", "", "date", _at_batch(DATE, lambda now: int(now // _DAY)), f"The date {_ABOUT}, in UTC.",
        "coalesce(date'2024-01-01', flink_current_date())", "2024-01-01",
    ),
    _volatile(
        "current_time", "", "time", _at_batch(TIME, lambda now: int(now % _DAY)), f"The time of day {_ABOUT}, in UTC.",
        "flink_current_time() is null", False,
    ),
    _volatile(
        "unix_time", "", "bigint", _at_batch(INT64, int), f"The seconds since 1970 {_ABOUT}.",
        "coalesce(cast(5 as bigint), flink_unix_time())", 5,
    ),
    _volatile(
        "rand", "seed: integer?", "double", _rand,
        f"A random number from 0 to less than 1, {_SAME}; calls with the same seed give the same ones, in each run.",
        "flink_rand(1) - flink_rand(1)", 0.0,
    ),
    _volatile(
        "rand_integer", "seed_or_limit: integer, limit: integer?", "int", _rand_integer,
        f"A random whole number from 0 to less than the limit, {_SAME}.", "flink_rand_integer(1)", 0,
    ),
    _volatile("uuid", "", "string", random_calls.uuid, f"A random UUID, {_SAME}.", "length(flink_uuid())", 36),
)  # fmt: skip
"""Functions of the clock and of random values."""
