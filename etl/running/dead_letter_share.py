"""How many of a run's events become dead letters: reported from a tenth on, and the end of the run above a limit."""

from __future__ import annotations

from collections import deque

from etl.receipts import Rejected
from etl.running.messages import Message, OnMessage, count
from etl.spark.run import PipelineRun
from etl.spark.totals import Totals

LOUD = 0.1
"""The share from which on a run says so."""

RECENT = 1000
"""Events over which the share is also taken, so that a change is noticed after any number of good ones."""

FEWEST = 100
"""Events before a run that goes on is judged; one that has ended is judged by as many as there were."""

LONGEST_LINE = 200
"""Characters of an example that are shown."""


class DeadLetterShare:
    """Watches a run; `look` is called a few times a second."""

    def __init__(self, one: PipelineRun, most: float | None) -> None:
        self._one, self._most = one, most
        self._sums: deque[tuple[int, int]] = deque([(0, 0)])
        self._said = False
        self.exceeded = False
        """Whether more events became dead letters than may."""

    def look(self, on_message: OnMessage) -> None:
        """Report a large share once; stop the run where it has too many dead letters."""
        read, dead = events_read(self._one.totals), self._one.totals.dead
        if (read, dead) == self._sums[-1]:
            return
        self._sums.append((read, dead))
        while len(self._sums) > 1 and self._sums[1][0] <= read - RECENT:
            self._sums.popleft()
        if read >= FEWEST:
            self._judge(on_message)

    def _judge(self, on_message: OnMessage) -> None:
        totals, pipeline = self._one.totals, self._one.plan.pipeline
        if self._most is not None and not self.exceeded and self.share > self._most:
            self.exceeded = True
            text = f"stopping: {self.said}, more than --max-dead {self._most:g}"
            on_message(Message("dead_share", text, "error", pipeline))
            self._one.stop()
        elif not self._said and self.share >= LOUD:
            values = {"share": round(self.share, 4)}
            on_message(Message("dead_share", f"{self.said}{_why(totals)}", "warning", pipeline, values))
        self._said = self._said or self.share >= LOUD

    @property
    def share(self) -> float:
        """Dead letters an event: over the run, or over the last events where that is more."""
        read, dead = events_read(self._one.totals), self._one.totals.dead
        before, dead_before = self._sums[0]
        recent = (dead - dead_before) / (read - before) if read - before >= RECENT else 0.0
        return max(dead / read if read else float(dead > 0), recent)

    @property
    def said(self) -> str:
        """``60,000 of 60,000 events became dead letters (100 %)``."""
        read, dead = events_read(self._one.totals), self._one.totals.dead
        before = self._sums[0][0]
        whole = f"{count(dead)} of {count(read)} events became dead letters ({_percent(dead / read if read else 1.0)})"
        if self.share > (dead / read if read else 1.0):
            whole += f", {_percent(self.share)} of the last {count(read - before)}"
        return whole

    def end(self) -> bool:
        """The run has ended; whether it has more dead letters than may be."""
        if self._most is not None and self.share > self._most:
            self.exceeded = True
        return self.exceeded


def events_read(totals: Totals) -> int:
    """Of all sources."""
    return sum(counts.came for counts in list(totals.read.values()))


def _why(totals: Totals) -> str:
    most = _most_frequent(totals)
    return f": at {most[0][0]}, {shown(most[1].reason)}" if most else ""


def _most_frequent(totals: Totals) -> tuple[tuple[str, str], Rejected] | None:
    return max(list(totals.rejected.items()), key=lambda one: one[1].events, default=None)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


def shown(text: str) -> str:
    """A text on one line, as far as it is shown."""
    plain = "".join(character if character.isprintable() else "·" for character in text[:LONGEST_LINE])
    return f"{plain}…" if len(text) > LONGEST_LINE else plain
