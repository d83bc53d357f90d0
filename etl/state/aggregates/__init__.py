"""Aggregates of windows as accumulators: partial results that merge in any order, on Arrow and numpy.

An event becomes one row of partial results (`Accumulator.lift`), rows of one group become one row (`group`), and a row becomes
a result (`Accumulator.finish`). Partial results are Arrow columns, so that they can be written to files and merged later.
"""

from etl.state.aggregates.accumulator import MAX_EVENTS, Accumulator, FailedRowsError, Grouping
from etl.state.aggregates.functions import accumulator
from etl.state.aggregates.groups import (
    column_names,
    divide_rates,
    finish,
    finish_or_fail,
    group,
    group_rows,
    lift,
    lift_or_reject,
    with_missing,
)

__all__ = [
    "MAX_EVENTS",
    "Accumulator",
    "FailedRowsError",
    "Grouping",
    "accumulator",
    "column_names",
    "divide_rates",
    "finish",
    "finish_or_fail",
    "group",
    "group_rows",
    "lift",
    "lift_or_reject",
    "with_missing",
]
