"""The best events of each key, in each span of time or so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import (
    OPTIONAL,
    TIMESTAMP,
    Duration,
    Expression,
    FieldName,
    Finding,
    Operator,
    Schema,
    change_key,
    format_duration,
    format_type,
    is_changing,
    unknown_field,
    visible,
    with_changes,
    with_fields,
)
from etl.steps.keyed.options import (
    MICROSECOND,
    KeyedStep,
    bound_of_keys,
    bound_of_recomputed,
    ranking_findings,
    ttl_findings,
)
from etl.steps.option_checks import idle_by_clock, length_finding, taken_name, unused_option
from etl.steps.window import END, START


class Top(KeyedStep):
    """Pass the best events of each key in each span of time, with their ranks; or changes of the best events so far.

    Spans are ``size`` long and begin at its multiples since 1970 UTC. An event is ranked by the expression ``by``,
    the largest value first; events in which it is null are left out, or with ``nulls: smallest``
    ranked as the smallest. When the watermark has passed the end of a span, its best ``limit`` events of each key pass, the
    best ones first. Without ``keys`` all events of a span are compared.

    ``ties`` says which number an event gets that is as good as others, as in SQL: of the values 9, 9, 7
    ``row_number`` gives 1, 2, 3, where the earlier event comes first and of the same time that with the smaller
    offset; ``rank`` gives 1, 1, 3 and ``dense_rank`` 1, 1, 2. With the last two, all events pass whose number is at
    most ``limit``, which can be more events than that. With ``distinct`` an event passes only if it is the best one
    of its key and span with its values of these fields: the ten users with the largest transfers, not the ten largest
    transfers.

    Without ``size`` there is one ranking of all events of a key, and each change of it passes, with the field
    ``change``: `enter`, an event becomes one of the best; `update`, its subject was one already (with ``distinct``),
    and this event is better; `leave`, an event is none of the best any more; it comes before the event that replaces
    it, with a null rank. The rank is that of the moment; ranks of events that move up or down are not given. With
    ``time`` events are ranked when the watermark has passed their times, in the order of time, so that changes do not
    depend on the order in which events are read; without it at once. To hold the ranking in a database, write by the
    values of the subject and delete what leaves. An event that leaves has its own time, so later steps with state
    drop it as late. Ranks are row numbers.

    With ``changelog: true`` the whole rankings pass as a changelog, in which an event is given with its new rank when that
    changes; ranks are those of ``ties``.

    Results are the events, with ``size`` ``window_start`` and ``window_end`` of the span where events have no such
    fields yet, and the rank. After a `window` that counts, ``time: window_start`` with the window's ``size``, or its
    ``slide`` if it has one, ranks the results of each window: see the example.

    The watermark is the latest time of **all** events read, less ``late``. Events whose span is over by the watermark
    are late: they are dropped and counted. Events without a time go to the dead letters. Without ``time`` the time of
    reading counts. With ``idle`` the spans of a source that falls silent end.

    State holds the best events of each key in each span that is not over, from each task that has read some; without
    ``size`` the best events of each key, and events that wait. The former are kept for ever, unless there is a ``ttl``: an event
    that comes ``ttl`` or more after the last change of its key's ranking begins a new one, in which no event leaves that was in
    the one before; that is removed when the watermark is as far, or up to a quarter farther. Files are merged to the best ones.
    State is divided into 16 parts by the hash of keys and span, which has 128 bits. Exactly-once across restarts, and the
    result does not depend on the order in which events are read. Other options than ``late``, ``idle`` and ``rank``
    need a new state.

    ```yaml
    type: top
    time: window_start
    size: 10m
    by: failures
    limit: 3
    ```
    """

    type: Literal["top"] = "top"
    keys: tuple[FieldName, ...] = Field(
        default=(),
        description="Fields that two events of one key have in common, null is a value; without them all events are compared.",
        examples=[["host.name"]],
    )
    size: Duration | None = Field(
        default=None, description="Length of a span; none means all events, and that changes pass.", examples=["10m"]
    )
    by: Expression = Field(description="Expression over the event's fields by which events are ranked.", examples=["bytes"])
    limit: int = Field(default=10, description="The largest number that passes.", ge=1, le=100_000)
    order: Literal["descending", "ascending"] = Field(
        default="descending", description="Whether the largest value is the best one, or the smallest."
    )
    nulls: Literal["drop", "smallest"] = Field(
        default="drop",
        description="Whether events in which `by` is null are left out, or ranked as those with the smallest value.",
    )
    ties: Literal["row_number", "rank", "dense_rank"] = Field(
        default="row_number", description="The numbers of events with equal values, as SQL's functions of this name give them."
    )
    distinct: tuple[FieldName, ...] = Field(
        default=(), description="Fields of which each combination of values counts once in a span and key, with its best event."
    )
    rank: FieldName = Field(default="rank", description="New field for the number, 1 for the best event.")
    change: FieldName = Field(default="change", description="New field for what has changed: enter, update or leave.")
    then: dict[Expression, Literal["descending", "ascending"]] = Field(
        default={},
        description="Further expressions by which events are ranked whose values of `by` are equal, with the order of each.",
        examples=[{"timestamp": "ascending"}],
    )
    changelog: bool = Field(
        default=False,
        description="Without `size`: whether the rankings pass as a changelog, so that sinks and later steps replace and remove "
        "rows, instead of as events that say what has changed.",
    )
    ttl: Duration | None = Field(
        default=None,
        description="Without `size`: how long after its last change the ranking of a key is removed; none means never.",
        examples=["7d"],
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which open spans end and events that wait pass; none means never."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, a time that is not positive, values that have no order, a name that is taken."""
        yield from super().check(incoming)
        if self.size is not None:
            yield from length_finding("size", self.size)
        yield from ttl_findings(self.ttl, "size", self.size is not None)
        yield from self._check_by(incoming)
        for at, name in enumerate(self.distinct):
            if name not in incoming.names:
                yield unknown_field(name, incoming, ("distinct", at))
            elif pa.types.is_nested(incoming.field(name).type):
                shown = format_type(incoming.field(name).type)
                yield Finding(
                    "wrong-type", f"field {name!r} is {shown}, which is not compared", ("distinct", at), "use its members"
                )
        yield from self._check_changes()
        names = [*visible(incoming).names, START, END] if self.size else visible(incoming).names
        for option in ("rank",) if self.size or self.changelog else ("rank", "change"):
            yield from taken_name(getattr(self, option), names, (option,))

    def _check_changes(self) -> Iterator[Finding]:
        """What goes only with spans, or only without."""
        if self.size is None and self.ties != "row_number" and not self.changelog:
            hint = "leave out ties, give a size, or add changelog: true"
            yield Finding("unused-option", "ranks of all events so far are row numbers", ("ties",), hint)
        if self.then and not self.changelog:
            hint = "add changelog: true, or rank by an expression that differs"
            yield Finding("unused-option", "events of spans are ranked by one expression, as changes are", ("then",), hint)
        if self.changelog:
            yield from self._check_changelog()
        if self.size is None and self.change == self.rank:
            yield Finding("name-conflict", f"rank and change are both {self.rank!r}", ("change",), "give one another name")
        if self.size is not None and "change" in self.model_fields_set:
            yield unused_option("change", "best events of a span do not change", "leave out change, or size")

    def _check_changelog(self) -> Iterator[Finding]:
        """What does not go with a changelog."""
        for option in ("size", "time", "idle", "change"):
            if getattr(self, option) is not None and option in self.model_fields_set:
                message = f"{option} has no meaning for a changelog: rankings are those of all events read so far"
                yield Finding("unused-option", message, (option,), f"leave out {option}, or changelog")

    def _check_by(self, incoming: Schema) -> Iterator[Finding]:
        yield from ranking_findings(self.by, incoming, ("by",))
        for expression in self.then:
            yield from ranking_findings(expression, incoming, ("then", expression))

    def takes_changes(self) -> bool:
        """Whether results are a changelog, too."""
        return self.changelog

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, the edges of the span, the rank and the change."""
        fields = visible(incoming)
        if self.changelog:
            key = self.keys if self.limit == 1 else (*self.keys, self.rank)
            return with_changes(with_fields(fields, {self.rank: pa.int64()}), key if self.ties == "row_number" else None)
        if self.size is None:
            return with_fields(fields, {self.rank: pa.int64(), self.change: pa.string()})
        return with_fields(fields, {**dict.fromkeys(_edges(fields), TIMESTAMP), self.rank: pa.int64()})

    def idle_after(self) -> timedelta | None:
        """The option; spans of the time of reading end on the clock."""
        if self.time or self.size is None:
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """The length of a span."""
        return self.size or timedelta(0)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What is kept, and how long."""
        if self.size is None:
            yield bound_of_keys(self.ttl)
        else:
            span = f"span of {format_duration(self.size)}"
            yield f"keeps the best events of each key and {span}, until the watermark has passed the span"
        if self.changelog and is_changing(incoming):
            yield bound_of_recomputed()

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time and span; what is the best; the fields of events."""
        options = self.model_dump(mode="json", include={"size", "by", "limit", "order", "ties", "distinct"})
        options |= {} if self.nulls == "drop" else {"nulls": self.nulls}
        events = {f"{OPTIONAL}{field.name}": format_type(field.type) for field in visible(incoming)}
        options |= {} if self.ttl is None else {"ttl": str(self.ttl)}
        options |= {"then": self.then} if self.then else {}
        options |= {"changelog": "of changes" if is_changing(incoming) else "of events"} if self.changelog else {}
        return {**super().remembered(incoming), **options, **events}

    def operator(self, incoming: Schema) -> Operator:
        """The best events of each span and key, or changes of those so far."""
        from etl.aggregates.calls import TextPart
        from etl.state.aggregates.argument import read_argument
        from etl.state.changes.changing_best import ChangingBest
        from etl.state.changes.recomputed_steps import RecomputedBest
        from etl.state.keyed.time_to_live import TimeToLive
        from etl.state.top.best_of_spans import BestOfSpans
        from etl.state.top.best_rows import Ranking
        from etl.state.top.running_best import RunningBest

        known, fields, time = visible(incoming), self.fields(incoming), self.event_time()[0]
        values = [read_argument(text, TextPart(text, 0), None, known) for text in (self.by, *self.then)]
        by, *then = (one for one in values if not isinstance(one, str))
        assert len(then) == len(self.then), values
        further = tuple(order == "ascending" for order in self.then.values())
        ranking = Ranking(self.limit, self.ties, self.order == "ascending", self.distinct, self.nulls == "smallest", further)
        if self.size is None:
            ttl = TimeToLive(None if self.ttl is None else self.ttl // MICROSECOND)
            waits = self.time is not None
            if self.changelog and is_changing(incoming):
                key, best = change_key(fields), (by, *then)
                return RecomputedBest(fields, incoming, self.keys, time, key, ttl, by=best, ranking=ranking, rank=self.rank)
            if self.changelog:
                return ChangingBest(fields, self.keys, time, False, by, ranking, self.rank, self.change, ttl, tuple(then))
            return RunningBest(fields, self.keys, time, waits, by, ranking, self.rank, self.change, ttl)
        return BestOfSpans(fields, self.keys, time, self.size // MICROSECOND, by, ranking, _edges(known), self.rank)


def _edges(fields: Schema) -> tuple[str, ...]:
    """The new fields for the edges of a span: none if events have one of them."""
    return () if START in fields.names or END in fields.names else (START, END)
