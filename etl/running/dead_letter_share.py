"""The share of a run's events that become dead letters: a large share is reported, one above the limit ends the run."""

from __future__ import annotations

from collections import deque

from etl.receipts import RejectCount
from etl.running.messages import Message, OnMessage, count
from etl.spark.reports.totals import Totals
from etl.spark.run import PipelineRun

WARNING_SHARE = 0.1
"""From this share on a run warns once."""

RECENT_EVENTS = 1000
"""The share is also computed over this many recent events, so that a change is noticed after any number of good events."""

MIN_EVENTS = 100
"""Minimum number of events before a run is warned of or stopped. At its end any number counts."""

MAX_REASONS = 10
"""Codes of dead letters at a step or sink that a run reports when the first of them comes."""

LONGEST_LINE = 200
"""Maximum number of characters of a text in a message."""


class DeadLetterShare:
    """Computes the share for a run; call `check` a few times a second."""

    def __init__(self, run: PipelineRun, limit: float | None) -> None:
        self._run, self._limit = run, limit
        self._counts: deque[tuple[int, int]] = deque([(0, 0)])
        self._has_warned = False
        self._reported: set[tuple[str, str]] = set()
        self.exceeded = False
        """Whether the share is above the limit."""

    def check(self, on_message: OnMessage) -> None:
        """Report a large share once; stop the run if the share is above the limit."""
        read, dead = events_read(self._run.totals), self._run.totals.dead
        if (read, dead) == self._counts[-1]:
            return
        self._counts.append((read, dead))
        while len(self._counts) > 1 and self._counts[1][0] <= read - RECENT_EVENTS:
            self._counts.popleft()
        if read >= MIN_EVENTS:
            self._warn_or_stop(on_message)

    def report_new_reasons(self, on_message: OnMessage) -> None:
        """Report the first dead letters of each code at each step and sink, for `MAX_REASONS` of these."""
        for where, rejected in list(self._run.totals.rejected.items()):
            if where not in self._reported and len(self._reported) < MAX_REASONS:
                self._reported.add(where)
                values = {"at": where[0], "code": where[1], "events": rejected.events, "reason": rejected.reason}
                text = f"dead: {reason_line(where, rejected)}, such as {one_line(rejected.example)}"
                on_message(Message("dead_letter", text, "warning", self._run.plan.pipeline, values))

    def _warn_or_stop(self, on_message: OnMessage) -> None:
        totals, pipeline = self._run.totals, self._run.plan.pipeline
        if self._limit is not None and not self.exceeded and self.share > self._limit:
            self.exceeded = True
            text = f"stopping: {self.description}, more than --max-dead {self._limit:g}"
            on_message(Message("dead_share", text, "error", pipeline))
            self._run.stop()
        elif not self._has_warned and self.share >= WARNING_SHARE:
            values = {"share": round(self.share, 4)}
            on_message(Message("dead_share", f"{self.description}{_most_frequent_reason(totals)}", "warning", pipeline, values))
        self._has_warned = self._has_warned or self.share >= WARNING_SHARE

    @property
    def share(self) -> float:
        """Dead letters per event: over the run, or over the recent events if that is more."""
        read, dead = events_read(self._run.totals), self._run.totals.dead
        before, dead_before = self._counts[0]
        recent = (dead - dead_before) / (read - before) if read - before >= RECENT_EVENTS else 0.0
        return max(dead / read if read else float(dead > 0), recent)

    @property
    def description(self) -> str:
        """``60,000 of 60,000 events became dead letters (100 %)``."""
        read, dead = events_read(self._run.totals), self._run.totals.dead
        before = self._counts[0][0]
        whole = f"{count(dead)} of {count(read)} events became dead letters ({_percent(dead / read if read else 1.0)})"
        if self.share > (dead / read if read else 1.0):
            whole += f", {_percent(self.share)} of the last {count(read - before)}"
        return whole

    def check_end(self) -> bool:
        """Call it after the run. Returns whether the share is above the limit."""
        if self._limit is not None and self.share > self._limit:
            self.exceeded = True
        return self.exceeded


def events_read(totals: Totals) -> int:
    """The number of events read of all sources."""
    return sum(counts.incoming for counts in list(totals.read.values()))


def reason_line(where: tuple[str, str], rejected: RejectCount) -> str:
    """``3 at steps[1] grok: does not match (grok-failed)``."""
    return f"{count(rejected.events)} at {where[0]}: {one_line(rejected.reason)} ({where[1]})"


def _most_frequent_reason(totals: Totals) -> str:
    found = _most_frequent(totals)
    return f": at {found[0][0]}, {one_line(found[1].reason)}" if found else ""


def _most_frequent(totals: Totals) -> tuple[tuple[str, str], RejectCount] | None:
    return max(list(totals.rejected.items()), key=lambda one: one[1].events, default=None)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


def printable(text: str) -> str:
    """A text in which characters that could control a terminal are ``·``."""
    return "".join(character if character.isprintable() else "·" for character in text)


def one_line(text: str) -> str:
    """A text on one line of at most `LONGEST_LINE` characters."""
    plain = printable(text[:LONGEST_LINE])
    return f"{plain}…" if len(text) > LONGEST_LINE else plain
