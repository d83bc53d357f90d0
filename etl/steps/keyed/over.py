"""Running values of a key beside each of its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from etl.aggregates.checks import Aggregate, with_types
from etl.aggregates.running import check_running
from etl.api import (
    OPTIONAL,
    Duration,
    Expression,
    FieldName,
    Finding,
    Operator,
    Schema,
    change_key,
    format_duration,
    format_type,
    visible,
    with_changes,
    with_fields,
)
from etl.steps.heartbeats import ARRIVAL
from etl.steps.keyed.options import MICROSECOND, KeyedStep, bound_of_keys, bound_of_recomputed, ttl_findings
from etl.steps.option_checks import length_finding, taken_name, unused_option

if TYPE_CHECKING:
    from etl.state.keyed.time_to_live import TimeToLive
    from etl.state.over.functions import RunningAggregate


class Over(KeyedStep):
    """Add values to each event that are computed from it and the events of its key before it, as SQL's OVER does.

    The events that count are those before it and itself: of ``within: 5m`` those that are less than five minutes older,
    of ``rows: 10`` the last ten, of both options the last ten that are not older; without them all since the state began.
    Events of a key are in the order of ``time``, and of the same time in that of their offsets in the source.

    With ``time`` an event passes when the watermark has passed its time: then no earlier one can come that still counts, and
    the result does not depend on the order in which events are read. The watermark is the latest time of **all** events
    read, less ``late``, so events wait about that long; those older than the watermark are late: they are dropped and
    counted. Events without a time go to the dead letters. Without ``time`` the time of reading counts: events pass at once,
    and those of a micro-batch are in the order of their offsets.

    | aggregate | gives | of null |
    | --- | --- | --- |
    | `count(*)`, `count(x)`, `count_if(condition)` | bigint | 0 |
    | `sum(x)`, `avg(x)` | bigint, double or decimal, as in `window`; sums of doubles may differ in their last digits | null |
    | `min(x)`, `max(x)` | as x | null |
    | `first(x)`, `last(x)` | the first or last x that is not null | null |
    | `lag(x)`, `lag(x, 3)` | x of the event before, or three before; null where that does not count | null |
    | `count(distinct x)` | bigint, exact | 0 |
    | `is_new(x)` | whether no earlier event has this x; true for the first event of a key | null |
    | `per_second(count(*))`, `per_second(sum(x))` | double: a count or sum, per second of ``within`` | as without |

    x is any expression over the event's fields that Arrow computes; ``filter (where condition)`` after an aggregate limits
    its events.

    State holds events that wait, and of those that passed: with ``within`` the values that aggregates use, until the watermark
    is ``within`` later, and up to a quarter longer; with ``rows`` those of the last events of each key; without both one
    row for each key, as many rows as `lag` looks back, and one for each value that `is_new` or `count(distinct x)` has found.
    Without ``within`` the state of a key is kept for ever, unless there is a ``ttl``: it is removed when the watermark is that
    much later than its last event, or up to a quarter longer, and an event that comes ``ttl`` or more after the one of its key
    before is a first one, wherever micro-batches are cut. State is divided into 16 parts by the hash of the keys, which has 128
    bits. A micro-batch looks up its keys and reads no others. Exactly-once across restarts. Aggregates may be added and removed:
    a new one counts from then on. Other keys, ``time``, ``within``, ``rows`` or ``ttl`` need a new state.

    ```yaml
    type: over
    keys: [user_name]
    time: timestamp
    within: 5m
    aggregates:
      bytes_5m: sum(bytes)
      new_country: is_new(country)
      country_before: lag(country)
    ```
    """

    type: Literal["over"] = "over"
    aggregates: dict[FieldName, Expression] = Field(
        description="New fields and the aggregates they hold.", min_length=1, examples=[{"logins": "count(*)"}]
    )
    within: Duration | None = Field(
        default=None, description="Only events that are less than this older count; none means all.", examples=["5m"]
    )
    rows: int | None = Field(
        default=None,
        description="How many of the last events count, with the event itself; none means all.",
        ge=2,
        le=100_000,
    )
    changelog: bool = Field(
        default=False,
        description="Whether events may be replaced or removed later, and results are a changelog; all events of a key are kept.",
    )
    ttl: Duration | None = Field(
        default=None,
        description="Without `within`: how long after its last event the state of a key is removed; none means never.",
        examples=["7d"],
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which waiting events pass; none means they wait."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, bad aggregates, names that are taken."""
        yield from super().check(incoming)
        if self.within is not None:
            yield from length_finding("within", self.within)
        yield from ttl_findings(self.ttl, "within", self.within is not None)
        for name, aggregate in self._checked_aggregates(incoming).items():
            yield from (replace(finding, path=("aggregates", name)) for finding in aggregate.findings)
        for name in self.aggregates:
            yield from taken_name(name, incoming.names, ("aggregates", name))
        if self.changelog and self.time is None:
            hint = "give the time by which the events of a key are in order"
            yield Finding("missing-option", "running values of a changelog need a time", ("changelog",), hint)
        if self.idle is not None and self.time is None:
            yield unused_option("idle", "no event waits that idle could let pass", "leave out idle, or give a time")

    def takes_changes(self) -> bool:
        """Whether results are recomputed."""
        return self.changelog

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields and the aggregates."""
        fields = with_fields(visible(incoming), {name: one.type for name, one in self._checked_aggregates(incoming).items()})
        return with_changes(fields, change_key(incoming)) if self.changelog else fields

    def event_time(self) -> tuple[str, timedelta]:
        """That of other keyed steps; rows of a changelog have the time of reading, because old ones may be replaced."""
        return (ARRIVAL, timedelta(0)) if self.changelog else super().event_time()

    def idle_after(self) -> timedelta | None:
        """The option."""
        return self.idle

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What is kept, and how long."""
        if self.within is None:
            yield bound_of_keys(self.ttl)
        else:
            yield f"keeps the values of each event until the watermark is {format_duration(self.within)} later"
        if self.changelog:
            yield bound_of_recomputed()

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time and frame; each aggregate with the types of its fields; the fields of events that wait."""
        frame = {"within": None if self.within is None else str(self.within), "rows": self.rows}
        events = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in visible(incoming)} if self.time else {}
        aggregates = {
            f"{OPTIONAL}{name}": with_types(self.aggregates[name], one.fields, incoming)
            for name, one in self._checked_aggregates(incoming).items()
        }
        frame |= {} if self.ttl is None else {"ttl": str(self.ttl)}
        if self.changelog:
            return {**super().remembered(incoming), **frame, "changelog": self.time, **events}
        return {**super().remembered(incoming), **frame, **events, **aggregates}

    def operator(self, incoming: Schema) -> Operator:
        """Running values of the aggregates."""
        from etl.state.keyed.time_to_live import TimeToLive
        from etl.state.over.functions import running_aggregate
        from etl.state.over.running_values import RunningValues

        within = None if self.within is None else self.within // MICROSECOND
        aggregates = {name: running_aggregate(text, incoming, within) for name, text in self.aggregates.items()}
        time, waits = self.event_time()[0], self.time is not None
        ttl = TimeToLive(None if self.ttl is None or within else self.ttl // MICROSECOND)
        if self.changelog:
            return self._recomputing_operator(incoming, within, aggregates, ttl)
        return RunningValues(self.fields(incoming), self.keys, time, waits, within, self.rows, aggregates, ttl)

    def _recomputing_operator(
        self, incoming: Schema, within: int | None, aggregates: Mapping[str, RunningAggregate], ttl: TimeToLive
    ) -> Operator:
        """The running values of all events of keys with changes."""
        from etl.state.changes.recomputed_steps import RecomputedOver
        from etl.state.over.running_values import RunningValues

        fields, order_by, time = self.fields(incoming), self.time, self.event_time()[0]
        assert order_by is not None
        values = RunningValues(visible(fields), self.keys, order_by, False, within, self.rows, aggregates)
        key = change_key(incoming)
        return RecomputedOver(fields, incoming, self.keys, time, key, ttl, order_by=order_by, values=values)

    def _checked_aggregates(self, incoming: Schema) -> dict[str, Aggregate]:
        fields, bounded = visible(incoming), self.within is not None
        return {name: check_running(text, fields, bounded, self.rows) for name, text in self.aggregates.items()}
