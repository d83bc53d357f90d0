"""The step `throttle`: limits the events of each key in each span of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from etl.api import Duration, Finding, Operator, Schema, format_duration
from etl.steps.keyed.options import MICROSECOND, KeyedStep
from etl.steps.option_checks import length_finding


class Throttle(KeyedStep):
    """Pass the first events of each key in each span of time, up to a limit, and drop the others.

    Spans are ``every`` long and begin at its multiples since 1970 UTC, so at a span's end up to twice the limit may pass
    in a short time. Events pass at once. Within a micro-batch the earliest pass; an event that is out of order passes if
    the limit of its span is not reached yet.

    The watermark is the latest time of **all** events read, less ``late``. Events whose span is over by the watermark are
    late: they are dropped and counted. Events without a time go to the dead letters. Without ``time`` the time of
    reading counts.

    State is 32 bytes for each key, span and micro-batch in which events passed, until the span is over, and up to 15 spans
    longer. It is divided into 16 parts by the hash of keys and span, which has 128 bits. Exactly-once across restarts; other
    keys or another ``every`` need a new state, another ``limit`` does not.

    ```yaml
    type: throttle
    keys: [host.name, rule_name]
    time: timestamp
    limit: 100
    every: 1m
    ```
    """

    type: Literal["throttle"] = "throttle"
    limit: int = Field(description="Events of a key that pass in a span.", ge=1, examples=[100])
    every: Duration = Field(description="Length of a span.", examples=["1m"])

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, a length that is not positive."""
        yield from super().check(incoming)
        yield from length_finding("every", self.every)

    def max_delay(self) -> timedelta:
        """The length of a span: the watermark of what passes is the start of the span that the watermark is in."""
        return self.every

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What is kept, and how long."""
        span = f"span of {format_duration(self.every)}"
        yield f"keeps 32 bytes for each key and micro-batch in a {span}, until the watermark has passed 16 of them"

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time and length."""
        return {**super().remembered(incoming), "every": str(self.every)}

    def operator(self, incoming: Schema) -> Operator:
        """The first events of each key and span."""
        from etl.state.keyed.limited_events import LimitedEvents

        return LimitedEvents(self.fields(incoming), self.keys, self.event_time()[0], self.every // MICROSECOND, self.limit)
