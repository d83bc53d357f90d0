"""The part of `correlate` on Spark: what each correlation remembers of each group, and the alerts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import OFFSET, FieldName, Schema, SparkStep
from etl.expressions import quoted
from etl.rules.correlation.compiled import CompiledCorrelations
from etl.rules.correlation.encoding import PART, split_name
from etl.rules.correlation.routes import COUNTS
from etl.rules.correlation.windows import Alert
from etl.steps.correlate import TOLD, Correlate
from etl.steps.heartbeats import DELAY, without_heartbeats
from etl.steps.rule_sources import Asked

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

BUCKETS = 16
"""Into so many parts the groups are divided. A call from Spark costs milliseconds whatever it brings, so that one for each group
is slow; and a part is held in memory and written again as a whole when one of its groups has events, so that one for all groups
would be, too. Measured, with 5,000 groups that all micro-batches touch: of a run's CPU 64 parts take a fifth more, 256 a half."""

ALERT = (
    "id string, title string, level string, tags array<string>, author string, version string, type string, "
    "group map<string, string>, start bigint, end bigint, last bigint, count bigint, measure double, "
    "rules array<string>, values array<string>, samples array<string>"
)
"""An alert on its way, as JSON."""


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
        """Spark groups and remembers; `correlated` decides."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.streaming.state import GroupStateTimeout

        time = F.col(quoted(self.time))
        offset = F.col(OFFSET) if OFFSET in events.columns else F.lit(0).cast("bigint").alias(OFFSET)
        counted = without_heartbeats(events, self.time).select(time.alias("time"), offset, F.explode(COUNTS).alias("event"))
        # a number may be event time for Spark, too, and goes to Python faster than a timestamp
        rows = counted.select(
            F.pmod(F.xxhash64(F.substring_index("event", PART, 1)), F.lit(self.buckets)).alias("bucket"),
            "event",
            F.col(OFFSET).alias("offset"),
            F.unix_micros("time").alias("micros", metadata={DELAY: self.late // timedelta(milliseconds=1)}),
        )
        asked = Asked(self.of, self.of.model_dump_json(by_alias=True), (), self.incoming)
        run = partial(correlated, asked, frozenset(self.to.names))
        alerts = rows.groupBy("bucket").applyInPandasWithState(
            run, "alert string", "memory binary", "append", GroupStateTimeout.EventTimeTimeout
        )
        one = alerts.select(F.from_json("alert", ALERT).alias("alert"))
        return _apart(one.select(*(self._column(field).alias(field.name) for field in self.to)))

    def _column(self, field: pa.Field) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_type

        if field.name in TOLD.names:
            found = F.col(f"alert.{_KEYS.get(field.name) or field.name.rpartition('.')[2]}")
            return F.timestamp_micros(found) if pa.types.is_timestamp(field.type) else found
        return F.try_element_at(F.col("alert.group"), F.lit(field.name)).try_cast(from_arrow_type(field.type))


def _apart(alerts: DataFrame) -> DataFrame:
    """Alerts moved to tasks of their own, which the workers of the groups' tasks serve one after the other: in one task, sinks
    would need a second worker for each core. On a cluster moved rows come in no certain order, by which sinks know them."""
    local = str(alerts.sparkSession.conf.get("spark.master")).startswith("local[")
    return alerts.repartition(*(quoted(name) for name in alerts.columns)) if local else alerts


_KEYS = {"window_start": "start", "window_end": "end", "last_seen": "last"}


def correlated(
    asked: Asked[Correlate], told: frozenset[str], _: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The groups of a bucket: their events of a micro-batch, or a time that has come → alerts."""
    import pandas as pd

    from etl.rules.correlation.bucket import Bucket

    force = _force(asked, told, _task())
    bucket = Bucket.deserialize(state.get[0]) if state.exists else Bucket()
    watermark = state.getCurrentWatermarkMs()
    alerts = bucket.advance(force.families, _events(frames), watermark * 1000)
    if bucket.due is None:
        state.remove()
    else:
        state.update((bucket.serialize(),))
        state.setTimeoutTimestamp(max(-(-bucket.due // 1000), watermark + 1))
    if alerts:
        yield pd.DataFrame({"alert": [as_json(force, group, alert) for group, alert in alerts]})


def _events(frames: Iterable[pd.DataFrame]) -> pa.Table:
    from etl.rules.correlation.columns import ROWS, unpack_rows

    types = {"event": pa.string(), "micros": pa.int64(), "offset": pa.int64()}
    found = [
        unpack_rows(*(pa.array(frame[name].to_numpy(), type_) for name, type_ in types.items())) for frame in frames if len(frame)
    ]
    return pa.concat_tables(found) if found else ROWS.empty_table()


def as_json(force: CompiledCorrelations, group: str, alert: Alert) -> str:
    """An alert as JSON."""
    correlation, *values = split_name(group)
    head = force.families[correlation].head
    names = [force.group_names[head.id][place] for place in range(len(head.group_by))]
    return json.dumps(
        {
            "id": head.id,
            "title": head.title,
            "level": head.level,
            "tags": head.tags,
            "author": head.author,
            "version": force.version,
            "type": head.kind,
            "group": dict(zip(names, values, strict=True)),
            "start": alert.start_micros,
            "end": alert.start_micros + head.span_micros,
            "last": alert.last_micros,
            "count": alert.count,
            "measure": alert.measure,
            "rules": [force.titles.get(rule, rule) for rule in alert.rules],
            "values": alert.values,
            "samples": alert.samples,
        }
    )


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


@lru_cache(maxsize=4)
def _force(asked: Asked[Correlate], told: frozenset[str], _: int) -> CompiledCorrelations:
    """The correlations as a task, which has a number of its own, finds them published when it begins."""
    return asked.step.correlating(asked.incoming, told)
