"""Ordered patterns over the events of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

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
    closest,
    format_duration,
    format_type,
    nested_schema,
    unknown_field,
    visible,
)
from etl.expressions import analyse
from etl.steps.keyed.options import KeyedStep
from etl.steps.option_checks import idle_by_clock, length_finding, unused_option
from etl.steps.sequences.pattern import Pattern, first_event_only
from etl.steps.sequences.pattern_reader import WORDS, read_pattern
from etl.steps.sequences.references import Comparison, Reference, read_comparison, read_reference

START, END, LIST = "sequence_start", "sequence_end", "events"

AFTER_MATCH = r"^(past_last_event|next_event|(first|last)\([A-Za-z_][A-Za-z0-9_]*\))$"
"""The texts of `after_match`."""

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
    | `(a then b){2,} then c` | `a` and `b` by turns, at least twice, and then `c`; also with `next` and `consecutive` |
    | `a then not c then b` | no `c` between `a` and `b`; `not c or d`: neither of them |
    | `a then not c` | no `c` until `within` after `a`; known when the watermark has passed that time |

    `a then (b | c then d)` is `a`, and then either `b`, or `c` and `d`. Groups and alternatives have the numbers that events
    have: `(a | b)+ then c`.

    A sequence is shorter than ``within``, from its first event to its last, and of at most ``max_events`` events of the key
    that meet a condition. It begins at every event that can be its first. An event is taken if it fits, and else skipped. If it
    fits more than one part of the pattern, each is tried; reported is the way in which earlier parts have most events, or,
    with `?` after their number (`a+? then b`), fewest; with `+` (`a++ then b`), an event that `a` can take goes to no later part,
    and a group keeps events with which it can begin again. Of alternatives the first is preferred. A sequence ends with the
    first event that completes it: `a{5,}` at the end is `a{5}`, and `a then (b then c | b)` is `a then b`. The event that ends a
    `not` is not between: if it meets both conditions, the sequence goes on. `not` in a group stands between two of its parts.

    Matches of a key do not overlap. Of several that end with the same event, the one that began first is given, with all that it
    took; then the next one begins after this event, or, if the pattern ends with `not`, after the last event taken. With
    ``after_match: last(b)`` or `first(b)` it may begin at the last or first `b` of the match; if this is the event with which the
    match began, at the one after it, and if the match has no `b`, after its last event.

    The events of a key are decided in the order of their times, those of the same time in the order of their offsets, when
    the watermark has passed them: the latest time of **all** events read, less ``late``. So the result does not depend on
    the order in which events are read, late ones aside, which are dropped and counted; they are those that meet a condition
    and are older than the watermark. Events without a time go to the dead letters. Without ``time`` the time of reading counts.

    Conditions on earlier events stand in ``where``: `accepted.source.ip <> failed.source.ip` compares each `accepted` with the
    last `failed` of the sequence, `first(failed.source.ip)` is that of the first one, and `failed.user_name <>
    last(failed.user_name)` compares with the one before. An event that does not meet them does not count as one of its name. Null
    meets none; where there is no earlier event, all are met. Of several ways to a part of the pattern only the first is
    followed, so a condition on the last event may miss a match where events fit several parts. With ``after_match: next_event``
    matches may overlap: each event at which a sequence can begin gives the one that ends first.

    A match has the fields ``sequence_start`` and ``sequence_end`` (of a pattern that ends with `not`: the end of its time), the
    keys, ``NAME_count`` for each event of the pattern that is taken, and ``fields``: `accepted.user_name` is that of the last
    event of this name, `first(failed.user_name)` that of the first. With ``list``, ``events`` has the events that made it:
    `event` (the name), `event_time`, and these fields.

    State holds the events that meet a condition, with their keys and the fields that are used, until the watermark is ``within``
    later, and a quarter longer; with `next` or `consecutive` all events. Of keys for which a match can end, those of the last
    ``within`` are read again. Where a pattern ends with `not`, has ``where``, or matches overlap, n events of a key take up to
    n times ``max_events`` steps. State is divided into 16 parts by the hash of the keys, which has 128 bits. Exactly-once across
    restarts; other keys, conditions, patterns, comparisons, or another ``within`` or ``after_match`` need a new state.

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
    where: tuple[str, ...] = Field(
        default=(),
        description="Comparisons of events with earlier ones of the sequence.",
        examples=[["accepted.source.ip <> failed.source.ip"]],
    )
    list_fields: tuple[FieldName, ...] = Field(
        default=(),
        alias="list",
        description="Fields of the events of a sequence, which then has the list of them.",
        examples=[["message"]],
    )
    list_limit: int = Field(default=100, ge=1, le=10_000, description="Events that are listed: the last ones.")
    after_match: str = Field(
        default="past_last_event",
        description="Where sequences may begin after a match: after its last event (`past_last_event`), at each event "
        "(`next_event`), or from the first or last event of a name on: `first(NAME)`, `last(NAME)`.",
        pattern=AFTER_MATCH,
        examples=["last(failed)"],
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
        yield from length_finding("within", self.within)
        yield from self._check_events(incoming)
        pattern = self.parsed_pattern
        yield from pattern.findings or self._check_size()
        if pattern.elements:
            yield from self._check_skip(pattern)
            found = (*self._references(incoming).values(), *self._comparisons(incoming))
            yield from (one for one in found if isinstance(one, Finding))
        yield from self._check_names(incoming, pattern)

    def _check_events(self, incoming: Schema) -> Iterator[Finding]:
        from etl.state.sequences.automaton import MAX_NAMES

        if len(self.events) > MAX_NAMES:
            message = f"{len(self.events)} events are named, more than {MAX_NAMES}"
            yield Finding("bad-pattern", message, ("events",), "let conditions of several be one, with OR")
        for name, condition in self.events.items():
            if name in WORDS:
                message = f"{name!r} is a word of patterns, and no name of an event"
                yield Finding("bad-name", message, ("events", name), "give the event another name")
            found = analyse(condition, visible(incoming))
            yield from found.condition_findings_at("events", name)
            if found.spark_reason and not found.errors:
                message = f"the condition needs Spark, where this step does not run: {found.spark_reason}"
                yield Finding("needs-spark", message, ("events", name), "compute it with set before the step", at=found.start)

    def _check_size(self) -> Iterator[Finding]:
        from etl.state.sequences.automaton import MAX_STATES, MAX_SUCCESSORS, TooManyStatesError, check_size
        from etl.steps.sequences.compiling import linked_elements

        try:
            check_size(linked_elements(self))
        except TooManyStatesError:
            message = (
                f"the pattern counts more than {MAX_STATES} events, or more than {MAX_SUCCESSORS} events may be the next one"
            )
            yield Finding("bad-pattern", message, ("pattern",), "count many events with a window, and put the sequence after it")

    def _check_skip(self, pattern: Pattern) -> Iterator[Finding]:
        name, last = self.skip_target
        at = self.after_match.find("(") + 1
        if name and name not in pattern.names:
            near = closest(name, pattern.names)
            hint = f"did you mean {near!r}?" if near else f"events here: {', '.join(pattern.names)}"
            yield Finding("unknown-event", f"the pattern takes no event {name!r}", ("after_match",), hint, at=at)
        elif name and first_event_only(pattern, name, last):
            message = f"each match begins with this {name!r}, so the next one would be the same"
            yield Finding("bad-reference", message, ("after_match",), "next_event lets matches overlap", at=at)

    def _check_names(self, incoming: Schema, pattern: Pattern) -> Iterator[Finding]:
        for name in self.events if pattern.elements else ():
            if name not in pattern.positions and name not in WORDS:
                yield Finding("unused-event", f"the pattern does not name {name!r}", ("events", name), severity="warning")
        for at, name in enumerate(self.list_fields):
            if name not in incoming.names:
                yield unknown_field(name, incoming, ("list", at))
        if "list_limit" in self.model_fields_set and not self.list_fields:
            yield unused_option("list_limit", "no events are listed", "give list some fields")
        names = [START, END, *self.keys, *map(count_name, pattern.names), *([LIST] if self.list_fields else []), *self.chosen]
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
    def parsed_pattern(self) -> Pattern:
        """The pattern, with findings about it."""
        return read_pattern(self.pattern, self.events)

    @property
    def skip_target(self) -> tuple[str, bool]:
        """The name at whose event the next match may begin, empty if there is none; whether its last event is meant."""
        which, _, name = self.after_match.partition("(")
        return name.removesuffix(")"), which == "last"

    def _references(self, incoming: Schema) -> Mapping[str, Reference | Finding]:
        """By the name of the new field."""
        names = self.parsed_pattern.names
        return {new: read_reference(text, names, visible(incoming), ("fields", new)) for new, text in self.chosen.items()}

    def _comparisons(self, incoming: Schema) -> Iterable[Comparison | Finding]:
        pattern = self.parsed_pattern
        return [read_comparison(text, pattern, visible(incoming), ("where", at)) for at, text in enumerate(self.where)]

    def known_comparisons(self, incoming: Schema) -> Iterable[Comparison]:
        """The comparisons without mistakes."""
        return [found for found in self._comparisons(incoming) if isinstance(found, Comparison)]

    def known_references(self, incoming: Schema) -> Mapping[str, Reference]:
        """The references without mistakes, by the name of the new field."""
        return {new: found for new, found in self._references(incoming).items() if isinstance(found, Reference)}

    def fields(self, incoming: Schema) -> Schema:
        """``sequence_start``, ``sequence_end``, keys, the number of events of each name, chosen fields."""
        types = dict.fromkeys((START, END), TIMESTAMP)
        types |= {name: incoming.field(name).type if name in incoming.names else pa.null() for name in self.keys}
        types |= {count_name(name): pa.int64() for name in self.parsed_pattern.names}
        if self.list_fields:
            types[LIST] = pa.list_(pa.struct(nested_schema(self.listed(incoming))))
        references = self.known_references(incoming)
        for name in self.chosen:
            types[name] = incoming.field(references[name].field).type if name in references else pa.null()
        return pa.schema(list(types.items()))

    def needs(self, incoming: Schema) -> frozenset[str]:
        """Keys, time, the fields of conditions and references."""
        inputs = (analyse(condition, visible(incoming)).fields for condition in self.events.values())
        return frozenset(self.columns(incoming)).union([self.time] if self.time else [], *inputs)

    def columns(self, incoming: Schema) -> tuple[str, ...]:
        """The fields of events that state holds."""
        compared = (one.field for found in self.known_comparisons(incoming) for one in (found.event, found.earlier))
        listed = (name for name in self.list_fields if name in incoming.names)
        chosen = (one.field for one in self.known_references(incoming).values())
        return tuple(dict.fromkeys([*self.keys, *chosen, *compared, *listed]))

    def listed(self, incoming: Schema) -> Schema:
        """The members of the events that are listed."""
        known = [incoming.field(name) for name in self.list_fields if name in incoming.names]
        return pa.schema([("event", pa.string()), ("event_time", TIMESTAMP), *known])

    def idle_after(self) -> timedelta | None:
        """The option; by time of reading, sequences that wait for absent events are decided on the clock."""
        if self.time or not self.parsed_pattern.absent_after:
            return self.idle
        return idle_by_clock(self.idle, self.max_delay())

    def max_delay(self) -> timedelta:
        """The time of the pattern."""
        return self.within

    def notes(self, incoming: Schema) -> Iterable[str]:
        """Which events state holds, and how long."""
        which = "all events" if any(one.next or one.consecutive for one in self.parsed_pattern.parts) else "events of the pattern"
        columns = ", ".join(dict.fromkeys([self.event_time()[0], *self.columns(incoming)]))
        longest = timedelta(seconds=round(self.within.total_seconds() * 5 / 4, 3))
        yield f"{which} stay until the watermark is {format_duration(longest)} later, with {columns}"
        yield f"a sequence has at most {self.max_events} events of a key within {format_duration(self.within)}"

    # ── Running ──

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys, time, pattern and conditions; the fields of events that are results."""
        settings = {"within": str(self.within), "pattern": self.pattern, **{f"event {k}": v for k, v in self.events.items()}}
        settings |= {"after_match": self.after_match, "where": " and ".join(self.where)}
        fields = {f"{OPTIONAL}{name}": format_type(incoming.field(name).type) for name in self.columns(incoming)}
        return {**super().remembered(incoming), **settings, **fields}

    def operator(self, incoming: Schema) -> Operator:
        """The matches of the pattern's automaton."""
        from etl.steps.sequences.compiling import compile_sequence

        return compile_sequence(self, visible(incoming))


def count_name(name: str) -> str:
    return f"{name}_count"
