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
from etl.rules.correlation_force import Correlating
from etl.rules.correlation_groups import Group
from etl.rules.correlation_routes import COUNTS
from etl.rules.correlation_windows import Alert, Event
from etl.steps.correlate import TOLD, Correlate
from etl.steps.heartbeats import without_heartbeats

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

COLUMNS = ["member", "part", "micros", OFFSET, "order", "rule", "value", "sample"]
"""What Spark hands to a group of each event."""

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
        counted = without_heartbeats(events, self.time).select(time.alias("time"), offset, F.explode(COUNTS).alias("one"))
        rows = counted.select(
            "one.correlation",
            F.to_json("one.group").alias("group"),
            "one.member",
            F.to_json("one.part").alias("part"),
            F.unix_micros("time").alias("micros"),
            OFFSET,
            *(F.col(f"one.{name}") for name in ("order", "rule", "value", "sample")),
            "time",
        )
        grouped = rows.groupBy("correlation", "group")
        run = partial(correlated, self.of.model_dump_json(by_alias=True), self.incoming)
        alerts = grouped.applyInPandasWithState(
            run, "alert string", "memory string", "append", GroupStateTimeout.EventTimeTimeout
        )
        one = alerts.select(F.from_json("alert", ALERT).alias("alert"))
        return one.select(*(self._column(field).alias(field.name) for field in self.to))

    def _column(self, field: pa.Field) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_type

        if field.name in TOLD.names:
            found = F.col(f"alert.{_KEYS.get(field.name) or field.name.rpartition('.')[2]}")
            return F.timestamp_micros(found) if pa.types.is_timestamp(field.type) else found
        return F.try_element_at(F.col("alert.group"), F.lit(field.name)).try_cast(from_arrow_type(field.type))


_KEYS = {"window_start": "start", "window_end": "end", "last_seen": "last"}


def correlated(
    options: str, incoming: Schema, key: tuple[str, str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """One group of one correlation: its events of a micro-batch, or a time that has come → alerts."""
    import pandas as pd

    force = _force(options, incoming, _task())
    family = force.families.get(key[0])
    if family is None:  # the rule was removed
        state.remove()
        return
    group = Group.read(state.get[0]) if state.exists else Group()
    watermark = state.getCurrentWatermarkMs()
    alerts = group.advance(family, _events(frames), watermark * 1000)
    due = group.due(family)
    if due is None:
        state.remove()
    else:
        state.update((group.written(),))
        state.setTimeoutTimestamp(max(-(-due // 1000), watermark + 1))
    if alerts:
        yield pd.DataFrame({"alert": [told(force, key, alert) for alert in alerts]})


def _events(frames: Iterable[pd.DataFrame]) -> dict[tuple[str, tuple[str, ...]], list[Event]]:
    found: dict[tuple[str, tuple[str, ...]], list[Event]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for frame in frames:
        for member, part, *event in zip(*(frame[name].tolist() for name in COLUMNS), strict=True):
            if part not in parts:
                parts[part] = tuple(json.loads(part))
            found.setdefault((member, parts[part]), []).append(Event(*event))
    return found


def told(force: Correlating, key: tuple[str, str], alert: Alert) -> str:
    """An alert as JSON."""
    head = force.families[key[0]].head
    names = [force.shown[head.id][place] for place in range(len(head.group_by))]
    return json.dumps(
        {
            "id": head.id,
            "title": head.title,
            "level": head.level,
            "tags": head.tags,
            "author": head.author,
            "version": force.version,
            "type": head.kind,
            "group": dict(zip(names, json.loads(key[1]), strict=True)),
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
def _force(options: str, incoming: Schema, task: int) -> Correlating:
    """The correlations as a task finds them published when it begins."""
    return Correlate.model_validate_json(options).correlating(incoming)
