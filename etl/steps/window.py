"""Windows over time: events → one event per window and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.aggregates.checks import Aggregate, check_aggregate, with_types
from etl.api import (
    OPTIONAL,
    PENDING,
    TIMESTAMP,
    Duration,
    Expression,
    FieldName,
    Finding,
    Operator,
    Schema,
    StatefulStep,
    Step,
    format_type,
    visible,
    with_changes,
)
from etl.expressions import analyse
from etl.steps.heartbeats import ARRIVAL
from etl.steps.option_checks import idle_by_clock
from etl.steps.windowing.checks import window_findings
from etl.steps.windowing.emit import (
    Emit,
    describe_emit,
    intervals,
    late_intervals,
    longest_interval,
)
from etl.steps.windowing.lengths import (
    FieldLength,
    Length,
    Size,
    described_panes,
    longest,
    remembered_lengths,
)
from etl.steps.windowing.totals import is_total, remembered_totals, total_notes, totals_operator

START, END = "window_start", "window_end"


class Window(StatefulStep):
    """Group events by time and fields, and give one event per window and group with aggregates of it.

    Windows are tumbling (``size``), sliding (``size`` and ``slide``: an event is in each window it falls into),
    cumulating (``size`` and ``step``: windows of one start that grow by ``step`` up to ``size``) or sessions (``gap``: a
    window ends when its group is silent that long). They begin at multiples of ``slide``, or ``size``, since 1970 UTC, and
    hold times ``window_start <= time < window_end``. Without ``time`` they go by the time at which events are read.

    Without ``size`` and ``gap``, and with ``emit: on_change``, there are no windows: aggregates are of all events so far, and
    their results are a changelog, in which a result replaces the one before of its group (docs/changes.md). Without events there
    are no results, also without ``group_by``, as in Flink's streams: SQL over a table gives a row with a count of 0. Such a step
    takes changelogs, too: a row that is removed is subtracted from counts, sums and averages of whole numbers and decimals; where
    there are other aggregates, all rows of a group are kept, and those of groups with changes are read again, a million at most.
    With ``ttl`` the state of a group without events is removed: an event that comes later begins a new group, whose first result
    replaces no other one; what removes a row of the old one is left out.

    ``size: [1m, 5m, 1h]`` gives windows of each of these sizes in one pass: an event is aggregated once, for spans that
    all sizes are made of. ``size: {field: seconds, default: 5m, max: 1d}`` takes the size from a field of the event, and
    windows of equal start and size are one; ``gap`` with a field is the silence after each event. A session begins with
    its first event, and a session that joins two others takes back no earlier result of the second.

    The watermark is the latest time of **all** events read, filtered ones included, less ``late``. A window closes
    in the micro-batch in which the watermark passes its end; later events for it are dropped and counted as late.
    Events without a time go to the dead letters. With ``idle`` the windows of a source that falls silent are closed,
    and its events that come later for these windows are late.

    ``emit`` says when there are results, as one entry or a list. Each entry of a list gives its results as if it were alone;
    ``emit_reason`` is a field that says which one it was: `on_close`, `on_change`, `every`, `when` or `late`.

    | entry of `emit` | gives |
    | --- | --- |
    | `on_close` | each window once, when it closes |
    | `on_change` | each open window and group that has changed, after each micro-batch: for sinks that replace by key |
    | `{every: 10s}` | the same whenever the watermark passes a multiple of 10 s; `groups: all` gives also those without change |
    | `{when: failures >= 100}` | a window and group once, after the micro-batch in which the condition first holds |
    | `{when: …, again_after: 1h}` | and again with a change an hour or more after that, by the watermark, if it still holds |
    | `{late: {for: 1h}}` | a closed window again after each micro-batch with events for it, until an hour after its end |
    | `{late: {for: 1h, every: 30s}}` | the same whenever the watermark passes a multiple of 30 s, and at the end of the hour |
    | `{late: {…, as: separate}}` | only the late events, each of them in one result |

    Intervals are those of event time: they follow the watermark. On a quiet stream, on which it stands still, ``every`` is the
    time since the last events by the clock: what has changed has its result then, and with ``groups: all`` all groups have
    theirs every 10 s. Such a micro-batch is part of the logged offsets, so one that runs again gives the same results.
    ``having`` applies to all.
    Sessions and windows whose size is in a field are given on close and on change only.

    | aggregate | gives | of null | memory a group |
    | --- | --- | --- | --- |
    | `count(*)`, `count(x)`, `count_if(condition)` | bigint | 0 | constant |
    | `sum(x)` | bigint, double or decimal; null on overflow | null | constant |
    | `avg(x)` | double or decimal | null | constant |
    | `min(x)`, `max(x)` | as x | null | constant |
    | `count(distinct x)` | bigint, exact | 0 | every distinct value |
    | `approx_count_distinct(x, 0.01)` | bigint, with this standard error; without one 4.4 %; exact if fewer | 0 | 80 or 4 KB |
    | `first(x)`, `last(x)` | x of the earliest or latest event that has one | null | constant |
    | `collect(x, 100)` | array: x of the earliest 100 events that have one | empty | the values kept |
    | `collect_all(x, 100)` | array: x of the earliest 100 events, null where one has none | empty | the values kept |
    | `percentile(x, 0.95)` | double, exact, between two values where it falls there | null | every distinct value |
    | `approx_percentile(x, 0.95)` | as x, a value that occurs | null | bounded |
    | `variance(x)`, `stddev(x)` | double, of a sample; null for fewer than two values | null | constant |
    | `correlation(x, y)` | double, of events that have both; null for fewer than two | null | constant |
    | `min_by(x, y)`, `max_by(x, y)` | x of the event with least or greatest y, of equal y the first or last | null | constant |
    | `mode(x)` | the most frequent x, of equally frequent ones the smallest | null | every distinct value |
    | `top(x, 10)` | array of `value`, `count`: the 10 most frequent x | empty | every distinct value |
    | `collect_set(x, 100)` | array: the 100 smallest distinct values, in order | empty | the values kept |

    | `approx_top(x, 10)` | as `top`; each count is less than 0.05 % of the group's events too low | empty | 2048 values |
    | `histogram(x, [0.1, 1])` | array of `from`, `to`, `count`: events with `from <= x < to` | zeros | constant |
    | `histogram(x, 100)` | the same for buckets of a width, those with events | empty | a count for each bucket |
    | `per_second(count(*))` | double: any count or sum, divided by the seconds of the window | as without | as without |

    The first and the last bucket between bounds have one edge, as in the aggregation `range` of Elasticsearch; there
    `histogram` has buckets of a width, which begin at its multiples. Counts are of one bucket, where those of Prometheus
    are of all up to a bound. A session lasts from its first event to `window_end`.

    More than 5 million distinct values in a group, or 10,000 buckets of a width, end the run with a message.

    x is any expression over the event's fields; ``filter (where condition)`` after an aggregate limits its events.
    Of events with the same time the one with the smaller offset is the earlier. State holds an entry per group and
    pane, the longest span that each window holds whole or not at all, in files (docs/state.md). Exactly-once across
    restarts. Aggregates may be added and removed; other changes of what is aggregated need a new state.

    ```yaml
    type: window
    time: timestamp
    size: 10m
    slide: 1m
    late: 2m
    group_by: [source.ip]
    aggregates:
      failures: count(*)
      users: count(distinct user_name)
    having: failures >= 5
    ```
    """

    stateful: ClassVar[bool] = True

    type: Literal["window"] = "window"
    time: FieldName | None = Field(
        default=None, description="Event time field, a timestamp; without it windows go by the time of reading."
    )
    size: Size | None = Field(
        default=None,
        description="Length of a window, a list of several lengths, or the field in which each event has it.",
        examples=["10m"],
    )
    slide: Duration | None = Field(
        default=None, description="Distance between the beginnings of windows; none means they follow one another."
    )
    step: Duration | None = Field(
        default=None, description="Length by which windows of one start grow, up to `size`; none means they do not grow."
    )
    gap: Length | None = Field(
        default=None,
        description="Silence of a group that ends its session, or the field in which each event has it; instead of a size.",
        examples=["30m"],
    )
    late: Duration = Field(
        default=timedelta(seconds=10), description="How far behind the latest event time an event may come and still count."
    )
    group_by: tuple[FieldName, ...] = Field(default=(), description="Fields that make a group; null is a group of its own.")
    aggregates: dict[FieldName, Expression] = Field(
        description="New fields and the aggregates they hold.", min_length=1, examples=[{"failures": "count(*)"}]
    )
    having: Expression | None = Field(
        default=None, description="Condition over window_start, window_end, group fields and aggregates that a result must meet."
    )
    emit: Emit = Field(
        default="on_close",
        description="When a window gives results: once when it closes, after each micro-batch that changed it, "
        "or a list of these and of entries with `every`, `late` or `when`. Without `size` and `gap`: on_change.",
    )
    emit_reason: FieldName | None = Field(
        default=None, description="New field that says which entry of `emit` a result is from, such as `on_close` or `when`."
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which open windows are closed; none means they wait."
    )
    ttl: Duration | None = Field(
        default=None,
        description="Without `size` and `gap`: how long after its last event the state of a group is removed; none means never.",
        examples=["7d"],
    )

    # ── Planning ──

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Lengths that make no window, unknown fields, bad aggregates, names that contradict each other."""
        return window_findings(self, incoming, [] if is_total(self) else [START, END])

    def takes_changes(self) -> bool:
        """Whether it has no length: then rows are added and subtracted."""
        return is_total(self)

    def fields(self, incoming: Schema) -> Schema:
        """``window_start``, ``window_end``, group fields, aggregates, the reason; without a length the kind of change."""
        types = {} if is_total(self) else dict.fromkeys((START, END), self._time_type(incoming))
        for name in self.group_by:
            types[name] = incoming.field(name).type if name in incoming.names else pa.null()
        types |= {name: aggregate.type for name, aggregate in self.checked_aggregates(incoming).items()}
        types |= {self.emit_reason: pa.string()} if self.emit_reason else {}
        fields = pa.schema(list(types.items()))
        return with_changes(fields, self.group_by) if is_total(self) else fields

    def needs(self, incoming: Schema) -> frozenset[str]:
        """Time, group fields and the fields of aggregates."""
        inputs = (aggregate.fields for aggregate in self.checked_aggregates(incoming).values())
        lengths = [one.field for one in (self.size, self.gap) if isinstance(one, FieldLength)]
        return frozenset(self.group_by).union([self.time] if self.time else [], lengths, *inputs)

    def event_time(self) -> tuple[str, timedelta]:
        """The time field and lateness; time of reading is never late."""
        return (self.time, self.late) if self.time else (ARRIVAL, timedelta(0))

    def idle_after(self) -> timedelta | None:
        """The option; windows over time of reading close by the clock, once the end of an open one has passed."""
        if self.time:
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """The length of a window, or the silence that ends a session; an interval of results if that is longer."""
        return max(longest(self.size), longest(self.gap), longest_interval(self.emit))

    def intervals(self) -> Mapping[timedelta, bool]:
        """Those of ``emit``."""
        return intervals(self.emit)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """What windows share, what is kept and how long, and when results are given, unless on close only."""
        if is_total(self):
            yield from total_notes(self, incoming)
            return
        yield from described_panes(self.size, self.slide, self.step)
        what = "group and pane" if self.gap is None else "session"
        yield f"keeps a row of each {what}, until the watermark has passed its {'windows' if self.gap is None else 'end'}"
        if self.emit != "on_close":
            yield f"results: {describe_emit(self.emit)}"

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """The windows; before them a `set` of what Spark computes for aggregates, and after them a filter for results."""
        from etl.steps.windowing.spark_arguments import with_arguments

        front, window = with_arguments(self, incoming)
        is_filtered = is_total(self) or (self.having and analyse(self.having, self.fields(incoming)).spark_reason)
        if self.having is None or not is_filtered:
            return (*front, window)
        from etl.steps.filter import Filter

        return (*front, window.model_copy(update={"having": None}), Filter(where=self.having))

    # ── Running on the state lane ──

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Panes, groups and each aggregate with the types of its fields; of results only for which interval late ones wait."""
        lengths = remembered_lengths(size=self.size, slide=self.slide, step=self.step, gap=self.gap)
        groups = {f"group {name}": format_type(incoming.field(name).type) for name in self.group_by}
        aggregates = {
            f"{OPTIONAL}{name}": with_types(self.aggregates[name], one.fields, incoming)
            for name, one in self.checked_aggregates(incoming).items()
        }
        if is_total(self):
            return remembered_totals(self, incoming, groups | aggregates)
        late = {f"{PENDING}late results": interval for interval in late_intervals(self.emit)}
        return {"time": self.event_time()[0], **lengths, **groups, **aggregates, **late}

    def operator(self, incoming: Schema) -> Operator:
        """Time windows or sessions over the aggregates."""
        from etl.steps.windowing.operators import window_operator

        return totals_operator(self, incoming) if is_total(self) else window_operator(self, incoming)

    def checked_aggregates(self, incoming: Schema) -> dict[str, Aggregate]:
        """The aggregates with their types and findings, by field."""
        return {name: check_aggregate(text, visible(incoming)) for name, text in self.aggregates.items()}

    def _time_type(self, incoming: Schema) -> pa.DataType:
        known = self.time in incoming.names and pa.types.is_timestamp(incoming.field(self.time).type)
        return incoming.field(self.time).type if known else TIMESTAMP
