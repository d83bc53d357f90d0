"""Planning micro-batches over the sources of a query: offsets, tasks, commits to sources.

Spark logs each offset before its micro-batch runs, so that after a crash the same two offsets are planned again. An offset is
``{"sources": {name: offset}, "parallelism": n, "found": seconds?, "tick": micros?, "ends": bool?, "quiet": {"number": n,
"intervals": [micros]}?}``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from etl.api import Limit, Offset, Source
from etl.delivery.backoff import RunStopping, StopFile
from etl.delivery.call_thread import CallThread
from etl.plan.segments import Watermark
from etl.spark import pace
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.state.json_files import read_json, read_numbers, write_json

T = TypeVar("T")

UNLIMITED = 1 << 62
"""Bytes of a micro-batch without limit."""

JOINED_SIZE = 1 << 16
"""Most events or bytes of a micro-batch whose splits are read by one task: a further task costs about 45 ms of CPU."""


def due_intervals(intervals: Mapping[int, bool], before: int, silence: int) -> list[int]:
    """The intervals that are due after this silence, where the last micro-batch came after a silence of ``before``; microseconds.

    One that is repeated is due at each of its multiples. Another one is due when it is over; it is due again with a longer one
    that is over for the first time, whose results a downstream step may have to pass on."""
    repeated = [every for every, repeats in intervals.items() if repeats and silence // every > before // every]
    once = [every for every, repeats in intervals.items() if not repeats and every <= silence]
    return sorted([*repeated, *once]) if repeated or max(once, default=0) > before else []


class SplitPlanner:
    """Plans micro-batches over several sources, in one long-lived process; ``number`` counts the reads of the query."""

    def __init__(
        self,
        query: QueryContext,
        sources: Mapping[str, Source],
        watermark: Watermark | None = None,
        number: int = 0,
        joins: bool = False,
    ) -> None:
        """``joins``: one task reads all splits of a small micro-batch."""
        self._query = query
        self._sources = dict(sources)
        self._watermark = watermark
        self._number = number
        self._joins = joins
        self._target: dict[str, Offset] | None = None
        self._moved = dict.fromkeys(sources, time.monotonic())
        self._ticked = False
        self._silence = 0.0
        """Of the last micro-batch without events, in seconds."""
        self._delivered: dict[str, Offset] = {}
        self._calls: CallThread | None = None

    def initial_offset(self) -> dict[str, Any]:
        """The first offset of a new checkpoint."""
        relay_worker_logs(self._query.pipeline)
        offsets = {name: self._initial_offset(name) for name in self._sources}
        return {"sources": offsets, "parallelism": self._query.parallelism}

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """The end offset of the next micro-batch; ``start`` when there is nothing to read."""
        relay_worker_logs(self._query.pipeline)
        try:
            self.commit(start)  # Spark commits a batch only when the next has data, for which a full journal has no room
            return self._next_offset(start)
        except RunStopping:
            return start

    def _next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        begun: dict[str, Offset] = start["sources"]
        if (
            begun.keys() != self._sources.keys()
        ):  # sources were added or removed: an empty batch logs the first offset of a new one
            offsets = {name: begun[name] if name in begun else self._initial_offset(name) for name in self._sources}
            return {"sources": offsets, "parallelism": self._query.parallelism}
        ends = self._end_offsets(begun)
        if ends != begun:
            self._moved |= {name: time.monotonic() for name in ends if ends[name] != begun[name]}
            self._ticked, self._silence = False, 0.0
            now, idle = time.time(), self._idle(begun, ends)
            planned = {"sources": ends, "parallelism": self._query.parallelism, "found": now}
            return {**planned, "idle": idle} if idle else planned
        all_ended = all(self._call_source(name, source.ended, begun[name]) for name, source in self._sources.items())
        ticked = self._advance_clock(start, all_ended)
        if all_ended and ticked == start:
            write_json(self._query.state.ended(self._query.query), True)
        return self._quiet_tick(start) if ticked == start and not all_ended else ticked

    def _quiet_tick(self, start: dict[str, Any]) -> dict[str, Any]:
        """A micro-batch without events for the intervals of results that are over since the last events."""
        clock, silence = self._watermark, time.monotonic() - max(self._moved.values())
        if clock is None or not clock.intervals or self._query.once:
            return start
        due = due_intervals(dict(clock.intervals), round(self._silence * 1e6), round(silence * 1e6))
        if not due or "event_time" not in read_numbers(self._query.state.query(self._query.query) / "clock.json"):
            return start
        self._silence = silence
        number = start.get("quiet", {"number": 0})["number"] + 1
        return {**start, "found": time.time(), "quiet": {"number": number, "intervals": due}}

    def _end_offsets(self, begun: dict[str, Offset]) -> dict[str, Offset]:
        left = self._events_left()
        if left == 0:
            return begun
        if self._query.once and self._target is None:
            everything = Limit(UNLIMITED, None, bounded=True)
            self._target = {n: self._call_source(n, s.latest, begun[n], everything) for n, s in self._sources.items()}
        ends = dict(begun)
        known = read_numbers(self._query.state.query(self._query.query) / "pace.json")
        share = max(1, pace.batch_bytes(known.get("speed"), self._query.max_batch_bytes) // len(self._sources))
        most = max(1, self._query.max_batch_bytes // len(self._sources))
        for name, source in self._sources.items():
            until = self._target[name] if self._target else None
            limit = Limit(share, left, self._query.once, until, known.get("event_bytes"))
            ends[name] = pace.end_of_batch(partial(self._call_source, name, source.latest, begun[name]), limit, most)
            if left is not None and ends[name] != begun[name]:
                break  # with a limit of events only one source a batch: the number read is known afterwards
        return ends

    def _initial_offset(self, name: str) -> Offset:
        return self._call_source(name, self._sources[name].start)

    def _call_source(self, name: str, ask: Callable[..., T], *given: Any) -> T:
        """Call a method of a source; retry while the source is down. Raises RunStopping when the run stops first."""
        if self._calls is None:
            self._calls = CallThread(StopFile(self._query.state.stopping))
        calls = self._calls
        return self._query.backoff(name).retry_until_done(lambda: calls.run(lambda: ask(*given)))

    def _events_left(self) -> int | None:
        if not self._query.limited:
            return None
        return int(read_json(self._query.state.query(self._query.query) / "limit.json"))

    def _advance_clock(self, start: dict[str, Any], all_ended: bool) -> dict[str, Any]:
        """Advance the event time of idle or ended sources past every open window, once for each idle time."""
        clock = self._watermark
        if clock is None or self._ticked:
            return start
        silent = all(map(self._is_silent, self._sources))
        if not (all_ended or (self._query.drain if self._query.once else silent)):
            return start
        known = read_numbers(self._query.state.query(self._query.query) / "clock.json")
        if "event_time" not in known:
            return start
        self._ticked = True
        tick = known["event_time"] + round((clock.max_delay_seconds + clock.late_seconds + 1) * 1e6)
        ends = all_ended or self._query.once
        return (
            start if start.get("tick") == tick else {**start, "tick": tick, "ends": ends, "found": None if ends else time.time()}
        )

    def _is_silent(self, name: str) -> bool:
        """Whether a source has been silent for the idle time."""
        clock = self._watermark
        return clock is not None and clock.idle_seconds is not None and time.monotonic() - self._moved[name] >= clock.idle_seconds

    def _idle(self, begun: dict[str, Offset], ends: dict[str, Offset]) -> list[str]:
        """The sources without new events for which no watermark waits while others are read: silent ones, and those that have
        ended."""
        if self._watermark is None:
            return []
        still = [name for name in self._sources if ends[name] == begun[name]]
        return [
            name for name in still if self._is_silent(name) or self._call_source(name, self._sources[name].ended, begun[name])
        ]

    def plan_tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitTask]:
        """The tasks between two offsets, in delivery order."""
        parts: list[SplitTask] = []
        idle = frozenset(end.get("idle", ()))
        if end.get("tick") is not None and end.get("tick") != start.get("tick"):
            parts.append(SplitTask(0, "", None, end["tick"], end.get("found"), end.get("ends", True)))
        if end.get("quiet") is not None and end["quiet"] != start.get("quiet"):
            parts.append(SplitTask(len(parts), "", None, found=end.get("found"), quiet=frozenset(end["quiet"]["intervals"])))
        for name, source in self._sources.items():
            begun = start["sources"].get(name)
            if begun is None or begun == end["sources"].get(name):
                continue
            for split in self._call_source(name, source.splits, begun, end["sources"][name], end["parallelism"]):
                parts.append(SplitTask(len(parts), name, split, None, end.get("found"), idle=idle))
        return [replace(parts[0], joined=tuple(parts[1:]))] if self._joins and self._are_few(parts) else parts

    def _are_few(self, parts: list[SplitTask]) -> bool:
        """Whether one task is to do the work of these."""
        sizes = (self._sources[part.source].size(part.split) for part in parts if part.split is not None)
        return len(parts) == 1 or (len(parts) > 1 and sum(sizes) <= JOINED_SIZE)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit ``end`` to the sources: all sinks of this query have the events before it.

        A source's `commit` is called once all queries that read it have an offset.
        """
        for name, source in self._sources.items():
            known = end["sources"].get(name)
            if type(source).commit is Source.commit or known is None or known == self._delivered.get(name):
                continue
            self._delivered[name] = known
            marks = self._query.state.marks(name)
            write_json(marks / f"{self._query.query}-{self._number}.json", known)
            ends = [mark for path in sorted(marks.glob("*.json")) if (mark := read_json(path)) is not None]
            if len(ends) == self._query.readers.get(name, 1):
                self._call_source(name, source.commit, ends)
