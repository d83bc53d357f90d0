"""Progress of a run: a live line on a terminal, a line every ten seconds elsewhere, JSON for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import click

from etl.running.messages import Message, count
from etl.spark.reports.totals import Totals

EVERY_SECONDS = 10.0
"""Seconds between two progress lines without a terminal."""

COLOURS = {"warning": "yellow", "error": "red"}

LOUD_EVENTS = {"dead_share", "dead_letters", "failed"}
"""Messages in colour."""

LIVE_LINES = 10
"""Pipelines with a live line of their own on a terminal: those that read most at the moment."""


@dataclass
class Snapshot:
    """Totals over all pipelines of a run at one moment."""

    read: int = 0
    delivered: int = 0
    dead: int = 0
    filtered: int = 0
    lag_seconds: float = 0.0

    @staticmethod
    def of(totals: Mapping[str, Totals]) -> Snapshot:
        """Add up the pipelines' totals."""
        snapshot = Snapshot()
        for total in totals.values():
            snapshot.read += sum(counts.incoming for counts in list(total.read.values()))
            snapshot.delivered += sum(sink.accepted for sink in list(total.sinks.values()))
            snapshot.filtered += sum(counts.filtered for counts in list(total.steps.values()))
            snapshot.dead += total.dead
            snapshot.lag_seconds = max(snapshot.lag_seconds, total.lag_seconds)
        return snapshot


@dataclass
class Rate:
    """Events a second over the last few seconds."""

    clock: Callable[[], float] = time.monotonic
    _sums: list[tuple[float, int]] = field(default_factory=list)

    def at(self, events: int) -> float:
        """Add a sum; returns its growth in events a second."""
        now = self.clock()
        self._sums = [(at, sum_) for at, sum_ in self._sums if now - at <= 5.0] + [(now, events)]
        (first, first_sum), (last, last_sum) = self._sums[0], self._sums[-1]
        return (last_sum - first_sum) / (last - first) if last > first else 0.0


class Progress:
    """Shows totals and messages: on a terminal, in a log, or as JSON."""

    def __init__(self, form: str, quiet: bool, live: bool, out: IO[str] | None = None, several: bool = False) -> None:
        self._out = out or sys.stderr
        self._form = form
        self._quiet = quiet
        self.several = several
        """Whether messages begin with the name of their pipeline."""
        self._rates: dict[str, Rate] = {}
        self._next: float | None = None
        self._live: Any = self._line() if live and form == "text" and not quiet and self._out.isatty() else None
        self._shown: dict[str, tuple[int, int, int]] = {}

    def show(self, totals: Mapping[str, Totals]) -> None:
        """Called a few times a second, with the totals of each pipeline."""
        now = {name: Snapshot.of({name: one}) for name, one in totals.items()}
        rates = {name: self._rates.setdefault(name, Rate()).at(snapshot.read) for name, snapshot in now.items()}
        if self._live is not None:
            self._live.update(self._live_lines(now, rates, Snapshot.of(totals)), refresh=True)
        elif not self._quiet and self._due():
            for name, snapshot in now.items():
                self._say_progress(name, snapshot, rates[name])

    def _live_lines(self, now: Mapping[str, Snapshot], rates: Mapping[str, float], whole: Snapshot) -> Any:
        from rich.console import Group

        lines = []
        if self.several:
            busiest = sorted(now, key=lambda name: -rates[name])[:LIVE_LINES]
            width = max(len(name) for name in busiest)
            lines = [_format_styled(now[name], rates[name], f"{name:<{width}}  ") for name in now if name in busiest]
        return Group(*lines, _format_styled(whole, sum(rates.values()), f"all {len(now)} pipelines  " if self.several else ""))

    def _due(self) -> bool:
        now = time.monotonic()
        due = self._next is not None and now >= self._next
        if due or self._next is None:
            self._next = now + EVERY_SECONDS
        return due

    def _say_progress(self, pipeline: str, snapshot: Snapshot, rate: float) -> None:
        now = (snapshot.read, snapshot.delivered, snapshot.dead)
        if now == self._shown.get(pipeline, (0, 0, 0)) and self._form == "text":
            return  # nothing has changed
        self._shown[pipeline] = now
        values = {**vars(snapshot), "events_per_second": round(rate)}
        self.say("progress", f"{_format_plain(snapshot, rate)}", pipeline=pipeline, **values)

    def report(self, message: Message) -> None:
        """A message of the run."""
        self.say(message.event, message.text, message.level, message.pipeline, **message.values)

    def say(self, event: str, text: str, level: str = "info", pipeline: str = "", named: bool = False, **values: Any) -> None:
        """A message: the text, or the event with its values as one JSON line. ``named``: the text names its pipeline."""
        if self._quiet and level == "info":
            return
        if pipeline:
            values = {"pipeline": pipeline, **values}
            text = f"{pipeline}: {text}" if self.several and not named else text
        if self._form == "json":
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            text = json.dumps({"time": stamp, "level": level, "event": event, "message": text, **values})
        self._print(text, COLOURS.get(level) if event in LOUD_EVENTS and self._form == "text" else None)

    def _print(self, text: str, colour: str | None) -> None:
        """Print a message; on a terminal with its first line in colour."""
        first, line_end, rest = text.partition("\n")
        if self._live is not None:
            from rich.text import Text

            shown = Text.assemble((first, f"bold {colour}" if colour else ""), line_end + rest)
            self._live.console.print(shown, soft_wrap=True)  # as text: what logs hold is not markup
        else:
            head = click.style(first, fg=colour, bold=True) if colour and self._out.isatty() else first
            print(f"{head}{line_end}{rest}\n", end="", file=self._out, flush=True)  # in one write: other threads print, too

    def close(self) -> None:
        """Remove the live line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self) -> Any:
        from rich.console import Console
        from rich.live import Live

        live = Live(console=Console(file=self._out), auto_refresh=False, transient=True, redirect_stdout=False)
        live.start()
        return live


def _format_plain(snapshot: Snapshot, rate: float) -> str:
    return (
        f"{count(snapshot.read)} events in, {count(snapshot.delivered)} out, {count(snapshot.dead)} dead, "
        f"{count(rate)} events/s, lag {snapshot.lag_seconds:.1f} s"
    )


def _format_styled(snapshot: Snapshot, rate: float, name: str = "") -> Any:
    from rich.text import Text

    line = Text(name, no_wrap=True, overflow="ellipsis")
    for number, unit, style in (
        (count(snapshot.read), "in", "bold"),
        (count(snapshot.delivered), "out", "bold green"),
        (count(snapshot.dead), "dead", "bold red" if snapshot.dead else "dim"),
        (count(rate), "events/s", "bold cyan"),
    ):
        line.append(number, style).append(f" {unit}   ", "dim")
    return line.append("lag ", "dim").append(f"{snapshot.lag_seconds:.1f} s", "bold")
