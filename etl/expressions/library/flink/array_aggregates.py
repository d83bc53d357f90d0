"""Functions that give one value of an array: sums, extremes, joined texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from etl.expressions.arithmetic import type_name
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.arrays import of_array, ordered_type
from etl.expressions.library.flink.constructors import ONE_ARRAY
from etl.expressions.library.function import LibraryFunction, flink_function
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.output_limit import MAX_CHARACTERS, TOO_LONG
from etl.expressions.widening import DOUBLE, FLOATS, INT64, INTEGERS, NULL, STRING, is_number


def _without_nulls(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A function of the elements that are not null; null if all are."""

    def one(items: list[Any]) -> Any:
        found = [item for item in items if item is not None]
        return choose(found) if found else None

    return one


def join_elements(items: BoundNode, *texts: BoundNode) -> BoundNode:
    """``ARRAY_JOIN``."""
    if (item := items.type.value_type) not in (STRING, NULL):
        raise MisuseError(f"the elements are texts, and these are of type {type_name(item)}")
    return by_value(STRING, _join, grows=True)(items, *texts)


def _join(items: list[str | None], separator: str, missing: str | None = None) -> str:
    if len(items) * (len(separator) + len(missing or "")) > MAX_CHARACTERS + 4 * len(items):
        raise RowError(TOO_LONG)
    return separator.join(missing if item is None else item for item in items if item is not None or missing is not None)  # type: ignore[misc]


def _sum_type(type_: pa.DataType) -> pa.DataType:
    item = type_.value_type
    if not is_number(item) and item != NULL:
        raise MisuseError(f"the elements are numbers, and these are of type {type_name(item)}")
    return INT64 if item in INTEGERS else DOUBLE if item in FLOATS else item


def _average_type(type_: pa.DataType) -> pa.DataType:
    _sum_type(type_)
    return DOUBLE


ARRAY_SUMS = (
    LibraryFunction(
        "array_sum",
        ONE_ARRAY,
        "the elements' type, at least bigint",
        of_array(_without_nulls(sum), _sum_type),
        "The sum of an array's elements.",
        "array_sum(array(1, 2))",
        3,
        null="null for null and an array without values",
        loops=True,
    ),
    LibraryFunction(
        "array_average",
        ONE_ARRAY,
        "double",
        of_array(_without_nulls(lambda found: float(sum(found)) / len(found)), _average_type),
        "The average of an array's elements.",
        "array_average(array(1, 2))",
        1.5,
        null="null for null and an array without values",
        loops=True,
    ),
)


FUNCTIONS = (
    flink_function(
        "array_max",
        ONE_ARRAY,
        "the element's type",
        of_array(_without_nulls(max), ordered_type),
        "The greatest element.",
        "flink_array_max(flink_array(1, 3))",
        3,
        loops=True,
    ),
    flink_function(
        "array_min",
        ONE_ARRAY,
        "the element's type",
        of_array(_without_nulls(min), ordered_type),
        "The least element.",
        "flink_array_min(flink_array(1, 3))",
        1,
        loops=True,
    ),
    flink_function(
        "array_join",
        "value: array, separator: string, missing: string?",
        "string",
        join_elements,
        "The elements as one text.",
        "flink_array_join(flink_array('a', 'b'), '-')",
        "a-b",
        null="null if the array is null; null elements are left out",
        loops=True,
    ),
)
