"""How long the sources of a query have been silent, and what is due because of it: closing what is open, intervals of results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias

from etl.plan.segments import Watermark
from etl.spark.planner_clock import PlannerClock, next_due
from etl.spark.state.json_files import read_numbers

Tick: TypeAlias = Literal["idle", "ended"]
"""An advance of the event time because sources are idle, or because no events come any more."""


def due_intervals(intervals: Mapping[int, bool], before: int, silence: int) -> list[int]:
    """The intervals that are due after this silence, where the last micro-batch came after a silence of ``before``; microseconds.

    One that is repeated is due at each of its multiples. Another one is due when it is over; it is due again with a longer one
    that is over for the first time, whose results a downstream step may have to pass on."""
    repeated = [every for every, repeats in intervals.items() if repeats and silence // every > before // every]
    once = [every for every, repeats in intervals.items() if not repeats and every <= silence]
    return sorted([*repeated, *once]) if repeated or max(once, default=0) > before else []


class Silence:
    """The silence of the sources of a query. Times of its clock are in seconds."""

    def __init__(self, watermark: Watermark | None, clock: PlannerClock, sources: Iterable[str], clock_file: Path) -> None:
        """``watermark``: of what reads the sources; None if nothing is ever due. ``clock_file`` has the largest event time that
        is committed (`etl.spark.state.folder`)."""
        self._watermark = watermark
        self._clock = clock
        self._moved = dict.fromkeys(sources, clock.elapsed())
        """Source → when it had events last, or when the planner started."""
        self._clock_file = clock_file
        self._ticked: Tick | None = None
        """What was done about the silence that lasts."""
        self._quiet = 0.0
        """The silence at the last micro-batch without events, in seconds."""

    def note_events(self, sources: Collection[str]) -> None:
        """These sources have events now."""
        self._moved |= dict.fromkeys(sources, self._clock.elapsed())
        if sources:
            self._ticked, self._quiet = None, 0.0

    def is_silent(self, source: str) -> bool:
        """Whether a source has been silent for the idle time."""
        idle = self._watermark.idle_seconds if self._watermark else None
        return idle is not None and round(self._clock.elapsed() - self._moved[source], 6) >= idle

    def tick(self, *, ends: bool, drains: bool) -> int | None:
        """The event time that is past all that is open, in microseconds, if that is due: where no more events come (``ends``) and
        the run closes what is open then (``drains``), or all sources are idle. None if it is not due, or no event has had a time.
        It is given once for each."""
        if self._watermark is None or self._ticked == "ended" or (self._ticked == "idle" and not ends):
            return None
        if not (drains if ends else all(map(self.is_silent, self._moved))):
            return None
        known = read_numbers(self._clock_file)
        if "event_time" not in known:
            return None
        self._ticked = "ended" if ends else "idle"
        delay = self._watermark.max_delay_seconds + self._watermark.late_seconds + 1
        return round(known["event_time"] + round(delay * 1e6))

    def take_intervals(self) -> list[int]:
        """The intervals of results that are over since the last events and were not given before, in microseconds."""
        intervals = dict(self._watermark.intervals) if self._watermark else {}
        silence = self._clock.elapsed() - max(self._moved.values())
        due = due_intervals(intervals, round(self._quiet * 1e6), round(silence * 1e6))
        if not due or "event_time" not in read_numbers(self._clock_file):
            return []
        self._quiet = silence
        return due

    def next_due(self) -> float:
        """The next time of the clock at which a source is idle or an interval of results is over, if no events come."""
        if self._watermark is None:
            return inf
        now, since = self._clock.elapsed(), max(self._moved.values())
        after = next_due(dict(self._watermark.intervals), now - since)
        idle = [moved + (self._watermark.idle_seconds or inf) for moved in self._moved.values()]
        return min([one for one in idle if one > now] + ([] if after is None else [since + after]), default=inf)
