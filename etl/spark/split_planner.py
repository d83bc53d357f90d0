"""Planning micro-batches over the sources of a query: offsets, tasks, commits to sources.

Spark logs each offset before its micro-batch runs, so that after a crash the same two offsets are planned again. An offset is
``{"sources": {name: offset}, "parallelism": n, "found": seconds?, "tick": micros?, "ends": bool?, "quiet": {"number": n,
"intervals": [micros]}?}``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from etl.api import Limit, Offset, Source
from etl.delivery.backoff import RunStopping, StopFile
from etl.delivery.call_thread import CallThread
from etl.plan.segments import Watermark
from etl.spark import pace
from etl.spark.backlog import FILE as BACKLOG_FILE
from etl.spark.backlog import BacklogMonitor
from etl.spark.long_calls import LongCallFile, long_call_file
from etl.spark.planner_clock import PlannerClock, WallClock
from etl.spark.query_context import QueryContext, SplitTask
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.silence import Silence
from etl.spark.state.json_files import read_json, read_numbers, write_json

T = TypeVar("T")
UNLIMITED = 1 << 62
"""Bytes of a micro-batch without limit."""

JOINED_SIZE = 1 << 16
"""Maximum events or bytes of a micro-batch whose splits one task reads: a further task costs about 45 ms of CPU."""


def _tick_of(offset: Mapping[str, Any]) -> tuple[int | None, bool]:
    """To where an offset advances the event time, and whether no events come any more."""
    return offset.get("tick"), offset.get("ends", True)


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
        self._watermark = None if query.has_clock else watermark
        self._number = number
        self._joins = joins
        self._clock: PlannerClock = query.clock or WallClock()
        self._target: dict[str, Offset] | None = None
        self._silence = Silence(self._watermark, self._clock, sources, query.clock_file)
        self._delivered: dict[str, Offset] = {}
        self._calls: CallThread | None = None
        self._backlog = BacklogMonitor(query.state.query(query.query) / BACKLOG_FILE, self._sources)

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
            end = self._next_offset(start)
            self._backlog.note(start["sources"], end["sources"], self._call_thread())
            return end
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
            return self._before_events(start, ends) or self._with_events(begun, ends)
        all_ended = all(self._call_source(name, source.ended, begun[name]) for name, source in self._sources.items())
        ticked = self._advance_clock(start, all_ended)
        if all_ended and ticked == start:
            write_json(self._query.state.ended(self._query.query, self._number), True)
        return self._quiet_tick(start) if ticked == start and not (all_ended or self._query.once) else ticked

    def _with_events(self, begun: dict[str, Offset], ends: dict[str, Offset]) -> dict[str, Any]:
        """The micro-batch with the events between these offsets."""
        moved = [name for name in ends if ends[name] != begun[name] and self._clock.has_events(name, begun[name], ends[name])]
        self._silence.note_events(moved)
        idle = self._idle(begun, still=ends.keys() - moved)
        planned = {"sources": ends, "parallelism": self._query.parallelism, "found": self._clock.now()}
        return {**planned, "idle": idle} if idle else planned

    def _before_events(self, start: dict[str, Any], ends: dict[str, Offset]) -> dict[str, Any] | None:
        """A micro-batch that is due in the pause before events, where a test has one; None if none is."""
        while self._clock.advance(ends, self._silence.next_due()):
            ticked = self._advance_clock(start, all_ended=False, in_pause=True)
            if (planned := self._quiet_tick(start) if ticked == start else ticked) != start:
                return planned
        return None

    def _quiet_tick(self, start: dict[str, Any]) -> dict[str, Any]:
        """A micro-batch without events for the intervals of results that are over since the last events."""
        due = self._silence.take_intervals()
        if not due:
            return start
        number = start.get("quiet", {"number": 0})["number"] + 1
        return {**start, "found": self._clock.now(), "quiet": {"number": number, "intervals": due}}

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
        max_bytes = max(1, self._query.max_batch_bytes // len(self._sources))
        for name, source in self._sources.items():
            until = self._target[name] if self._target else None
            limit = Limit(share, left, self._query.once, until, known.get("event_bytes"))
            ends[name] = pace.end_of_batch(partial(self._call_source, name, source.latest, begun[name]), limit, max_bytes)
            if left is not None and ends[name] != begun[name]:
                break  # with a limit of events only one source a batch: the number read is known afterwards
        return ends

    def _initial_offset(self, name: str) -> Offset:
        return self._call_source(name, self._sources[name].start)

    def _call_source(self, name: str, ask: Callable[..., T], *given: Any) -> T:
        """Call a method of a source; retry while the source is down. Raises RunStopping when the run stops first."""
        calls = self._call_thread()
        what = f"`{ask.__name__}` of source {name!r} ({self._sources[name].type})"
        return self._query.backoff(name).retry_until_done(lambda: calls.run(lambda: ask(*given), what))

    def _call_thread(self) -> CallThread:
        """The thread that calls sources, which may hang."""
        if self._calls is None:
            file = LongCallFile(long_call_file(self._query.state, self._query.query, self._number))
            stops, limit = StopFile(self._query.state.stopping), self._query.max_call_seconds
            self._calls = CallThread(stops, max_seconds=limit, on_long_call=file.note)
        return self._calls

    def _events_left(self) -> int | None:
        if not self._query.limited:
            return None
        return int(read_json(self._query.state.query(self._query.query) / "limit.json"))

    def _advance_clock(self, start: dict[str, Any], all_ended: bool, in_pause: bool = False) -> dict[str, Any]:
        """Advance the event time of idle or ended sources past every open window, once for each idle time. ``in_pause``: events
        come later, also in a run that ends after the last one."""
        ends = all_ended or (self._query.once and not in_pause)
        tick = self._silence.tick(ends=ends, drains=all_ended or self._query.drain)
        if tick is None:
            return start
        if _tick_of(start) in ((tick, ends), (tick, True)):
            return start
        return {**start, "tick": tick, "ends": ends, "found": None if ends else self._clock.now()}

    def _idle(self, begun: dict[str, Offset], still: Collection[str]) -> list[str]:
        """Those of the sources without new events for which no watermark waits while others are read: silent ones, and those that
        have ended."""
        if self._watermark is None:
            return []
        return [
            name
            for name in self._sources
            if name in still
            and (self._silence.is_silent(name) or self._call_source(name, self._sources[name].ended, begun[name]))
        ]

    def plan_tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitTask]:
        """The tasks between two offsets, in delivery order."""
        parts: list[SplitTask] = []
        idle = frozenset(end.get("idle", ()))
        if end.get("tick") is not None and _tick_of(end) != _tick_of(start):
            parts.append(SplitTask(0, "", None, end["tick"], end.get("found"), end.get("ends", True)))
        if end.get("quiet") is not None and end["quiet"] != start.get("quiet"):
            parts.append(SplitTask(len(parts), "", None, found=end.get("found"), quiet=frozenset(end["quiet"]["intervals"])))
        for name, source in self._sources.items():
            begun = start["sources"].get(name)
            if begun is None or begun == end["sources"].get(name):
                continue
            for split in self._call_source(name, source.splits, begun, end["sources"][name], end["parallelism"]):
                parts.append(SplitTask(len(parts), name, split, None, end.get("found"), idle=idle))
        if self._joins and self._are_few(parts):
            return [replace(parts[0], joined=tuple(parts[1:]))]
        return [replace(part, tasks=len(parts)) for part in parts]

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
