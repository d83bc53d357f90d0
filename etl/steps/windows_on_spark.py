"""Windows that Spark computes, because Arrow cannot group by their fields or aggregate their values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from etl.aggregates.checks import Aggregate
from etl.api import OFFSET
from etl.expressions import analyse, quote_name, register, schema_of
from etl.steps.heartbeats import DELAY, without_heartbeats

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from etl.steps.window import Window

_WINDOW, _PANE = "__window", "__pane"


def windows(step: Window, events: DataFrame, aggregates: Mapping[str, Aggregate]) -> DataFrame:
    """Aggregate by window and group, then filter by ``having``."""
    from pyspark.sql import functions as F  # noqa: N812

    register(events.sparkSession)
    time, _ = step.event_time()
    order = quote_name(time) if OFFSET not in events.columns else f"struct({quote_name(time)}, {quote_name(OFFSET)})"
    groups = [F.col(quote_name(name)).alias(name) for name in step.group_by]
    results = [F.expr(aggregate.sql(order)).alias(name) for name, aggregate in aggregates.items()]
    live = without_heartbeats(events, time)
    if _has_panes(step, aggregates):
        panes = live.groupBy(F.window(F.col(quote_name(time)), _interval(step.slide)).alias(_PANE), *groups).agg(*results)
        live, when = panes, F.window_time(_PANE)
        results = [F.expr(f"{a.merge}({quote_name(name)})").alias(name) for name, a in aggregates.items()]
    else:
        when = F.col(quote_name(time))
    grouped = live.groupBy(_window(step, when).alias(_WINDOW), *groups).agg(*results)
    result = grouped.select(*_edges(), *(F.col(quote_name(name)) for name in (*step.group_by, *step.aggregates)))
    return result.where(analyse(step.having, schema_of(result)).spark_sql) if step.having else result


def _has_panes(step: Window, aggregates: Mapping[str, Aggregate]) -> bool:
    """Whether to aggregate per slide first and merge these panes: seven times as fast, for what can be merged."""
    fits = isinstance(step.size, timedelta) and step.slide and step.slide < step.size and not step.size % step.slide
    return bool(fits) and step.output_mode() == "append" and all(a.merge for a in aggregates.values())


def _window(step: Window, time: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(step.gap, timedelta):
        return F.session_window(time, _interval(step.gap))
    assert isinstance(step.size, timedelta)
    return F.window(time, _interval(step.size), _interval(step.slide or step.size))


def _interval(length: timedelta | None) -> str:
    assert length is not None
    return f"{round(length.total_seconds() * 1000)} milliseconds"


def _edges() -> tuple[Column, Column]:
    """Start and end of the window; the start is event time for what follows."""
    from pyspark.sql import functions as F  # noqa: N812

    start = F.col(f"{_WINDOW}.start").alias("window_start", metadata={DELAY: 0})
    return start, F.col(f"{_WINDOW}.end").alias("window_end")
