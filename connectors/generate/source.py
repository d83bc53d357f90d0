"""Synthetic events from templates, for demonstrations, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.generate.event_templates import EventNumbers, Template, TemplateError, draw_random, parse_template
from etl.api import OFFSET, Finding, Limit, Offset, Schema, Source, Split

BATCH_EVENTS = 32_768
MIN_SPLIT_EVENTS = 50_000
"""Smallest number of events for which a split of its own is worth its cost."""

ENDLESS_BOUNDED_EVENTS = 100_000
"""Number of events of a bounded run without ``count``."""

NO_RATE_MICROS = 1000
"""Microseconds between two events without ``rate``."""

DEMO = "{syslog_time} {host} sshd[{int:1000:9999}]: Failed password for {user} from {ip} port {int:1024:65535} ssh2"


class GenerateSource(Source):
    """Generate events from templates; the same seed gives the same events.

    An event depends on its number, ``seed`` and the time of the pipeline's first start, which is part of the offset: a
    split that is read again gives the same events, so delivery is as good as the sink's. Events are in the order of their
    numbers; a split is a range of numbers.

    While following, ``rate`` follows the wall clock, and events that were due while the pipeline was stopped are generated
    immediately. A bounded run (``--once``) does not wait: it generates ``count`` events, or 100,000 without ``count``.

    Placeholders of a template: ``{i}`` the event's number; ``{now}`` (ISO 8601), ``{syslog_time}``, ``{http_time}``,
    ``{epoch}``, ``{epoch_millis}`` the event's time, which is the first start plus number / rate (a millisecond an
    event without a rate); ``{ip}``, ``{ipv6}``, ``{user}``, ``{host}``, ``{word}``, ``{method}``, ``{path}``,
    ``{status}``, ``{uuid}``; ``{int:1:100}`` (both ends included), ``{float:0:1}``, ``{hex:8}``,
    ``{choice:a|b|c}``. A brace itself is written ``{{`` or ``}}``.

    ```yaml
    type: generate
    rate: 100
    count: 1000
    templates:
      - '{now} {host} app: user={user} ip={ip} took {int:1:500} ms'
    ```
    """

    type: Literal["generate"] = "generate"
    rate: float | None = Field(
        default=None, gt=0, le=10_000_000, description="Events per second while following; without it as fast as possible."
    )
    count: int | None = Field(default=None, ge=0, description="Total number of events; without it endless.")
    templates: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(DEMO,), min_length=1, description="Templates of the event's text; one is chosen at random for each event."
    )
    weights: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        default=None, description="Relative frequency of each template; without it all are equal."
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Another seed gives other events.")

    def check(self) -> Iterable[Finding]:
        """Check placeholders, their arguments, braces, and the number of weights."""
        for number, text in enumerate(self.templates):
            try:
                parse_template(text)
            except TemplateError as error:
                yield Finding("bad-template", str(error), ("templates", number), error.hint, at=error.at)
        if self.weights is not None and len(self.weights) != len(self.templates):
            message = f"{len(self.weights)} weights for {len(self.templates)} templates; each template needs one"
            yield Finding("weights-mismatch", message, ("weights",))

    def fields(self) -> Schema:
        """Return ``message``."""
        return pa.schema([("message", pa.string())])

    def start(self) -> Offset:
        """Return event 0, and now as the first start."""
        return {"event": 0, "started": time.time_ns() // 1000}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end that count, rate and limit allow."""
        first = start["event"]
        ends = [first + max(1, limit.max_bytes // self._typical_bytes(start["started"]))]
        if self.count is not None:
            ends.append(self.count)
        elif limit.bounded:
            ends.append(first + ENDLESS_BOUNDED_EVENTS)
        if self.rate is not None and not limit.bounded:
            ends.append(int((time.time_ns() // 1000 - start["started"]) * self.rate / 1_000_000))
        if limit.max_events is not None:
            ends.append(first + limit.max_events)
        if limit.until is not None:
            ends.append(limit.until["event"])
        return {**start, "event": max(first, min(ends))}

    def ended(self, offset: Offset) -> bool:
        """Return whether ``count`` is reached."""
        return self.count is not None and offset["event"] >= self.count

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the event numbers into equal ranges."""
        first, last = start["event"], end["event"]
        parts = max(1, min(parallelism, (last - first) // MIN_SPLIT_EVENTS))
        edges = [first + (last - first) * part // parts for part in range(parts + 1)]
        return [Split("0", a, b, start["started"]) for a, b in pairwise(edges) if a < b]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Generate the split's events in batches."""
        templates = [parse_template(text) for text in self.templates]
        for first in range(split.start, split.end, BATCH_EVENTS):
            events = self._events(first, min(first + BATCH_EVENTS, split.end), split.detail)
            message = _render_mixed(templates, self.weights, events)
            yield pa.RecordBatch.from_arrays([message, pa.array(events.numbers)], names=["message", OFFSET])

    def _events(self, first: int, last: int, started: int) -> EventNumbers:
        import numpy as np

        numbers = np.arange(first, last, dtype=np.int64)
        if self.rate is None:
            times = started + numbers * NO_RATE_MICROS
        else:
            times = started + (numbers * (1_000_000 / self.rate)).astype(np.int64)
        return EventNumbers(numbers, times, self.seed)

    def _typical_bytes(self, started: int) -> int:
        """Return the mean size of the first events, at least 1."""
        message = next(self.read(Split("0", 0, 64, started))).column(0)
        return max(1, message.nbytes // len(message))


def _render_mixed(templates: Sequence[Template], weights: Sequence[float] | None, events: EventNumbers) -> pa.StringArray:
    """Render each event with the template chosen for it."""
    if len(templates) == 1:
        return templates[0].render(events, slot=1)
    import numpy as np

    chosen = _draw_templates(len(templates), weights, events)
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(len(templates) + 1))
    parts = [
        template.render(events.take(order[bounds[k] : bounds[k + 1]]), slot=1 + 1000 * k) for k, template in enumerate(templates)
    ]
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(position))


def _draw_templates(count: int, weights: Sequence[float] | None, events: EventNumbers) -> Any:
    import numpy as np

    shares = np.cumsum(np.asarray(weights or [1.0] * count, dtype=np.float64))
    return np.searchsorted(shares / shares[-1], draw_random(events, 0) / 2.0**64, side="right").clip(0, count - 1)
