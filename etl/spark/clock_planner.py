"""The clock of a query of which Spark reads sources itself: closes what waits for further events when these do not come.

Sources of Spark have no planner of ours that could advance event time (`etl.spark.split_planner`). The clock is a further
source of the query, without events: a new offset of it makes Spark run a micro-batch, and says what is due if no other source has
events in the same micro-batch. That is known only when Spark has logged the offsets of all, where the driver looks
(`etl.spark.lane.query_clock`).

An offset is ``{"query_clock": {"tick": micros?, "ends": bool, "planned": n, "moved": n, "idle": [source], "quiet":
{"number": n, "intervals": [micros]}}}``: ``planned`` is the micro-batch that the tick was for, ``moved`` the last one before in
which a source had events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from etl.plan.segments import Watermark
from etl.spark.planner_clock import WallClock
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.silence import Silence
from etl.spark.state.offset_log import CLOCK, NOTHING_LOGGED, last_logged, moved_sources, read_offsets

_MAX_LOGGED = 100
"""Micro-batches of earlier runs that are looked at: Spark removes the offsets of older ones."""


@dataclass(frozen=True)
class QueryReads:
    """The reads of a query with a clock."""

    splits: Mapping[int, tuple[str, ...]]
    """Number of a read of splits → its sources."""
    spark: tuple[str, ...]
    """The sources that Spark reads, in the order of its plan; once for each read."""

    @property
    def names(self) -> frozenset[str]:
        """All sources."""
        return frozenset(self.spark).union(*self.splits.values())


class ClockPlanner:
    """Plans the micro-batches of a query that are due without events, in one long-lived process."""

    def __init__(self, query: QueryContext, watermark: Watermark, reads: QueryReads) -> None:
        self._query, self._watermark, self._reads = query, watermark, reads
        self._logged = -1
        """The last micro-batch whose offsets were compared."""
        self._before = NOTHING_LOGGED
        self._moved = -1
        """The last micro-batch in which a source had events."""

    @cached_property
    def _silence(self) -> Silence:
        return Silence(self._watermark, WallClock(), self._reads.names, self._query.clock_file)

    def initial_offset(self) -> dict[str, Any]:
        """The first offset of a new checkpoint."""
        return {CLOCK: {}}

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """The end offset of the next micro-batch; ``start`` when nothing is due."""
        relay_worker_logs(self._query.pipeline)
        silence, known = self._silence, start[CLOCK]
        self._note_moves()
        moved = max(self._moved, known.get("moved", -1))
        at = {**known, "idle": self._idle(), "moved": moved}
        once = self._query.once
        tick = silence.tick(ends=once, drains=self._query.drain)
        has_ticked = (known.get("tick"), known.get("ends")) in ((tick, once), (tick, True)) and moved < known["planned"]
        if tick is not None and not has_ticked:
            return {CLOCK: {**at, "tick": tick, "ends": once, "planned": self._logged + 1}}
        if not once and (due := silence.take_intervals()):
            return {CLOCK: {**at, "quiet": {"number": known.get("quiet", {"number": 0})["number"] + 1, "intervals": due}}}
        return {CLOCK: at} if at["idle"] != known.get("idle", []) else start

    def plan_tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitTask]:
        """None: a clock has no events."""
        return []

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing waits for it."""

    def _note_moves(self) -> None:
        """Compare the offsets that Spark has logged since the last call."""
        last = last_logged(self._query.state, self._query.query)
        for number in range(max(self._logged + 1, last - _MAX_LOGGED), last + 1):
            offsets = read_offsets(self._query.state, self._query.query, number, self._reads.spark)
            if offsets is None:
                continue
            if moved := moved_sources(self._before, offsets):
                self._silence.note_events(moved)
                self._moved = number
            self._before = offsets
        self._logged = last

    def _idle(self) -> list[str]:
        """The sources that are silent, and those that have ended: no watermark waits for them while others are read."""
        state, query = self._query.state, self._query.query
        ended = {name for read, names in self._reads.splits.items() if state.ended(query, read).exists() for name in names}
        return sorted(name for name in self._reads.names if name in ended or self._silence.is_silent(name))
