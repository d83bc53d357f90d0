"""Heartbeat rows in Spark: they advance the watermark; no filter may drop them before it, no aggregate count them after it.

A heartbeat is a row of nulls but for the event time; its hidden ``_offset`` is null, which an event's never is.
Spark's optimizer pushes every deterministic filter that does not mention the time column below the watermark,
filters on group keys above an aggregation included, and a heartbeat that a filter drops there advances nothing. Spark neither
moves a filter that is not deterministic nor moves others past it: each watermark has such a filter, the fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARRIVAL = "_read_at"
"""The time at which an event was read: a column that the reader adds when a window asks for it."""

DELAY = "spark.watermarkDelayMs"
"""Column metadata that marks event time for Spark: how far its watermark lags behind, in milliseconds."""

FENCE = "spark_partition_id() >= 0"
"""True for every row, at the cost of nanoseconds, and not deterministic for Spark's optimizer."""


def fence(events: DataFrame) -> DataFrame:
    """Return the same rows. Spark does not push later filters to before this call. Call it directly after ``withWatermark``."""
    return events.where(FENCE)
