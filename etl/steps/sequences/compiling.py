"""A step `sequence` → the operator that finds its matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Schema
from etl.expressions import compile_expression
from etl.steps.keyed.options import MICROSECOND

if TYPE_CHECKING:
    from etl.state.sequences.automaton import Element
    from etl.state.sequences.event_tests import EventTest
    from etl.state.sequences.results import ResultField
    from etl.state.sequences.sequence_events import SequenceEvents
    from etl.steps.sequences.sequence import Sequence


def compile_sequence(step: Sequence, incoming: Schema) -> SequenceEvents:
    """The operator of a step without mistakes."""
    from etl.state.sequences.automaton import compile_automaton
    from etl.state.sequences.sequence_events import SequenceEvents

    pattern = step.parsed_pattern
    return SequenceEvents(
        fields=step.fields(incoming),
        results=tuple(_results(step, incoming)),
        columns=pa.schema([incoming.field(name) for name in step.columns(incoming)]),
        group_by=step.keys,
        time=step.event_time()[0],
        arrival=step.time is None,
        conditions={name: compile_expression(text, incoming) for name, text in step.events.items()},
        automaton=compile_automaton(*elements_of(step)),
        within=step.within // MICROSECOND,
        most=step.max_events,
        strict=any(one.next or one.consecutive for one in pattern.elements),
        unanswered=bool(pattern.absent_after),
        overlap=step.after_match == "next_event",
        tests=tuple(_tests(step, incoming)),
        open_fields=_open_fields(step, incoming),
        open_results=tuple(_open_results(step)),
    )


def elements_of(step: Sequence) -> tuple[list[Element], int]:
    """The elements of the automaton, and the mask of events that must not follow them."""
    from etl.state.sequences.automaton import Element

    bits = {name: bit for bit, name in enumerate(step.events)}

    def mask(names: Iterable[str]) -> int:
        return sum({1 << bits[name] for name in names})

    elements = [
        Element(bits[one.name], one.least, one.most, one.next, one.consecutive, one.reluctant, mask(one.absent))
        for one in step.parsed_pattern.elements
    ]
    return elements, mask(step.parsed_pattern.absent_after)


def _tests(step: Sequence, incoming: Schema) -> Iterator[EventTest]:
    from etl.state.sequences.event_tests import EventTest

    bits = {name: bit for bit, name in enumerate(step.events)}
    for one in step.known_comparisons(incoming):
        event, earlier = one.event, one.earlier
        yield EventTest(bits[event.name], bits[earlier.name], earlier.last, one.holds, event.field, earlier.field, one.type)


def _elements_by_name(step: Sequence) -> Mapping[str, tuple[int, ...]]:
    """The numbers of the elements of each name."""
    found: dict[str, tuple[int, ...]] = {}
    for number, one in enumerate(step.parsed_pattern.elements):
        found[one.name] = (*found.get(one.name, ()), number)
    return found


def _open_fields(step: Sequence, incoming: Schema) -> Schema:
    """Of sequences that have begun: those of results but chosen ones and the list."""
    fields = list(step.fields(incoming))[: 2 + len(step.keys) + len(step.parsed_pattern.names)]
    return pa.schema([field.with_name("last_event") if at == 1 else field for at, field in enumerate(fields)])


def _open_results(step: Sequence) -> Iterator[ResultField]:
    from etl.state.sequences.results import Count, EndTime, StartTime, Value

    every = tuple(range(len(step.parsed_pattern.elements)))
    yield from (StartTime(), EndTime())
    yield from (Value(name, every, last=True) for name in step.keys)
    yield from (Count(own) for own in _elements_by_name(step).values())


def _results(step: Sequence, incoming: Schema) -> Iterator[ResultField]:
    from etl.state.sequences.results import EventList, Value

    yield from _open_results(step)
    if step.list_fields:
        names = [element.name for element in step.parsed_pattern.elements]
        types = {field.name: field.type for field in step.listed(incoming)}
        yield EventList(names, {name: types[name] for name in step.list_fields}, step.list_limit)
    for reference in step.known_references(incoming).values():
        yield Value(reference.field, _elements_by_name(step)[reference.name], reference.last)
