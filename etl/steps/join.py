"""Pairs of events of two streams that have the same keys and are near in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field, WithJsonSchema

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
    format_duration,
    format_type,
    nearest,
    side_fields,
    united_fields,
    unknown_field,
    wider,
)
from etl.expressions import analyse, compile_expression
from etl.steps.heartbeats import ARRIVAL
from etl.steps.join_sides import JoinSide
from etl.steps.keyed_options import MICROSECOND

_TWO = 2

_ALL_TIME = 1 << 61
"""Microseconds: how much earlier a version may be without a bound."""


def _pairs(given: object) -> object:
    """The pairs of a name or a list of names, which both sides have."""
    names = [given] if isinstance(given, str) else given
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return {name: name for name in names} if is_list else given  # type: ignore[attr-defined]


_NAME = {"type": "string", "minLength": 1}

KeyPairs = Annotated[
    dict[FieldName, FieldName],
    BeforeValidator(_pairs),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                _NAME,
                {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True},
                {"type": "object", "additionalProperties": _NAME, "minProperties": 1},
            ]
        }
    ),
]
"""Fields that both sides have, or field of the left side → field of the right one."""


class Join(JoiningStep):
    """Pair the events of two streams that have the same keys and are near in time.

    It is the first step of a stream that reads two others, its sides: the left one is the first in `from`. A pair has the
    fields of both events, those of the right one with `prefix` in front where the left event has the name, too. It is given as
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

    State holds the events of both sides, of `inner` for as long as a match may come, of the other kinds for `before` and
    `after` together, in 16 parts by the hash of the keys, which has 128 bits. A key with many events on both sides gives as many
    pairs as their product. Exactly-once across restarts; other keys, times or another kind need a new state.

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
    where: Expression | None = Field(
        default=None, description="Further condition on the fields of a pair.", examples=["amount > limit"]
    )
    prefix: str = Field(
        default="right.",
        pattern=r"^[A-Za-z_@][A-Za-z0-9_@\-.]*$",
        description="What stands in front of the name of a right field that the left side has, too.",
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
        """Not two sides, names that are no inputs."""
        for side in ("left", "right"):
            name = getattr(self, side)
            if name is not None and name not in inputs:
                hint = nearest(name, inputs) or f"inputs of this stream are: {', '.join(inputs)}"
                yield Finding("unknown-from", f"{name!r} is no input of this stream", (side,), hint)
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
        return JoinSide(sides=sides, times=self._times, rows=self.united(inputs))

    @property
    def _times(self) -> tuple[str, str] | None:
        return (self.time, self.right_time or self.time) if self.time else None

    # ── Planning ──

    def check(self, incoming: Schema) -> Iterator[Finding]:
        """A place where there are no sides, keys that cannot be compared, times, bounds, the condition, names."""
        if SIDE not in incoming.names:
            hint = "begin a stream with it: {from: [a, b], steps: [{type: join, …}]}"
            yield Finding("join-sides", "a join is the first step of a stream, whose inputs are its sides", (), hint)
            return
        left, right = side_fields(incoming)
        yield from self._check_keys(left, right)
        yield from self._check_times(left, right)
        yield from self._check_bounds()
        yield from self._check_names(left, right)
        if self.where is not None:
            analysis = analyse(self.where, self._pair(left, right))
            yield from analysis.condition_findings_at("where")
            if not analysis.errors and analysis.spark_reason:
                message = f"the condition needs Spark, where joins do not run: {analysis.spark_reason}"
                yield Finding("bad-expression", message, ("where",), "compute it in a step in front of the join or behind it")

    def _check_keys(self, left: Schema, right: Schema) -> Iterator[Finding]:
        from etl.state.key_hash import is_key_type

        for names in self.on.items():
            unknown = [
                unknown_field(n, side, ("on",)) for n, side in zip(names, (left, right), strict=True) if n not in side.names
            ]
            yield from unknown[: len(set(names))]
            if unknown:
                continue
            types = left.field(names[0]).type, right.field(names[1]).type
            shown = " and ".join(format_type(type_) for type_ in types)
            if wider(*types) is None:
                message = f"key {names[0]!r} is {shown}, which are never equal"
                yield Finding("wrong-type", message, ("on",), "convert it on one side with a convert step")
            elif not all(map(is_key_type, types)):
                yield Finding("wrong-type", f"key {names[0]!r} is {shown}, which has no equality", ("on",), "use its members")

    def _check_times(self, left: Schema, right: Schema) -> Iterator[Finding]:
        if self.time is None and self.right_time is not None:
            yield Finding("missing-option", "right_time needs a time of the left side, too", ("right_time",), "give time")
        for side, name, option in zip((left, right), self._times or (), ("time", "right_time"), strict=False):
            path = (option,) if getattr(self, option) else ("time",)
            if name not in side.names:
                yield unknown_field(name, side, path)
            elif not format_type(side.field(name).type).startswith(("timestamp", "void")):
                message = f"event time {name!r} is {format_type(side.field(name).type)}, and no timestamp"
                yield Finding("wrong-type", message, path, "put a timestamp step in front that reads it")

    def _check_bounds(self) -> Iterator[Finding]:
        if self.within is not None and (self.before, self.after) != (None, None):
            other = "before" if self.before is not None else "after"
            yield Finding("one-of-two", f"within sets the same as {other}", (other,), "leave out within, or before and after")
        if self.match == "latest":
            for option in ("within", "after", "shift"):
                if getattr(self, option):
                    message = f"match: latest takes the right event before the left one, and {option} is for match: all"
                    yield Finding("one-of-two", message, (option,), "leave it out; before says how old a version may be")
            if self.kind not in ("inner", "left"):
                message = f"match: latest is for kind inner or left, and not for {self.kind}"
                yield Finding("one-of-two", message, ("kind",), "kind: left also gives left events without a version")
        elif (self.within, self.before, self.after) == (None, None, None):
            hint = "within: 10m; or before and after, for different times to both sides"
            yield Finding("missing-option", "nothing says how long events wait for a match", (), hint)

    def _check_names(self, left: Schema, right: Schema) -> Iterator[Finding]:
        names = [*left.names, *self._right_names(left, right).values()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            yield Finding("name-conflict", f"a pair would have two fields {twice!r}", ("prefix",), "choose another prefix")

    def _right_names(self, left: Schema, right: Schema) -> dict[str, str]:
        """Field of the right side → its name in a pair. A key of the same name on both sides is the left side's field."""
        same = {name for name, other in self.on.items() if name == other}
        return {n: self.prefix + n if n in left.names else n for n in right.names if n not in same}

    def _pair(self, left: Schema, right: Schema) -> Schema:
        """The fields of a pair."""
        types = {
            f.name: wider(f.type, right.field(f.name).type) or f.type if self._is_key(f.name, right) else f.type for f in left
        }
        types |= {new: right.field(name).type for name, new in self._right_names(left, right).items()}
        return pa.schema(list(types.items()))

    def _is_key(self, name: str, right: Schema) -> bool:
        return self.on.get(name) == name and name in right.names

    def fields(self, incoming: Schema) -> Schema:
        """The fields of a pair, or of left events."""
        left, right = side_fields(incoming)
        return left if self.kind in ("semi", "anti") else self._pair(left, right)

    def event_time(self) -> tuple[str, timedelta]:
        """That of each row's side, and lateness; time of reading is never late."""
        return (SIDE_TIME, self.late) if self.time else (ARRIVAL, timedelta(0))

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, events are given once their time is over on the clock."""
        if self.time or (self.match == "all" and self.kind in ("inner", "semi")):
            return self.idle
        return max(self.idle or timedelta(0), self.reach() + timedelta(seconds=1))

    def reach(self) -> timedelta:
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
        before, after = self._bounds
        times = {"time": " = ".join(self._times or (ARRIVAL,)), "before": str(before), "after": str(after)}
        return {"kind": self.kind, "match": self.match, **keys, **times, **fields}

    def notes(self, incoming: Schema) -> Iterator[str]:
        """How long events are kept."""
        before, after = (format_duration(max(bound, timedelta(0))) for bound in self._bounds)
        if self.match == "latest":
            kept = f"right events for {before}" if self.before is not None else "the last right event of each key"
            yield f"keeps {kept}, and left ones until the watermark passes them"
        elif self.kind == "inner":
            yield f"keeps left events for {after} and right ones for {before} of event time"
        else:
            yield f"keeps events of both sides for {format_duration(sum(self._bounds, timedelta(0)))} of event time or longer"
        if self.idle is None:
            yield "a silent side holds results and state of the other one: there is no idle"

    def operator(self, incoming: Schema) -> Operator:
        """Pairs of both sides in files."""
        from etl.state.joins.latest_join import LatestJoin
        from etl.state.joins.time_join import TimeJoin

        left, right = side_fields(incoming)
        pair = self._pair(left, right)
        before, after = (bound // MICROSECOND for bound in self._bounds)
        bounded = self.before is not None
        kind = partial(LatestJoin, bounded=bounded) if self.match == "latest" else TimeJoin
        return kind(
            incoming=incoming,
            fields=self.fields(incoming),
            pair=pair,
            right_names=self._right_names(left, right),
            on=self.on,
            kind=self.kind,
            time=self.event_time()[0],
            before=before if bounded or self.match == "all" else _ALL_TIME,
            after=after,
            where=compile_expression(self.where, pair) if self.where else None,
        )
