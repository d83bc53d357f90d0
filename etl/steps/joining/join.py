"""Pairs of events of two streams that have the same keys and are near in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import (
    OPTIONAL,
    SIDE,
    SIDE_TIME,
    Duration,
    Expression,
    FieldName,
    Finding,
    JoiningStep,
    Operator,
    Schema,
    SideStep,
    change_key,
    format_duration,
    format_type,
    nearest,
    side_fields,
    side_keys,
    united_fields,
    with_changes,
)
from etl.expressions import compile_expression
from etl.steps.heartbeats import ARRIVAL
from etl.steps.joining.checks import join_findings
from etl.steps.joining.join_fields import JoinedFields, KeyPairs, joined_key
from etl.steps.joining.sides import JoinSide
from etl.steps.keyed.options import MICROSECOND
from etl.steps.option_checks import idle_by_clock

if TYPE_CHECKING:
    from etl.state.joins.limited_sides import SideLimit

_TWO = 2

_ALL_TIME = 1 << 61
"""Microseconds: how much earlier a version may be without a bound."""


class Join(JoiningStep):
    """Pair the events of two streams that have the same keys and are near in time.

    It is the first step of a stream that reads two others, its sides: the left one is the first in `from`. A pair has the
    fields of both events, those of the right one with `prefix` where the left event has the name, too. It is given as
    soon as both events have been read, in whatever order that is; an event is in as many pairs as it has matches. An event
    with a key that is null matches none, as in SQL.

    A right event matches if it is at most `before` earlier and `after` later than the left one; `within` sets both. Without
    `time` that is the time of reading, so that `within` is how long events wait for a match. Results of two windows match with
    `time: window_start` and `within: 0s`, and those of one window with the day before if it is both sides and `shift` is `1d`.

    | kind | gives | when |
    | --- | --- | --- |
    | `inner` | pairs | at once |
    | `left`, `right`, `full` | also events of that side, or of both, that have no match; the other's fields are null | unmatched: when the watermark has passed the last time of a match |
    | `semi` | left events with a match, once | at once |
    | `anti` | left events without a match | when the watermark has passed the last time of a match |

    With `match: latest` right events are versions of their keys, such as a user's address from a time on: each left event is
    paired with the latest one that is not later, of equal times the one with the larger offset, when the watermark has
    passed it. A pair that does not meet `where` counts as no match. Without `before` a version stays until the next one.

    Each side has a watermark, the latest time of all events read for it, less `late`, and the smaller one counts; events
    older than it are late: they are dropped and counted. Without `idle` a silent side holds the results that wait, and the
    state, of the other one. Events without a time go to the dead letters. Late events aside, results do not depend on the order in which
    events are read.

    A key with many events on both sides gives as many pairs as their product: a million on each side, such as those of the user
    `-`, are more pairs than any sink takes. With `limit: 1000` each side takes the first 1,000 events of a key in each span of
    time; the others are dropped, and the run's summary counts them. A span is as long as an event may wait for a match
    on one side and on the other together (`within: 10m` makes it 20 minutes), one minute at least, and begins at its multiples
    since 1970 UTC. Results are those of a join of the events that are taken. Within a micro-batch the earliest ones are taken.

    With `changelog: true` all events match, whenever they are read, and either side may be a changelog. Results are a changelog:
    a row of a left event without a match is removed when a match comes, and given again when its last match is removed. State holds
    the rows of both sides for ever, or for `ttl`; after that results are what Flink's are: those of rows that have expired
    stay, and are not changed any more. There is no time, bound, `match: latest`, `shift` or `limit`.

    State holds the events of both sides, of `inner` for as long as a match may come, of the other kinds for `before` and
    `after` together, in 16 parts by the hash of the keys, which has 128 bits. With `limit` all are kept for a span, and a key has
    three times as many on each side at most, unless `late` is longer or one side is ahead. With `match: latest`
    versions that the watermark has passed are removed when a later one replaces them; the last one of every key is kept for
    `before`, such as `90d`, and without it for ever. Exactly-once across restarts; other keys, times, another kind, or
    `limit` where there was none or the other way round need a new state, another number does not.

    ```yaml
    type: join
    on: [user_name]
    time: timestamp
    within: 10m
    ```
    """  # noqa: E501

    type: Literal["join"] = "join"
    left: str | None = Field(default=None, description="The input that is the left side; none means the first one in `from`.")
    right: str | None = Field(default=None, description="The input that is the right side; the same as left for a self-join.")
    kind: Literal["inner", "left", "right", "full", "semi", "anti"] = Field(
        default="inner", description="Whether events without a match are given, and of which side."
    )
    match: Literal["all", "latest"] = Field(
        default="all", description="Which right events a left one is paired with: all, or the latest before it, its version."
    )
    on: KeyPairs = Field(
        description="Fields that are equal in a pair: names that both sides have, or left field → right field.",
        examples=[["user_name"], {"client.ip": "source.ip"}],
    )
    time: FieldName | None = Field(
        default=None, description="Event time field of both sides, a timestamp; without it the time of reading counts."
    )
    right_time: FieldName | None = Field(default=None, description="Event time field of the right side, where its name differs.")
    within: Duration | None = Field(default=None, description="How far apart in time a pair may be.", examples=["10m"])
    before: Duration | None = Field(default=None, description="How much earlier than the left event the right one may be.")
    after: Duration | None = Field(default=None, description="How much later than the left event the right one may be.")
    shift: Duration = Field(
        default=timedelta(0),
        description="Time that is added to the right event's before both are compared: 1d compares with the day before.",
        examples=["1d"],
    )
    limit: int | None = Field(
        default=None,
        description="Events of a key that each side takes in a span of time, of the longest wait for a match; none means all.",
        ge=1,
        examples=[1000],
    )
    where: Expression | None = Field(
        default=None, description="Further condition on the fields of a pair.", examples=["amount > limit"]
    )
    changelog: bool = Field(
        default=False,
        description="Whether all events match for ever, or for a `ttl`, rows of the sides may be replaced and removed later, and "
        "results are a changelog.",
    )
    ttl: Duration | None = Field(
        default=None,
        description="With `changelog`: how long a row is kept after it was read; none means for ever.",
        examples=["1d"],
    )
    prefix: str = Field(
        default="right.",
        pattern=r"^[A-Za-z_@][A-Za-z0-9_@\-.]*$",
        description="Prefix of the name of a right field that the left side has, too.",
    )
    late: Duration = Field(
        default=timedelta(seconds=10), description="How far behind the latest event time an event may come and still count."
    )
    idle: Duration | None = Field(
        default=None,
        description="Silence of a side after which nothing waits for it, and of both after which waiting events are given.",
    )

    # ── Sides ──

    def check_inputs(self, inputs: Mapping[str, Schema]) -> Iterator[Finding]:
        """Not two sides, names that are not inputs."""
        for side in ("left", "right"):
            name = getattr(self, side)
            if name is not None and name not in inputs:
                hint = nearest(name, inputs) or f"inputs of this stream are: {', '.join(inputs)}"
                yield Finding("unknown-from", f"{name!r} is not an input of this stream", (side,), hint)
        if len(inputs) > _TWO:
            hint = "join two of them, and join the result with the next in a stream of its own"
            yield Finding("join-sides", f"a join has two sides, and its stream reads {len(inputs)} others", (), hint)
        elif len({*self._sides(inputs)}) != len(inputs):
            unused = ", ".join(name for name in inputs if name not in self._sides(inputs))
            yield Finding("join-sides", f"{unused} is neither side of the join", (), "name it as left or right, or not in from")
        elif len(inputs) == 1 and not (self.left and self.right):
            hint = "write from: [a, b]; for a join of a stream with itself name it as left and as right"
            yield Finding("join-sides", "a join has two sides, and its stream reads one other", (), hint)

    def _sides(self, inputs: Iterable[str]) -> tuple[str, str]:
        """The names of the left and the right input."""
        names = list(inputs)
        given = {side: side if side in names else None for side in (self.left, self.right)}
        left = given[self.left] or next((name for name in names if name != self.right), names[0])
        return left, given[self.right] or next((name for name in names if name != left), left)

    def united(self, inputs: Mapping[str, Schema]) -> Schema:
        """A marker of the side, the event time, the fields of both sides."""
        nothing = pa.schema([])
        left, right = (inputs.get(name, nothing) for name in self._sides(inputs)) if inputs else (nothing, nothing)
        return united_fields(left, right, self.time is not None)

    def side_rows(self, name: str, inputs: Mapping[str, Schema]) -> SideStep:
        """Rows of one side, or of both."""
        sides = tuple(number for number, side in enumerate(self._sides(inputs)) if side == name)
        return JoinSide(sides=sides, times=self.times, rows=self.united(inputs))

    @property
    def times(self) -> tuple[str, str] | None:
        """The event time fields of both sides."""
        return (self.time, self.right_time or self.time) if self.time else None

    # ── Planning ──

    def check(self, incoming: Schema) -> Iterator[Finding]:
        """A place where there are no sides, keys that cannot be compared, times, bounds, the condition, names."""
        if SIDE not in incoming.names:
            hint = "begin a stream with it: {from: [a, b], steps: [{type: join, …}]}"
            yield Finding("join-sides", "a join is the first step of a stream, whose inputs are its sides", (), hint)
            return
        yield from join_findings(self, self._joined(incoming))

    def _joined(self, incoming: Schema) -> JoinedFields:
        return JoinedFields(self.on, self.prefix, *side_fields(incoming))

    def takes_changes(self) -> bool:
        """Whether results are a changelog, too."""
        return self.changelog

    def fields(self, incoming: Schema) -> Schema:
        """The fields of a pair, or of left events."""
        pair = self._joined(incoming)
        fields = pair.left if self.kind in ("semi", "anti") else pair.schema
        return with_changes(fields, joined_key(self, pair, side_keys(incoming))) if self.changelog else fields

    def event_time(self) -> tuple[str, timedelta]:
        """That of each row's side, and lateness; time of reading is never late."""
        return (SIDE_TIME, self.late) if self.time else (ARRIVAL, timedelta(0))

    def _changing(self, incoming: Schema) -> Operator:
        from etl.state.changes.changing_join import ChangingJoin, key_names
        from etl.state.keyed.time_to_live import TimeToLive

        pair, fields = self._joined(incoming), self.fields(incoming)
        where = compile_expression(self.where, pair.schema) if self.where else None
        ttl = TimeToLive(None if self.ttl is None else self.ttl // MICROSECOND)
        return ChangingJoin(
            fields,
            incoming,
            key_names(len(self.on)),
            ARRIVAL,
            change_key(fields),
            ttl,
            pair=pair.schema,
            right_names=pair.right_names,
            on=self.on,
            kind=self.kind,
            where=where,
        )

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, events are given once their time is over on the clock."""
        if self.changelog:
            return None
        if self.time or (self.match == "all" and self.kind in ("inner", "semi")):
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    @property
    def _span_of_limit(self) -> timedelta:
        """How long events of both sides wait for a match, together."""
        return max(sum((max(bound, timedelta(0)) for bound in self._bounds), timedelta(0)), timedelta(minutes=1))

    def max_delay(self) -> timedelta:
        """How long an event waits."""
        return timedelta(0) if self.match == "latest" else max(*self._bounds, timedelta(0))

    @property
    def _bounds(self) -> tuple[timedelta, timedelta]:
        zero = timedelta(0)
        before, after = self.within or self.before or zero, self.within or self.after or zero
        return before + self.shift, after - self.shift

    # ── Running on the state lane ──

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Kind, keys with their types, times, bounds, and the fields of events."""
        left, right = side_fields(incoming)
        keys = {
            f"key {name} = {other}": f"{format_type(left.field(name).type)}, {format_type(right.field(other).type)}"
            for name, other in self.on.items()
        }
        fields = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in united_fields(left, right, timed=False)}
        if self.changelog:
            ttl = {} if self.ttl is None else {"ttl": str(self.ttl)}
            return {"kind": self.kind, "match": "changelog", **keys, **ttl, **fields}
        before, after = self._bounds
        times = {"time": " = ".join(self.times or (ARRIVAL,)), "before": str(before), "after": str(after)}
        limited = {"limit": "yes"} if self._side_limit else {}
        return {"kind": self.kind, "match": self.match, **keys, **times, **limited, **fields}

    def notes(self, incoming: Schema) -> Iterator[str]:
        """How long events are kept."""
        if self.changelog:
            kept = "for ever" if self.ttl is None else f"for {format_duration(self.ttl)} after it was read, or a quarter longer"
            yield f"keeps each row of both sides {kept}"
            return
        before, after = (format_duration(max(bound, timedelta(0))) for bound in self._bounds)
        if self.match == "latest":
            for_ever = "the last right event of every key for ever (before removes older ones)"
            kept = f"right events for {before}" if self.before is not None else for_ever
            yield f"keeps {kept}, and left ones until the watermark passes them"
        elif self.limit is not None:
            yield f"keeps events of both sides for {format_duration(self._span_of_limit)} of event time"
        elif self.kind == "inner":
            yield f"keeps left events for {after} and right ones for {before} of event time"
        else:
            yield f"keeps events of both sides for {format_duration(sum(self._bounds, timedelta(0)))} of event time or longer"
        if self.match == "all":
            yield self._bound_of_keys()
        if self.idle is None:
            yield "a silent side holds results and state of the other one: there is no idle"

    @property
    def _side_limit(self) -> SideLimit | None:
        from etl.state.joins.limited_sides import SideLimit

        if self.limit is None or self.match == "latest":
            return None
        return SideLimit(self.limit, self._span_of_limit // MICROSECOND)

    def _bound_of_keys(self) -> str:
        if self.limit is None:
            return "takes any number of events of a key, and gives as many pairs as their product: limit bounds them"
        span = format_duration(self._span_of_limit)
        return f"takes at most {self.limit:,} events of a key on each side in {span}, and drops and counts the others"

    def operator(self, incoming: Schema) -> Operator:
        """Pairs of both sides in files."""
        if self.changelog:
            return self._changing(incoming)
        from etl.state.joins.latest_join import LatestJoin
        from etl.state.joins.time_join import TimeJoin

        pair = self._joined(incoming)
        before, after = (bound // MICROSECOND for bound in self._bounds)
        bounded = self.before is not None
        kind = partial(LatestJoin, bounded=bounded) if self.match == "latest" else TimeJoin
        return kind(
            incoming=incoming,
            fields=self.fields(incoming),
            pair=pair.schema,
            right_names=pair.right_names,
            on=self.on,
            kind=self.kind,
            time=self.event_time()[0],
            before=before if bounded or self.match == "all" else _ALL_TIME,
            after=after,
            limit=self._side_limit,
            where=compile_expression(self.where, pair.schema) if self.where else None,
        )
