"""Pairs of events of two streams that have the same keys and are near in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import (
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
    nearest,
    side_fields,
    side_keys,
    united_fields,
    with_changes,
)
from etl.steps.heartbeats import ARRIVAL
from etl.steps.joining.checks import join_findings
from etl.steps.joining.join_fields import JoinedFields, KeyPairs, joined_key
from etl.steps.joining.sides import JoinSide
from etl.steps.option_checks import idle_by_clock

if TYPE_CHECKING:
    pass

_TWO = 2


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

    A pair for which `where` cannot be computed, such as a division by zero, does not meet it, and is a dead letter with the
    code ``where-failed``, once.

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
        """Find a join without sides, keys that cannot be compared, and wrong times, bounds, conditions and names."""
        if SIDE not in incoming.names:
            hint = "begin a stream with it: {from: [a, b], steps: [{type: join, …}]}"
            yield Finding("join-sides", "a join is the first step of a stream, whose inputs are its sides", (), hint)
            return
        yield from join_findings(self, self.joined(incoming))

    def joined(self, incoming: Schema) -> JoinedFields:
        """The fields of pairs."""
        return JoinedFields(self.on, self.prefix, *side_fields(incoming))

    def takes_changes(self) -> bool:
        """Whether results are a changelog, too."""
        return self.changelog

    def fields(self, incoming: Schema) -> Schema:
        """The fields of a pair, or of left events."""
        pair = self.joined(incoming)
        fields = pair.left if self.kind in ("semi", "anti") else pair.schema
        return with_changes(fields, joined_key(self, pair, side_keys(incoming))) if self.changelog else fields

    def event_time(self) -> tuple[str, timedelta]:
        """That of each row's side, and lateness; time of reading is never late."""
        return (SIDE_TIME, self.late) if self.time else (ARRIVAL, timedelta(0))

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, events are given once their time is over on the clock."""
        if self.changelog:
            return None
        if self.time or (self.match == "all" and self.kind in ("inner", "semi")):
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """How long an event waits: by time of reading, pairs and semi-joins wait for nothing but the other event, so that the end
        of all sources, which passes all that waits, does not make state older than it is."""
        waits = self.match != "latest" and (self.time is not None or self.kind not in ("inner", "semi"))
        return max(*self.bounds, timedelta(0)) if waits else timedelta(0)

    @property
    def bounds(self) -> tuple[timedelta, timedelta]:
        """How much earlier and later than the left event the right one may be."""
        zero = timedelta(0)
        before, after = self.within or self.before or zero, self.within or self.after or zero
        return before + self.shift, after - self.shift

    # ── Running on the state lane ──

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Kind, keys with their types, times, bounds, and the fields of events."""
        from etl.steps.joining.operators import remembered_options

        return remembered_options(self, incoming)

    def notes(self, incoming: Schema) -> Iterator[str]:
        """How long events are kept."""
        from etl.steps.joining.operators import state_notes

        return state_notes(self)

    def operator(self, incoming: Schema) -> Operator:
        """Pairs of both sides in files."""
        from etl.steps.joining.operators import join_operator

        return join_operator(self, incoming)
