"""Counts from Spark's progress reports: events that Spark read itself, and events too late for their windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etl.plan.frames import SparkRead, frame_sources
from etl.plan.query_plan import QueryPlan
from etl.receipts import Counts
from etl.spark.reports.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

READ_METRIC = "read of "
"""Prefix of the observed metric that counts the events that Spark reads of a source; the source's name follows."""


@dataclass
class ProgressReports:
    """Adds the counts of progress reports to the totals; a report that is read several times counts once."""

    totals: Totals
    _late: dict[tuple[str, int], int] = field(default_factory=dict)
    """Query and micro-batch → events too late for their windows."""
    _rows_read_by_spark: dict[tuple[str, int], int] = field(default_factory=dict)
    """Source and micro-batch → events that Spark read."""

    def gather(self, plan: QueryPlan, query: StreamingQuery) -> None:
        """Read the reports of a query of which Spark counts something. Spark keeps only the last few, so this is called often."""
        if not (plan.stateful or any(isinstance(leaf, SparkRead) for leaf in frame_sources(plan.frame))):
            return
        reports = query.recentProgress
        if plan.stateful:
            self._add_late_events(plan, reports)
        for report in reports:
            metrics = {name: int(row["events"] or 0) for name, row in report["observedMetrics"].items()}
            self.add_spark_reads(plan, report["batchId"], metrics)

    def add_spark_reads(self, plan: QueryPlan, batch: int, metrics: Mapping[str, int]) -> None:
        """Add the events that Spark read of its sources in a micro-batch."""
        for name in {leaf.name for leaf in frame_sources(plan.frame) if isinstance(leaf, SparkRead) and leaf.reports}:
            if READ_METRIC + name in metrics:
                self._rows_read_by_spark[name, batch] = max(
                    metrics[READ_METRIC + name], self._rows_read_by_spark.get((name, batch), 0)
                )
                events = sum(rows for (source, _), rows in self._rows_read_by_spark.items() if source == name)
                self.totals.read[name] = Counts(events, events)

    def _add_late_events(self, plan: QueryPlan, reports: Sequence[Any]) -> None:
        for report in reports:
            rows = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in report["stateOperators"])
            self._late[plan.name, report["batchId"]] = max(rows, self._late.get((plan.name, report["batchId"]), 0))
        self.totals.late[plan.name] = sum(rows for (name, _), rows in self._late.items() if name == plan.name)


def read_observed(events: DataFrame) -> dict[str, int]:
    """Metric → number of events that an executed DataFrame has counted."""
    observed = events._jdf.queryExecution().observedMetrics()
    names = observed.keys().iterator()
    counts = {}
    while names.hasNext():
        name = names.next()
        counts[name] = int(observed.apply(name).getLong(0))
    return counts
