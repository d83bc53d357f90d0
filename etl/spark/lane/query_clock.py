"""The clock of a query of which Spark reads sources itself, in the driver: what it reads, and what is due in a micro-batch."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from etl.plan.frames import Read, SparkInputs, StageInput, StateGraph, frame_sources, segments
from etl.plan.stage_clocks import joint_watermark
from etl.receipts import Receipt
from etl.spark.clock_planner import ClockPlanner, QueryReads
from etl.spark.lane.clocks import tick_receipt
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.state.checkpoint import planned_at
from etl.spark.state.offset_log import NOTHING_LOGGED, LoggedOffsets, moved_sources, read_offsets

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

_TICK = ("tick", "ends", "planned")
"""What tells two ticks apart in the offset of a clock."""


def reads_of(given: SparkInputs) -> QueryReads:
    """The reads of a query whose stages get events from Spark."""
    leaves = list(frame_sources(given))
    numbers = [number for number, (_, reads_splits) in enumerate(segments(given)) if reads_splits]
    splits = [tuple(leaf.sources) for leaf in leaves if isinstance(leaf, Read)]
    return QueryReads(dict(zip(numbers, splits, strict=True)), tuple(leaf.name for leaf in leaves if not isinstance(leaf, Read)))


def clock_source(query: QueryContext, graph: StateGraph, reads: QueryReads) -> type[DataSource]:
    """The data source class of the clock of a query; the name is unique in the session."""
    from etl.spark.datasource import data_source

    name = f"sluice_{hashlib.sha256(f'{query.state.root}/{query.query}/clock'.encode()).hexdigest()[:12]}"
    planner = ClockPlanner(query, joint_watermark(graph), reads)
    return data_source(name, pickle.dumps(planner), pickle.dumps(None), "tick boolean")


def clock_receipt(query: QueryContext, inputs: Sequence[StageInput], reads: QueryReads, batch: int) -> Receipt:
    """What the clock says about a micro-batch whose offsets are logged; and the time of reading of its events."""
    before = read_offsets(query.state, query.query, batch - 1, reads.spark) or NOTHING_LOGGED
    after = read_offsets(query.state, query.query, batch, reads.spark) or NOTHING_LOGGED
    moved = moved_sources(before, after)
    idle = frozenset(after.clock.get("idle", ())) - moved
    task = SplitTask(0, "", None, idle=idle, **({} if moved else _due(before, after)))
    return replace(tick_receipt(task, inputs), read_at=planned_at(query.state, query.query, batch))


def _due(before: LoggedOffsets, after: LoggedOffsets) -> dict[str, Any]:
    """What is due in a micro-batch without events."""
    known, clock = before.clock, after.clock
    due: dict[str, Any] = {}
    if [clock.get(name) for name in _TICK] != [known.get(name) for name in _TICK]:
        due |= {"tick": clock["tick"], "ends": clock["ends"]}
    if clock.get("quiet") != known.get("quiet"):
        due["quiet"] = frozenset(clock["quiet"]["intervals"])
    return due
