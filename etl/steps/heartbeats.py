"""Heartbeat rows on their way through Spark: they move the watermark and must neither be lost before it nor counted behind it.

A heartbeat is a row of nulls but for the event time; its hidden ``_offset`` is null, which an event's never is.
Spark's optimizer pushes every deterministic filter that does not mention the time column below the watermark,
filters on group keys above an aggregation included, and a heartbeat that a filter removes there moves nothing.
A filter that is not deterministic stays where it is and lets none past it: such a fence stands on each watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etl.api import OFFSET
from etl.expressions import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARRIVAL = "_read_at"
"""The time at which an event was read: a column that the reader adds when a window asks for it."""

DELAY = "spark.watermarkDelayMs"
"""Column metadata by which Spark knows event time: how far its watermark lags behind."""

FENCE = "spark_partition_id() >= 0"
"""True of every row, in nanoseconds, and not deterministic in Spark's eyes."""


def fenced(events: DataFrame) -> DataFrame:
    """The same rows; no filter behind this is pushed in front of it. Belongs right behind ``withWatermark``."""
    return events.where(FENCE)


def behind_watermark(predicate: str, time: str) -> str:
    """The predicate in a form that Spark keeps behind the watermark of ``time``; false for heartbeats either way.

    Rows without a time pass: a window drops them anyway.
    """
    return f"(({predicate}) and {quoted(OFFSET)} is not null) or {quoted(time)} is null"


def passing_heartbeats(predicate: str) -> str:
    """The predicate, true of heartbeats too: for a filter in front of a watermark that is set behind it."""
    return f"({predicate}) or {quoted(OFFSET)} is null"


def without_heartbeats(events: DataFrame, time: str) -> DataFrame:
    """Events only. A frame without ``_offset``, such as another window's result, has no heartbeats."""
    if OFFSET not in events.columns:
        return events
    return fenced(events).where(behind_watermark("true", time))
