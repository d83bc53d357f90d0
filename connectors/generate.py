"""Made-up events from templates, for demonstrations, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.placeholders import Events, Template, TemplateError, draw, parse_template
from etl.api import OFFSET, Finding, Limit, Offset, Schema, Source, Split

BATCH_EVENTS = 32_768
SPLIT_EVENTS = 50_000
"""Fewest events that are worth a split of their own."""

ENDLESS_BOUNDED_EVENTS = 100_000
"""What a bounded run takes of a source without ``count``."""

NO_RATE_MICROS = 1000
"""Time that passes between two events where no rate says so."""

DEMO = "{syslog_time} {host} sshd[{int:1000:9999}]: Failed password for {user} from {ip} port {int:1024:65535} ssh2"


class GenerateSource(Source):
    """Makes up events from templates, the same ones for the same seed.

    An event depends on its number, ``seed`` and the moment the pipeline first started, which is part of the offset:
    a split read again gives the same events, so delivery is exactly as good as the sink's. Events leave in the order
    of their numbers; a split is a range of them.

    While following, ``rate`` is kept by the wall clock, and what fell due while the pipeline was stopped follows at
    once. A bounded run (``--once``) does not wait: it makes all of ``count``, or 100,000 events where there is none.

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
        default=None, gt=0, le=10_000_000, description="Events per second while following; none means as fast as possible."
    )
    count: int | None = Field(default=None, ge=0, description="Events in all; none means without end.")
    templates: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(DEMO,), min_length=1, description="What the text of an event looks like; one is drawn for each event."
    )
    weights: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        default=None, description="How often each template is drawn, relative to the others; none means equally often."
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Another seed makes other events.")

    def check(self) -> Iterable[Finding]:
        """Unknown placeholders, bad arguments, stray braces, a wrong number of weights."""
        for number, text in enumerate(self.templates):
            try:
                parse_template(text)
            except TemplateError as error:
                yield Finding("bad-template", str(error), ("templates", number), error.hint, at=error.at)
        if self.weights is not None and len(self.weights) != len(self.templates):
            message = f"{len(self.weights)} weights for {len(self.templates)} templates; each template needs one"
            yield Finding("weights-mismatch", message, ("weights",))

    def fields(self) -> Schema:
        """``message``."""
        return pa.schema([("message", pa.string())])

    def start(self) -> Offset:
        """Event 0, and now as the first start."""
        return {"event": 0, "started": time.time_ns() // 1000}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """As far as count, rate and limit allow."""
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
        """With a ``count``, when it is reached."""
        return self.count is not None and offset["event"] >= self.count

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal ranges of event numbers."""
        first, last = start["event"], end["event"]
        parts = max(1, min(parallelism, (last - first) // SPLIT_EVENTS))
        edges = [first + (last - first) * part // parts for part in range(parts + 1)]
        return [Split("0", a, b, start["started"]) for a, b in pairwise(edges) if a < b]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's events in batches."""
        templates = [parse_template(text) for text in self.templates]
        for first in range(split.start, split.end, BATCH_EVENTS):
            events = self._events(first, min(first + BATCH_EVENTS, split.end), split.detail)
            message = _mixed(templates, self.weights, events)
            yield pa.RecordBatch.from_arrays([message, pa.array(events.numbers)], names=["message", OFFSET])

    def _events(self, first: int, last: int, started: int) -> Events:
        import numpy as np

        numbers = np.arange(first, last, dtype=np.int64)
        if self.rate is None:
            times = started + numbers * NO_RATE_MICROS
        else:
            times = started + (numbers * (1_000_000 / self.rate)).astype(np.int64)
        return Events(numbers, times, self.seed)

    def _typical_bytes(self, started: int) -> int:
        """Mean size of the first events, at least 1."""
        message = next(self.read(Split("0", 0, 64, started))).column(0)
        return max(1, message.nbytes // len(message))


def _mixed(templates: Sequence[Template], weights: Sequence[float] | None, events: Events) -> pa.StringArray:
    """Each event's text by the template drawn for it."""
    if len(templates) == 1:
        return templates[0].render(events, slot=1)
    import numpy as np

    drawn = _drawn(len(templates), weights, events)
    order = np.argsort(drawn, kind="stable")
    bounds = np.searchsorted(drawn[order], np.arange(len(templates) + 1))
    parts = [
        template.render(events.take(order[bounds[k] : bounds[k + 1]]), slot=1 + 1000 * k) for k, template in enumerate(templates)
    ]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(place))


def _drawn(count: int, weights: Sequence[float] | None, events: Events) -> Any:
    import numpy as np

    shares = np.cumsum(np.asarray(weights or [1.0] * count, dtype=np.float64))
    return np.searchsorted(shares / shares[-1], draw(events, 0) / 2.0**64, side="right").clip(0, count - 1)
