"""One event of several with the same keys: the first, or the last, within a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import OPTIONAL, Duration, FieldName, Finding, Operator, Schema, format_duration, format_type, visible, with_fields
from etl.steps.keyed.options import MICROSECOND, KeyedStep
from etl.steps.option_checks import idle_by_clock, length_finding, taken_name, unused_option


class Dedupe(KeyedStep):
    """Pass one event of each key within a time, and drop its repeats.

    Of ``keep: first`` each event passes at once, unless one of its key has passed whose time is less than ``within``
    earlier, or later where events are out of order. So two events that pass are never less than ``within`` apart, and
    repeats do not extend the time: a key that repeats all day passes once each ``within``. Within a micro-batch events
    are decided in the order of their times, those of the same time in the order in which they were read.

    With ``keep: last``, or with ``count``, events wait. A span begins at the first event of a key that is in no earlier
    span, and lasts ``within``; when the watermark has passed its end, at most a sixteenth of ``within`` later, its last
    or first event passes, of several with the same time that with the largest or smallest offset. ``count`` is the number
    of events in the span. Late events aside, the result does not depend on the order in which events are read.

    The watermark is the latest time of **all** events read, less ``late``; events older than it are late: they are dropped
    and counted. Events without a time go to the dead letters. Without ``time`` the time of reading counts.

    State of ``keep: first`` is 32 bytes for each event that passed, until the watermark is ``within`` later. That of the
    others is all events that the watermark has not passed, and a row with an event for each open span, another one for each
    sixteenth of ``within`` in which the span has events; files are merged to the last ones. A run looks up the keys that have
    events, and writes no others. State is divided into 16 parts by the hash of the keys, which has 128 bits: two keys are taken
    for one with a probability of 10^-38. Exactly-once across restarts; other keys or another ``within`` need a new state.

    ```yaml
    type: dedupe
    keys: [source.ip, user_name]
    time: timestamp
    within: 10m
    ```
    """

    type: Literal["dedupe"] = "dedupe"
    within: Duration = Field(description="How long after an event its repeats are dropped.", examples=["10m"])
    keep: Literal["first", "last"] = Field(
        default="first", description="Whether the first event passes, at once, or the last one, when the time is over."
    )
    count: FieldName | None = Field(
        default=None, description="New field with the number of events that one stands for; events then wait for their repeats."
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which waiting events pass; none means they wait."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, a time that is not positive, a count in place of a field."""
        yield from super().check(incoming)
        yield from length_finding("within", self.within)
        if self.count is not None:
            yield from taken_name(self.count, incoming.names, ("count",))
        if self.idle is not None and not self._waits:
            hint = "leave out idle, or give keep: last or count"
            yield unused_option("idle", "no event waits that idle could let pass", hint)

    @property
    def _waits(self) -> bool:
        """Whether events pass when their time is over."""
        return self.keep == "last" or self.count is not None

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, and the count."""
        fields = visible(incoming)
        return fields if self.count is None else with_fields(fields, {self.count: pa.int64()})

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, events pass once their time is over on the clock."""
        if self.time or not self._waits:
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """How long an event waits."""
        return self.within * 17 / 16 if self._waits else timedelta(0)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What is kept, and how long."""
        if self._waits:
            span = f"span of {format_duration(self.within)}"
            yield f"keeps the {self.keep} event of each key in a {span}, until the watermark has passed the span"
        else:
            yield f"keeps 32 bytes for each event that passed, until the watermark is {format_duration(self.within)} later"

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time and length; the fields of events that wait."""
        fields = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in visible(incoming)} if self._waits else {}
        settings = {"keep": self.keep, "waits": "a row of each span" if self._waits else False, "within": str(self.within)}
        return {**super().remembered(incoming), **settings, **fields}

    def operator(self, incoming: Schema) -> Operator:
        """The first event at once, or one event of each span."""
        from etl.state.keyed.first_events import FirstEvents
        from etl.state.keyed.span_events import SpanEvents

        within, time = self.within // MICROSECOND, self.event_time()[0]
        if not self._waits:
            return FirstEvents(self.fields(incoming), self.keys, time, within)
        return SpanEvents(self.fields(incoming), self.keys, time, True, within, self.keep == "last", self.count)
