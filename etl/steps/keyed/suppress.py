"""One event of each key in a time, and how many were suppressed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import OPTIONAL, Duration, FieldName, Finding, Operator, Schema, format_duration, format_type, visible, with_fields
from etl.steps.keyed.options import MICROSECOND, KeyedStep
from etl.steps.option_checks import idle_by_clock, length_finding, taken_name, unused_option


class Suppress(KeyedStep):
    """Pass one event of each key in a time, such as an alert, and say in the next how many were suppressed.

    An event passes at once if none of its key has passed whose time is less than ``within`` earlier, or later where events are
    out of order; the others are suppressed. The next event that passes has their number in the field ``count``, the
    first one 0. Within a micro-batch events are decided in the order of their times, those of the same time in the order in
    which they were read.

    If no event of the key comes when the time is over, its number of suppressed events is known for another ``remember``
    and is lost then. With ``summary: is_summary`` it is given instead as soon as the watermark has passed the end of the time,
    or at most a sixteenth of ``within`` later: in an event that is the last one that was suppressed, has their number in
    ``count``, and true in the field ``is_summary``, which is false in events that pass at once.

    The watermark is the latest time of **all** events read, less ``late``; events older than it are late: they are dropped
    and counted. Events without a time go to the dead letters. Without ``time`` the time of reading counts.

    State is a row with the keys for each key and micro-batch in which it occurs, with ``summary`` also the last suppressed
    event; files are merged to the last row of each key. It is kept for ``within``, that of keys with suppressed events also
    for ``remember`` (not with ``summary``), and up to a quarter longer. It is divided into 16 parts by the hash of the keys,
    which has 128 bits. Exactly-once across restarts; other keys, another ``within`` or ``remember`` need a new state, and so does
    adding or leaving out ``summary``.

    ```yaml
    type: suppress
    keys: [rule_name, host.name]
    time: timestamp
    within: 1h
    ```
    """

    type: Literal["suppress"] = "suppress"
    within: Duration = Field(description="How long after an event those of its key are suppressed.", examples=["1h"])
    count: FieldName = Field(default="suppressed", description="New field with the number of events suppressed before this one.")
    remember: Duration = Field(
        default=timedelta(days=1), description="How long after that the number of suppressed events is known for the next event."
    )
    summary: FieldName | None = Field(
        default=None,
        description="New field that is true in events that sum up a time which is over; without it there are no such events.",
        examples=["is_summary"],
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which summaries are given; none means they wait."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, times that are not positive, names that are taken, options without effect."""
        yield from super().check(incoming)
        yield from length_finding("within", self.within)
        yield from length_finding("remember", self.remember)
        names = visible(incoming).names
        yield from taken_name(self.count, names, ("count",))
        if self.summary is not None:
            yield from taken_name(self.summary, [*names, self.count], ("summary",))
        if self.idle is not None and self.summary is None:
            yield unused_option(
                "idle", "no summary waits that idle could let pass", "leave out idle, or give summary: is_summary"
            )
        if "remember" in self.model_fields_set and self.summary is not None:
            message = "the number of suppressed events is in summaries, and not remembered after them"
            yield unused_option("remember", message, "leave out remember, or summary")

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, the count, the mark of summaries."""
        marks = {} if self.summary is None else {self.summary: pa.bool_()}
        return with_fields(visible(incoming), {self.count: pa.int64(), **marks})

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading summaries are given once their time is over on the clock."""
        if self.time or self.summary is None:
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """How long a summary waits."""
        return timedelta(0) if self.summary is None else self.within * 17 / 16

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What is kept, and how long."""
        event = " and its last suppressed event" if self.summary else ""
        longer = "" if self.summary else f", and {format_duration(self.remember)} longer where events were suppressed"
        yield f"keeps a row of each key{event}, until the watermark is {format_duration(self.within)} after it passed{longer}"

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time and lengths; the fields of events in summaries."""
        settings = {
            "within": str(self.within),
            "remember": None if self.summary else str(self.remember),
            "summary": bool(self.summary),
        }
        events = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in visible(incoming)} if self.summary else {}
        return {**super().remembered(incoming), **settings, **events}

    def operator(self, incoming: Schema) -> Operator:
        """One event of each key in a time."""
        from etl.state.keyed.suppressed_events import SuppressedEvents

        time, lengths = self.event_time()[0], (self.within // MICROSECOND, self.remember // MICROSECOND)
        return SuppressedEvents(self.fields(incoming), self.keys, time, *lengths, self.count, self.summary)
