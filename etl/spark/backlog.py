"""How far the sources of a query are behind: the planner measures it every few seconds, and the driver reads it for monitoring.

The planner writes ``backlog.json`` in the folder of the query: ``events NAME`` is how many events of a source exist and are not
delivered, ``complete NAME`` a time (seconds since the epoch) up to which all events that existed then are delivered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from etl.api import Offset, Source
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.plan.frames import frame_sources
from etl.plan.query_plan import QueryPlan
from etl.spark.reports.totals import SourceLag, Totals
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_numbers, write_json

FILE = "backlog.json"

EVERY_SECONDS = 2.0
"""Seconds between two measurements: a broker may have to be asked."""

log = logging.getLogger("sluice.planner")


@dataclass
class BacklogMonitor:
    """The planner's part; ``sources`` of which the query reads."""

    path: Path
    sources: Mapping[str, Source]
    _due: float = 0.0
    _numbers: dict[str, float] = field(default_factory=dict)
    _candidates: dict[str, float] = field(default_factory=dict)
    """Source → when the micro-batch at work was planned, if it has all events that existed then."""

    def note(self, delivered: Mapping[str, Offset], planned: Mapping[str, Offset], calls: CallThread) -> None:
        """Measure between two micro-batches: all events before ``delivered`` are, the next ones end at ``planned``. What goes
        wrong concerns monitoring only, except that the run stops (RunStopping)."""
        for name, when in self._candidates.items():
            self._numbers[f"complete {name}"] = when
        self._candidates.clear()
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY_SECONDS
        for name, source in self.sources.items():
            if type(source).backlog is not Source.backlog and name in delivered:
                measure = partial(self._measure, name, source, delivered[name], planned.get(name, delivered[name]))
                try:
                    calls.run(measure)
                except RunStopping:
                    raise
                except Exception as error:
                    log.debug("the backlog of source %r is not known: %s", name, error)
        if self._numbers:
            with suppress(OSError):
                write_json(self.path, self._numbers)

    def _measure(self, name: str, source: Source, delivered: Offset, planned: Offset) -> None:
        now = time.time()
        events = source.backlog(delivered)
        if events is None:
            return
        self._numbers[f"events {name}"] = events
        if events == 0:
            self._numbers[f"complete {name}"] = now
        elif planned != delivered and source.backlog(planned) == 0:
            self._candidates[name] = now
        self._numbers.setdefault(f"complete {name}", now)


def read_lags(state: StateFolder, plan: QueryPlan, totals: Totals) -> None:
    """Take what the planner of a query has measured, and its watermark, into the totals; of several queries the one behind
    counts."""
    numbers = read_numbers(state.query(plan.name) / FILE)
    for leaf in frame_sources(plan.frame):
        watermark = getattr(leaf, "watermark", None)
        if watermark is not None and "event_time" in (known := read_numbers(state.query(plan.name) / "clock.json")):
            totals.watermarks[plan.name] = known["event_time"] - round(watermark.late_seconds * 1e6)
    for key in numbers:
        kind, _, name = key.partition(" ")
        if kind == "events":
            found = SourceLag(int(numbers[key]), numbers.get(f"complete {name}", time.time()))
            totals.lags[name, plan.name] = found
