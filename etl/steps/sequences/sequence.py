"""Ordered patterns over the events of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    format_type,
    nested_schema,
    visible,
)
from etl.expressions import analyse, compile_expression
from etl.steps.keyed_options import MICROSECOND, KeyedStep, check_length
from etl.steps.sequences.pattern import WORDS, Pattern, read_pattern
from etl.steps.sequences.references import Reference, read_reference

if TYPE_CHECKING:
    from etl.state.sequences.automaton import Element
    from etl.state.sequences.results import ResultField

START, END = "sequence_start", "sequence_end"

EventName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Sequence(KeyedStep):
    """Find ordered patterns in the events of each key, and give one event for each match.

    The pattern names events, which are those that meet a condition, in their order:

    | pattern | matches |
    | --- | --- |
    | `a then b` | `b` some time after `a`; other events between are skipped |
    | `a then next b` | `b` is the event of the key directly after `a` |
    | `a{5}`, `a{5,}`, `a{2,5}`, `a?`, `a+`, `a*` | 5 of `a`, at least 5, 2 to 5, at most one, at least one, any number |
    | `a{5,} consecutive then b` | as `a{5,}`, with no other event of the key between them |
    | `a then not c then b` | no `c` between `a` and `b`; `not c or d`: neither of them |
    | `a then not c` | no `c` until `within` after `a`; known when the watermark has passed that time |

    A sequence is shorter than ``within``, from its first event to its last, and of at most ``max_events`` events of the key
    that meet a condition. It begins at every event that can be its first. An event is taken if it fits, and else skipped. If it
    fits more than one part of the pattern, each is tried; reported is the way in which earlier parts have most events, or,
    with `?` behind their number (`a+? then b`), fewest. A sequence ends with the first event that completes it: `a{5,}` at
    the end is `a{5}`. The event that ends a `not` is not between: if it meets both conditions, the sequence goes on.

    Matches of a key do not overlap. Of several that end with the same event, the one that began first is given, with all that it
    took; then the next one begins behind this event, or, if the pattern ends with `not`, behind the last event taken.

    The events of a key are decided in the order of their times, those of the same time in the order of their offsets, when
    the watermark has passed them: the latest time of **all** events read, less ``late``. So the result does not depend on
    the order in which events are read, late ones aside, which are dropped and counted; they are those that meet a condition
    and are older than the watermark. Events without a time go to the dead letters. Without ``time`` the time of reading counts.

    A match has the fields ``sequence_start`` and ``sequence_end`` (of a pattern that ends with `not`: the end of its time), the
    keys, ``NAME_count`` for each event of the pattern that is taken, and ``fields``: `accepted.user_name` is that of the last
    event of this name, `first(failed.user_name)` that of the first.

    State holds the events that meet a condition, with their keys and the chosen fields, until the watermark is ``within`` later,
    and a quarter longer; with `next` or `consecutive` all events. Only the events of keys for which a match can end are read
    again. It is divided into 16 parts by the hash of the keys, which has 128 bits. Exactly-once across restarts; other keys,
    conditions, patterns or another ``within`` need a new state.

    ```yaml
    type: sequence
    keys: [source.ip]
    time: timestamp
    within: 10m
    events:
      failed: outcome = 'failure'
      accepted: outcome = 'success'
    pattern: failed{5,} then accepted
    fields:
      user_name: accepted.user_name
    ```
    """

    type: Literal["sequence"] = "sequence"
    within: Duration = Field(description="How long after its first event a sequence may go on.", examples=["10m"])
    events: dict[EventName, Expression] = Field(
        description="Names of events, and the conditions that they meet.",
        min_length=1,
        examples=[{"failed": "outcome = 'failure'"}],
    )
    pattern: str = Field(description="The order of the events.", min_length=1, examples=["failed{5,} then accepted"])
    chosen: dict[FieldName, str] = Field(
        default={},
        alias="fields",
        description="New fields, and whose values they have.",
        examples=[{"user": "accepted.user_name"}],
    )
    max_events: int = Field(
        default=1000, ge=2, le=100_000, description="Events of a key from the first to the last of a sequence."
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which all that was read is decided; none means it waits."
    )

    # ── Planning ──

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check; conditions, the pattern, references, names."""
        yield from super().check(incoming)
        yield from check_length("within", self.within)
        yield from self._check_events(incoming)
        pattern = self._pattern
        yield from pattern.findings or self._check_size()
        if pattern.elements:
            yield from (found for found in self._references(incoming).values() if isinstance(found, Finding))
        yield from self._check_names(incoming, pattern)

    def _check_events(self, incoming: Schema) -> Iterator[Finding]:
        for name, condition in self.events.items():
            if name in WORDS:
                message = f"{name!r} is a word of patterns, and no name of an event"
                yield Finding("bad-name", message, ("events", name), "give the event another name")
            found = analyse(condition, visible(incoming))
            yield from found.condition_findings_at("events", name)
            if found.spark_reason and not found.errors:
                message = f"the condition needs Spark, where this step does not run: {found.spark_reason}"
                yield Finding(
                    "needs-spark", message, ("events", name), "compute it with set in front of the step", at=found.start
                )

    def _check_size(self) -> Iterator[Finding]:
        from etl.state.sequences.automaton import MAX_STATES, TooManyStatesError, check_size

        try:
            check_size(*self._elements)
        except TooManyStatesError:
            message = f"the pattern counts more than {MAX_STATES} events, or has more than 7 optional ones in a row"
            yield Finding("bad-pattern", message, ("pattern",), "count many events with a window, and put the sequence behind it")

    def _check_names(self, incoming: Schema, pattern: Pattern) -> Iterator[Finding]:
        used = {*pattern.names, *pattern.absent_after, *(name for one in pattern.elements for name in one.absent)}
        for name in self.events if pattern.elements else ():
            if name not in used and name not in WORDS:
                yield Finding("unused-event", f"the pattern does not name {name!r}", ("events", name), severity="warning")
        names = [START, END, *self.keys, *map(_count_name, pattern.names), *self.chosen]
        for at, name in enumerate(names):
            if name in names[:at]:
                where = ("fields", name) if name in self.chosen else ("keys",)
                yield Finding(
                    "name-conflict", f"two fields of the result are named {name!r}", where, "give the field another name"
                )
                return
        try:
            nested_schema(pa.schema([(name, pa.null()) for name in names]))
        except ValueError as error:
            yield Finding("name-conflict", str(error), ("fields",), "give the field another name")

    @property
    def _pattern(self) -> Pattern:
        return read_pattern(self.pattern, self.events)

    def _references(self, incoming: Schema) -> Mapping[str, Reference | Finding]:
        """By the name of the new field."""
        names = self._pattern.names
        return {new: read_reference(text, names, visible(incoming), ("fields", new)) for new, text in self.chosen.items()}

    def _known_references(self, incoming: Schema) -> Mapping[str, Reference]:
        return {new: found for new, found in self._references(incoming).items() if isinstance(found, Reference)}

    def fields(self, incoming: Schema) -> Schema:
        """``sequence_start``, ``sequence_end``, keys, the number of events of each name, chosen fields."""
        types = dict.fromkeys((START, END), TIMESTAMP)
        types |= {name: incoming.field(name).type if name in incoming.names else pa.null() for name in self.keys}
        types |= {_count_name(name): pa.int64() for name in self._pattern.names}
        references = self._known_references(incoming)
        for name in self.chosen:
            types[name] = incoming.field(references[name].field).type if name in references else pa.null()
        return pa.schema(list(types.items()))

    def needs(self, incoming: Schema) -> frozenset[str]:
        """Keys, time, the fields of conditions and references."""
        inputs = (analyse(condition, visible(incoming)).fields for condition in self.events.values())
        return frozenset(self._columns(incoming)).union([self.time] if self.time else [], *inputs)

    def _columns(self, incoming: Schema) -> tuple[str, ...]:
        """The fields of events that state holds."""
        return tuple(dict.fromkeys([*self.keys, *(one.field for one in self._known_references(incoming).values())]))

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, sequences that wait for absent events are decided on the clock."""
        if self.time or not self._pattern.absent_after:
            return self.idle
        return max(self.idle or timedelta(0), self.within + timedelta(seconds=1))

    def reach(self) -> timedelta:
        """How far the watermark of results is behind."""
        return self.within

    # ── Running ──

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time, pattern and conditions; the fields of events that are results."""
        kept = {"within": str(self.within), "pattern": self.pattern, **{f"event {k}": v for k, v in self.events.items()}}
        fields = {f"{OPTIONAL}{name}": format_type(incoming.field(name).type) for name in self._columns(incoming)}
        return {**super().remembered(incoming), **kept, **fields}

    def operator(self, incoming: Schema) -> Operator:
        """The matches of the pattern's automaton."""
        from etl.state.sequences.automaton import compile_automaton
        from etl.state.sequences.sequence_events import SequenceEvents

        pattern, known = self._pattern, visible(incoming)
        return SequenceEvents(
            fields=self.fields(incoming),
            results=tuple(self._results(incoming)),
            columns=pa.schema([known.field(name) for name in self._columns(incoming)]),
            group_by=self.keys,
            time=self.event_time()[0],
            arrival=self.time is None,
            conditions={name: compile_expression(text, known) for name, text in self.events.items()},
            automaton=compile_automaton(*self._elements),
            within=self.within // MICROSECOND,
            most=self.max_events,
            strict=any(one.next or one.consecutive for one in pattern.elements),
            unanswered=bool(pattern.absent_after),
            overlap=False,
        )

    @property
    def _elements(self) -> tuple[list[Element], int]:
        """The elements of the automaton, and the mask of events that must not be behind them."""
        from etl.state.sequences.automaton import Element

        bits = {name: bit for bit, name in enumerate(self.events)}

        def mask(names: Iterable[str]) -> int:
            return sum({1 << bits[name] for name in names})

        pattern = self._pattern
        elements = [
            Element(bits[one.name], one.least, one.most, one.next, one.consecutive, one.reluctant, mask(one.absent))
            for one in pattern.elements
        ]
        return elements, mask(pattern.absent_after)

    def _results(self, incoming: Schema) -> Iterator[ResultField]:
        from etl.state.sequences.results import Count, EndTime, StartTime, Value

        elements: dict[str, tuple[int, ...]] = {}
        for number, one in enumerate(self._pattern.elements):
            elements[one.name] = (*elements.get(one.name, ()), number)
        every = tuple(range(len(self._pattern.elements)))
        yield from (StartTime(), EndTime())
        yield from (Value(name, every, last=True) for name in self.keys)
        yield from (Count(own) for own in elements.values())
        for reference in self._known_references(incoming).values():
            yield Value(reference.field, elements[reference.name], reference.last)


def _count_name(name: str) -> str:
    return f"{name}_count"
