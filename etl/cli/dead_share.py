"""How many of the events become dead letters: said loudly from a tenth on, and the end of the run from ``--max-dead`` on."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from etl.cli.progress import Progress, count
from etl.plan.model import Plan, StepNode, segments
from etl.receipts import Rejected
from etl.segment.kernel_warmup import step_nodes
from etl.spark.run import PipelineRun
from etl.spark.totals import Totals

LOUD = 0.1
"""The share from which on a run says so."""

RECENT = 1000
"""Events over which the share is also taken, so that a change is noticed after any number of good ones."""

FEWEST = 100
"""Events before a run that goes on is judged; one that has ended is judged by as many as there were."""

MOST_REASONS = 3
"""Reasons that are listed."""

MOST_PATTERNS = 3
"""Patterns of a step of which is said where they stop to match."""

LONGEST_LINE = 200
"""Characters of an example that are shown."""


class Share(click.ParamType[float]):
    """``0.1`` or ``10%``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A number from 0 to 1."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is no share of events: write a number from 0 to 1, or a percentage such as 10%", param, ctx)
        return share


class DeadShare:
    """Watches a run; `look` is called a few times a second."""

    def __init__(self, one: PipelineRun, most: float | None) -> None:
        self._one, self._most = one, most
        self._sums: deque[tuple[int, int]] = deque([(0, 0)])
        self._said = False
        self.exceeded = False
        """Whether more events became dead letters than may."""

    def look(self, progress: Progress) -> None:
        """Say what is to be said; stop the run where it has too many dead letters."""
        read, dead = events_read(self._one.totals), self._one.totals.dead
        if (read, dead) == self._sums[-1]:
            return
        self._sums.append((read, dead))
        while len(self._sums) > 1 and self._sums[1][0] <= read - RECENT:
            self._sums.popleft()
        if read >= FEWEST:
            self._judge(progress)

    def _judge(self, progress: Progress) -> None:
        totals, pipeline = self._one.totals, self._one.plan.pipeline
        if self._most is not None and not self.exceeded and self.share > self._most:
            self.exceeded = True
            progress.say("dead_share", f"stopping: {self.said}, more than --max-dead {self._most:g}", "error", pipeline)
            self._one.stop()
        elif not self._said and self.share >= LOUD:
            progress.say("dead_share", f"{self.said}{_why(totals)}", "warning", pipeline, share=round(self.share, 4))
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
    return f": at {most[0][0]}, {_shown(most[1].reason)}" if most else ""


def _most_frequent(totals: Totals) -> tuple[tuple[str, str], Rejected] | None:
    return max(list(totals.rejected.items()), key=lambda one: one[1].events, default=None)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


# ── The summary ───────────────────────────────────────────────────────────────────────────────────


def dead_summary(watch: DeadShare, one: PipelineRun) -> Iterator[str]:
    """Lines for a run of which a tenth or more became dead letters; none for another."""
    if not one.totals.dead or (watch.share < LOUD and not watch.exceeded):
        return
    yield f"{watch.said}:"
    reasons = sorted(one.totals.rejected.items(), key=lambda item: -item[1].events)
    for (at, code), rejected in reasons[:MOST_REASONS]:
        yield f"  {count(rejected.events)} at {at}{_position(one.plan, at)}: {_shown(rejected.reason)} ({code}), such as"
        yield f"    {_shown(rejected.example)}"
        yield from _stops(one.plan, at, rejected.example)
    if len(reasons) > MOST_REASONS:
        yield f"  {count(len(reasons) - MOST_REASONS)} further reasons"


def _shown(text: str) -> str:
    """On one line."""
    plain = "".join(character if character.isprintable() else "·" for character in text[:LONGEST_LINE])
    return f"{plain}…" if len(text) > LONGEST_LINE else plain


def _node(plan: Plan, at: str) -> StepNode | None:
    parts = [part for query in plan.queries for part in (query.segment, *(part for part, _ in segments(query.frame)))]
    return next((node for part in parts for node in step_nodes(part) if node.id == at), None)


def _position(plan: Plan, at: str) -> str:
    node = _node(plan, at)
    return f" (line {node.location[0]})" if node is not None and node.location else ""


def _stops(plan: Plan, at: str, example: str) -> Iterator[str]:
    """Where the patterns of a step stop to match the example."""
    node = _node(plan, at)
    patterns = getattr(node.step, "patterns", None) if node else None
    if node is None or not isinstance(patterns, list):
        return
    with suppress(Exception):  # a hint: what it does not know is not said
        text = _text(example, getattr(node.step, "field", "message"))
        found = [(stop.column, stop) for pattern in patterns[:MOST_PATTERNS] for stop in _grok(node, pattern).stops([text])]
        column, stop = max(found, key=lambda one: one[0])
        beginning = f"`{stop.beginning[-LONGEST_LINE:]}`" if stop.beginning else "nothing of the pattern"
        yield f"    matches {beginning} and then not {stop.wants} at column {column}: `etl grok` shows more"


def _grok(node: StepNode, pattern: str) -> Any:
    from etl.finding.match_stops import Grok

    names = ("pattern_set", "pattern_definitions", "pattern_files")
    return Grok(pattern, {name: getattr(node.step, name) for name in names if hasattr(node.step, name)})


def _text(example: str, field: str) -> str:
    """The field's text in the example, which is the text itself or JSON of the whole event."""
    with suppress(ValueError):
        event: Any = json.loads(example)
        if isinstance(event, dict):
            for name in field.split("."):
                event = event[name]
            return str(event)
    return example
