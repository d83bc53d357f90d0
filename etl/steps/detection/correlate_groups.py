"""The part of `correlate` on Spark: the state of each correlation in each group, and the alerts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import OFFSET, FieldName, Schema, SparkStep
from etl.expressions import quote_name
from etl.rules.correlation.alerts import ALERT_FIELDS, JSON_TYPE, json_key
from etl.rules.correlation.compiled import CompiledCorrelations
from etl.rules.correlation.encoding import PART
from etl.rules.correlation.routes import COUNTS
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.rule_sources import RuleCacheKey
from etl.steps.heartbeats import DELAY, without_heartbeats

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

BUCKETS = 16
"""Number of buckets of groups. A call from Spark costs milliseconds, so one for each group is slow; a bucket is read into memory
and written as a whole if one of its groups has events, so one for all groups is slow, too. Measured with 5,000 groups with events
in each micro-batch: 64 buckets take a fifth more CPU, 256 half as much again."""


class CorrelateGroups(SparkStep):
    """Keep each correlation's events of each group, and give its alerts."""

    stateful: ClassVar[bool] = True
    ends_state: ClassVar[bool] = True

    type: Literal["correlate"] = "correlate"
    time: FieldName
    late: timedelta
    idle: timedelta | None = None
    buckets: int = BUCKETS
    of: Correlate = Field(exclude=True)
    reaches: timedelta = Field(exclude=True)
    to: pa.Schema = Field(exclude=True)
    incoming: pa.Schema = Field(exclude=True)
    """The fields in front of the whole step."""

    def fields(self, incoming: Schema) -> Schema:
        """Alerts."""
        return self.to

    def event_time(self) -> tuple[str, timedelta]:
        """As the options say."""
        return self.time, self.late

    def idle_after(self) -> timedelta | None:
        """As the option says."""
        return self.idle

    def reach(self) -> timedelta:
        """The timespans of the longest chain."""
        return self.reaches

    def apply(self, events: DataFrame) -> DataFrame:
        """Spark groups the events and stores the state; `correlate_bucket` processes both."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.streaming.state import GroupStateTimeout

        time = F.col(quote_name(self.time))
        offset = F.col(OFFSET) if OFFSET in events.columns else F.lit(0).cast("bigint").alias(OFFSET)
        counted = without_heartbeats(events, self.time).select(time.alias("time"), offset, F.explode(COUNTS).alias("event"))
        # a number may be event time for Spark, too, and goes to Python faster than a timestamp
        rows = counted.select(
            F.pmod(F.xxhash64(F.substring_index("event", PART, 1)), F.lit(self.buckets)).alias("bucket"),
            "event",
            F.col(OFFSET).alias("offset"),
            F.unix_micros("time").alias("micros", metadata={DELAY: self.late // timedelta(milliseconds=1)}),
        )
        key = RuleCacheKey(self.of, self.of.model_dump_json(by_alias=True), (), self.incoming)
        run = partial(correlate_bucket, key, frozenset(self.to.names))
        alerts = rows.groupBy("bucket").applyInPandasWithState(
            run, "alert string", "memory binary", "append", GroupStateTimeout.EventTimeTimeout
        )
        one = alerts.select(F.from_json("alert", JSON_TYPE).alias("alert"))
        return _apart(one.select(*(self._column(field).alias(field.name) for field in self.to)))

    def _column(self, field: pa.Field) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_type

        if field.name in ALERT_FIELDS.names:
            found = F.col(f"alert.{json_key(field.name)}")
            return F.timestamp_micros(found) if pa.types.is_timestamp(field.type) else found
        return F.try_element_at(F.col("alert.group"), F.lit(field.name)).try_cast(from_arrow_type(field.type))


def _apart(alerts: DataFrame) -> DataFrame:
    """Alerts moved to tasks of their own, which the workers of the groups' tasks serve one after the other: in one task, sinks
    would need a second worker for each core. On a cluster moved rows come in no certain order, by which sinks know them."""
    local = str(alerts.sparkSession.conf.get("spark.master")).startswith("local[")
    return alerts.repartition(*(quote_name(name) for name in alerts.columns)) if local else alerts


def correlate_bucket(
    key: RuleCacheKey[Correlate], alert_fields: frozenset[str], _: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The alerts of a bucket's groups, by the correlations as they are published now."""
    from etl.rules.correlation.spark_state import process_bucket

    return process_bucket(_compile(key, alert_fields, _task()), frames, state)


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


@lru_cache(maxsize=4)
def _compile(key: RuleCacheKey[Correlate], alert_fields: frozenset[str], _: int) -> CompiledCorrelations:
    """The correlations, read once a task: ``_`` is the task's number."""
    return key.step.correlating(key.incoming, alert_fields)
