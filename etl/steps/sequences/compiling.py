"""A step `sequence` → the operator that finds its matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Schema
from etl.expressions import compile_expression
from etl.steps.keyed.options import MICROSECOND

if TYPE_CHECKING:
    from etl.state.sequences.automaton import LinkedElements
    from etl.state.sequences.event_tests import EventTest
    from etl.state.sequences.results import ResultField
    from etl.state.sequences.sequence_events import SequenceEvents
    from etl.steps.sequences.sequence import Sequence


def compile_sequence(step: Sequence, incoming: Schema) -> SequenceEvents:
    """The operator of a step without mistakes."""
    from etl.state.sequences.automaton import compile_automaton
    from etl.state.sequences.sequence_events import SequenceEvents

    pattern, linked = step.parsed_pattern, linked_elements(step)
    return SequenceEvents(
        fields=step.fields(incoming),
        results=tuple(_results(step, linked, incoming)),
        columns=pa.schema([incoming.field(name) for name in step.columns(incoming)]),
        group_by=step.keys,
        time=step.event_time()[0],
        arrival=step.time is None,
        conditions={name: compile_expression(text, incoming) for name, text in step.events.items()},
        automaton=compile_automaton(linked),
        within=step.within // MICROSECOND,
        max_events=step.max_events,
        strict=any(one.next or one.consecutive for one in pattern.parts),
        unanswered=linked.unanswered,
        by_turns=linked.has_loops,
        overlap=step.after_match == "next_event",
        skip=_skip(step),
        tests=tuple(_tests(step, incoming)),
        open_fields=_open_fields(step, incoming),
        open_results=tuple(_open_results(step, linked)),
    )


def linked_elements(step: Sequence) -> LinkedElements:
    """The elements of the pattern, and which may follow which. Raises TooManyStatesError."""
    from etl.steps.sequences.linking import link_elements

    return link_elements(step.parsed_pattern, {name: bit for bit, name in enumerate(step.events)})


def _skip(step: Sequence) -> tuple[int, bool]:
    """The bit of the name at whose event the next match may begin, 0 for none, and whether its last one is meant."""
    name, last = step.skip_target
    return (1 << list(step.events).index(name) if name else 0), last


def _tests(step: Sequence, incoming: Schema) -> Iterator[EventTest]:
    from etl.state.sequences.event_tests import EventTest

    bits = {name: bit for bit, name in enumerate(step.events)}
    for one in step.known_comparisons(incoming):
        event, earlier = one.event, one.earlier
        yield EventTest(bits[event.name], bits[earlier.name], earlier.last, one.holds, event.field, earlier.field, one.type)


def _elements_by_name(linked: LinkedElements) -> Mapping[str, tuple[int, ...]]:
    """The numbers of the elements of each name."""
    found: dict[str, tuple[int, ...]] = {}
    for number, name in enumerate(linked.names):
        found[name] = (*found.get(name, ()), number)
    return found


def _open_fields(step: Sequence, incoming: Schema) -> Schema:
    """Of sequences that have begun: those of results but chosen ones and the list."""
    fields = list(step.fields(incoming))[: 2 + len(step.keys) + len(step.parsed_pattern.names)]
    return pa.schema([field.with_name("last_event") if at == 1 else field for at, field in enumerate(fields)])


def _open_results(step: Sequence, linked: LinkedElements) -> Iterator[ResultField]:
    from etl.state.sequences.results import Count, EndTime, StartTime, Value

    every = tuple(range(len(linked.names)))
    yield from (StartTime(), EndTime())
    yield from (Value(name, every, last=True) for name in step.keys)
    yield from (Count(own) for own in _elements_by_name(linked).values())


def _results(step: Sequence, linked: LinkedElements, incoming: Schema) -> Iterator[ResultField]:
    from etl.state.sequences.results import EventList, Value

    yield from _open_results(step, linked)
    if step.list_fields:
        types = {field.name: field.type for field in step.listed(incoming)}
        yield EventList(linked.names, {name: types[name] for name in step.list_fields}, step.list_limit, linked.has_loops)
    for reference in step.known_references(incoming).values():
        yield Value(reference.field, _elements_by_name(linked)[reference.name], reference.last)
