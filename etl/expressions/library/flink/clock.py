"""Functions whose values differ from event to event without a field: the time of reading, random numbers, identifiers.

The time is that at which a batch is computed, so a batch that runs again after a crash has a later one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

from etl.api import TIMESTAMP
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.function import TIME, flink_function
from etl.expressions.library.kernels import constant
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import DATE, DOUBLE, INT32, INT64, STRING

_DAY = 86_400


def _now() -> float:
    return time.time()


def _at_batch(type_: pa.DataType, value: Callable[[float], Any]) -> Callable[[], BoundNode]:
    return lambda: BoundNode(type_, lambda rows: pa.scalar(value(_now()), type_))


def _random(seed: BoundNode | None, next_: Callable[[Any, int], Any], type_: pa.DataType) -> BoundNode:
    """A generator of its own for each expression; with a seed the same numbers in each run of a batch."""
    known, value = (True, None) if seed is None else constant(seed)
    if not known or (seed is not None and value is None):
        raise MisuseError("the seed is a constant")
    first = None if value is None else int(value) & (2**63 - 1)

    def new_generator() -> Any:
        import numpy as np

        return np.random.default_rng(first)

    generator = cache(new_generator) if first is None else new_generator

    def run(rows: ActiveRows) -> pa.Array:
        return pa.array(next_(generator(), rows.length), type_)

    return BoundNode(type_, run)


def _rand(*seed: BoundNode) -> BoundNode:
    return _random(seed[0] if seed else None, lambda generator, count: generator.random(count), DOUBLE)


def _rand_integer(*arguments: BoundNode) -> BoundNode:
    *seed, limit = arguments
    known, most = constant(limit)
    if not known or most is None or not 1 <= most < 1 << 31:
        raise MisuseError("the limit of RAND_INTEGER is a constant number from 1 to 2147483647")
    return _random(seed[0] if seed else None, lambda generator, count: generator.integers(0, most, count), INT32)


def _uuid() -> BoundNode:
    return BoundNode(STRING, lambda rows: pa.array([str(uuid.uuid4()) for _ in range(rows.length)], STRING))


_ABOUT = "when the batch of the event is computed"

FUNCTIONS = (
    flink_function(
        "current_timestamp", "", "timestamp", _at_batch(TIMESTAMP, lambda now: round(now * 1e3) * 1000), f"The time {_ABOUT}.",
        "coalesce(timestamp'2024-01-01 00:00:00', flink_current_timestamp())", "2024-01-01 00:00:00+00:00",
    ),
    flink_function(
        "current_date", "", "date", _at_batch(DATE, lambda now: int(now // _DAY)), f"The date {_ABOUT}, in UTC.",
        "coalesce(date'2024-01-01', flink_current_date())", "2024-01-01",
    ),
    flink_function(
        "current_time", "", "time", _at_batch(TIME, lambda now: int(now % _DAY)), f"The time of day {_ABOUT}, in UTC.",
        "flink_current_time() is null", False,
    ),
    flink_function(
        "unix_time", "", "bigint", _at_batch(INT64, int), f"The seconds since 1970 {_ABOUT}.",
        "coalesce(cast(5 as bigint), flink_unix_time())", 5,
    ),
    flink_function(
        "rand", "seed: integer?", "double", _rand, "A random number from 0 to 1; with a seed the same ones for each batch.",
        "flink_rand(1) - flink_rand(1)", 0.0,
    ),
    flink_function(
        "rand_integer", "seed_or_limit: integer, limit: integer?", "int", _rand_integer,
        "A random whole number from 0 to less than the limit.", "flink_rand_integer(1)", 0,
    ),
    flink_function("uuid", "", "string", _uuid, "A random UUID.", "length(flink_uuid())", 36, loops=True),
)  # fmt: skip
"""Functions of the clock and of chance."""
