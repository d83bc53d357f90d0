"""How far the sources of a query are behind: the planner measures it every few seconds, and the driver reads it for monitoring.

The planner writes ``backlog.json`` in the folder of the query: ``events NAME`` and ``bytes NAME`` are what of a source exists and
is not delivered, ``notifications NAME`` how many messages of a queue announce it, ``complete NAME`` a time (seconds since the
epoch) up to which all events that existed then are delivered. A source knows events or bytes; the other number is estimated by
the mean size of the query's events so far.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path

from etl.api import Backlog, Offset, Source
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.delivery.driver_calls import HungCallError
from etl.plan.frames import frame_sources
from etl.plan.query_plan import QueryPlan
from etl.spark.reports.totals import SourceLag, Totals
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_numbers, write_json

FILE = "backlog.json"

PACE_FILE = "pace.json"
"""Beside it: the speed of the query and the mean size of its events."""

EVERY_SECONDS = 2.0
"""Seconds between two measurements: each may send a request to a broker."""

log = logging.getLogger("sluice.planner")


@dataclass
class BacklogMonitor:
    """The planner's part; ``sources`` of which the query reads."""

    path: Path
    sources: Mapping[str, Source]
    _due: float = 0.0
    _numbers: dict[str, float] = field(default_factory=dict)
    _candidates: dict[str, float] = field(default_factory=dict)
    """Source → when the current micro-batch was planned, if it has all events that existed then."""

    def note(self, delivered: Mapping[str, Offset], planned: Mapping[str, Offset], calls: CallThread) -> None:
        """Measure between two micro-batches: all events before ``delivered`` are, the next ones end at ``planned``. What goes
        wrong concerns monitoring only, except that the run stops (RunStopping) or the source hangs (HungCallError)."""
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
                    calls.run(measure, f"`backlog` of source {name!r} ({source.type})")
                except (RunStopping, HungCallError):
                    raise
                except Exception as error:
                    log.debug("the backlog of source %r is not known: %s", name, error)
        if self._numbers:
            with suppress(OSError):
                write_json(self.path, self._numbers)

    def _measure(self, name: str, source: Source, delivered: Offset, planned: Offset) -> None:
        now = time.time()
        found = source.backlog(delivered)
        if found is None:
            return
        self._note_sizes(name, found)
        if found.is_empty:
            self._numbers[f"complete {name}"] = now
        elif planned != delivered and (rest := source.backlog(planned)) is not None and rest.is_empty:
            self._candidates[name] = now
        self._numbers.setdefault(f"complete {name}", now)

    def _note_sizes(self, name: str, found: Backlog) -> None:
        """Events and bytes; what is neither known nor can be estimated is left out."""
        mean = read_numbers(self.path.with_name(PACE_FILE)).get("event_bytes")
        events, size = found.events, found.bytes
        if events is None and size is not None and (mean or not size):
            events = ceil(size / mean) if mean else 0
        if size is None and events is not None and (mean or not events):
            size = round(events * mean) if mean else 0
        for kind, number in (("events", events), ("bytes", size), ("notifications", found.notifications)):
            if number is None:
                self._numbers.pop(f"{kind} {name}", None)
            else:
                self._numbers[f"{kind} {name}"] = number


def read_lags(state: StateFolder, plan: QueryPlan, totals: Totals) -> None:
    """Take what the planner of a query has measured, and its watermark, into the totals; of several queries the one behind
    counts."""
    numbers = read_numbers(state.query(plan.name) / FILE)
    for leaf in frame_sources(plan.frame):
        watermark = getattr(leaf, "watermark", None)
        if watermark is not None and "event_time" in (known := read_numbers(state.query(plan.name) / "clock.json")):
            totals.watermarks[plan.name] = known["event_time"] - round(watermark.late_seconds * 1e6)
    for key, complete in numbers.items():
        kind, _, name = key.partition(" ")
        if kind == "complete":
            events, size, notifications = (_whole(numbers.get(f"{one} {name}")) for one in ("events", "bytes", "notifications"))
            totals.lags[name, plan.name] = SourceLag(events, complete, size, notifications)


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
